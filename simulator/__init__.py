"""Discrete event simulator of distributed LLM training and serving.

Nothing heavy is imported here; the rooms are described in the documentation.
"""

__version__ = "0.1.0"
