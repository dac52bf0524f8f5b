"""A scenario on a machine: resolve, price, fold, execute, gather the Result.

Importing the room makes the readers of foreign files known, so that a scenario may name a Hugging Face config.
"""

from simulator.run import foreign as _foreign  # noqa: F401
