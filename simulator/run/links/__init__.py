"""What links of the fabric carry in a run: senders, meetings, bytes."""
