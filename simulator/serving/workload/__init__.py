"""Requests before anything runs: when they come, how long they are, what they share and what they follow."""
