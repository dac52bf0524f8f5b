"""Collective profiles fitted on measured collectives."""
