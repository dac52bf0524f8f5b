"""Rows of published measurements as scenarios."""
