"""Foreign files that a scenario may name, made known to the loader: importing this module is enough."""

from simulator.interop.huggingface.translate import translate
from simulator.specs.files.foreign import TRANSLATORS

TRANSLATORS.add("workloads/models")(translate)
