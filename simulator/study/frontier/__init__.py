"""The frontier of a serving system: tokens per second and device against tokens per second and user."""
