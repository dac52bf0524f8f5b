"""Pieces of the reports of a serving run."""
