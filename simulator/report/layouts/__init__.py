"""Ranked layouts of a training as terminal page and HTML file."""
