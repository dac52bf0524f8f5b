"""Pieces of the reports of a training step, of which a serving run shares memory, links and provenance."""
