"""Software on a kind of device that it has no kernels for: what is said of such a run."""

from collections.abc import Collection

from simulator.specs.hardware import Accelerator, DeviceKind


def extrapolated(name: str, kinds: Collection[DeviceKind], accelerator: Accelerator) -> tuple[str, ...]:
    """A warning where software has kernels for other kinds of devices only; `kinds` are those that it has them for."""
    if accelerator.kind in kinds:
        return ()
    made = ", ".join(kind.upper() for kind in kinds) or "no device"
    return (
        f"extrapolated: {name} has kernels for {made}, not for {accelerator.name} ({accelerator.kind.upper()}); "
        "its times are those of the same kernels on this device, and memory of its runtime is not counted",
    )
