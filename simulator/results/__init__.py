"""What a simulated run has to say: the frozen Result, its figures, its JSON form and its file."""

from simulator.results.files import read, save
from simulator.results.result import Result
from simulator.results.summary import dumps, to_json

__all__ = ["Result", "dumps", "read", "save", "to_json"]
