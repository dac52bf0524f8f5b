"""What a user writes: typed specs, and the loader that fills them from YAML files and overrides."""

from simulator.specs.catalog import data_root, names
from simulator.specs.resolve import Loaded, dump, load_file, load_scenario, load_spec, scenario_hash

__all__ = ["Loaded", "data_root", "dump", "load_file", "load_scenario", "load_spec", "names", "scenario_hash"]
