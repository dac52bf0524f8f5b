"""Networks whose every switch and cable is there: one builder a kind, one way of routing for all."""
