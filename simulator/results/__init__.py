"""What a simulated run has to say: the frozen Result, its figures, its JSON form and its file."""

from simulator.metrics import METRICS, Metric
from simulator.results.files import read, save
from simulator.results.result import (
    SCHEMA,
    Comparison,
    CriticalPath,
    DeviceClass,
    HostMemory,
    LinkLoad,
    MemoryUse,
    Result,
    Sensitivity,
    Spans,
)
from simulator.results.summary import dumps, to_json

__all__ = [
    "METRICS",
    "SCHEMA",
    "Comparison",
    "CriticalPath",
    "DeviceClass",
    "HostMemory",
    "LinkLoad",
    "MemoryUse",
    "Metric",
    "Result",
    "Sensitivity",
    "Spans",
    "dumps",
    "read",
    "save",
    "to_json",
]
