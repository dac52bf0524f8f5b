"""Rows of published measurements put on the machine."""
