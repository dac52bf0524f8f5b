"""Validation against published measurements as terminal page and HTML file."""
