"""What a run of a serving system adds up to: columns of requests and iterations, totals, fleets that change."""
