"""A scenario on a machine: resolve, price, fold, execute, gather the Result.

Called, the room is the function `simulator.run` of the Python interface: `simulator.api.calls.run`.

Importing the room makes the readers of foreign files known, so that a scenario may name a Hugging Face config.
"""

import simulator.run.foreign as _foreign  # noqa: F401
