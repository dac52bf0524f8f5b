"""Foreign formats: what other tools write, as what we read."""
