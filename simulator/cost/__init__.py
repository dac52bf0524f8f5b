"""Pure functions from work and hardware to seconds, joules and money."""

from simulator.cost.device import Device, compile_device
from simulator.cost.economy import cost_usd, energy_j
from simulator.cost.kernel import KernelCost, kernel_cost, seconds
from simulator.cost.work import Attention, Decode, Gemm, Scan, Stream, Work

__all__ = [
    "Attention",
    "Decode",
    "Device",
    "Gemm",
    "KernelCost",
    "Scan",
    "Stream",
    "Work",
    "compile_device",
    "cost_usd",
    "energy_j",
    "kernel_cost",
    "seconds",
]
