"""Kernels and copies priced and compared with published times."""

from dataclasses import replace

from simulator.interop.rows.jsonl import Line
from simulator.interop.rows.kernels import COPIES, HOST_STREAM, LATENTS, MIXTURES, KernelRow, device_of, map_kernel
from simulator.interop.rows.single.copies import of_kernel
from simulator.interop.rows.single.layers import latents_of, mixture_of
from simulator.run.measured.copies import host_pass
from simulator.run.measured.kernels import benchmark_device, predicted
from simulator.run.measured.layers import attended, mixed
from simulator.study.validate.network import price_copy
from simulator.study.validate.timed import Timed, TimedOutcome, timed_line


def validate_kernel_line(line: Line) -> TimedOutcome:
    """Read and price one line of a file of measurements."""
    return timed_line(line, KernelRow, _price)


def _price(row: KernelRow) -> Timed:
    if row.op in COPIES:
        _, assumed = device_of(row)
        found = price_copy(of_kernel(row))
        return replace(found, assumed=(*assumed, *found.assumed))
    if row.op in (*LATENTS, *MIXTURES):
        return _price_layer(row)
    if HOST_STREAM.fullmatch(row.op):
        measured, ours, priced = host_pass(row)
        return Timed(priced, "bytes_per_s", measured, ours, ("the peak of the memory's channels",))
    mapped = map_kernel(row)
    measured, ours, metric, profile = predicted(mapped)
    return Timed(profile, metric, measured, ours, mapped.assumed)


def _price_layer(row: KernelRow) -> Timed:
    """Latent attention, or a mixture of experts."""
    name, assumed = device_of(row)
    device = benchmark_device(name)
    if row.op in LATENTS:
        measured, metric, ours = attended(row, latents_of(row, assumed), device)
    else:
        measured, metric, ours = mixed(row, mixture_of(row, assumed), device)
    return Timed(device.profile, metric, measured, ours, tuple(assumed))
