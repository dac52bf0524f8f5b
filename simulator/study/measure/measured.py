"""Cases measured one after the other, as rows of a file, each beside what the simulator makes of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from platform import python_version
from typing import Any

from simulator import __version__
from simulator.errors import InputError, Problem, SimulatorError
from simulator.interop.rows.accelerators import card
from simulator.interop.rows.benchmarks import SOURCE, Header
from simulator.interop.rows.jsonl import Refused, read_row
from simulator.interop.rows.kernels import KernelRow
from simulator.results.documents.measured import MeasuredCase, MeasuredDocument
from simulator.run.measured.benchmarks import predicted
from simulator.specs.hardware import Accelerator
from simulator.specs.resolve import load_spec
from simulator.study.measure.cases import Case, Target, cases
from simulator.study.measure.clock import timed
from simulator.study.measure.on_torch import NotMeasured, OnTorch

DRY = Target(False, ("bf16", "fp16", "fp8"), 80e9)
"""The device that a dry run lists cases for where PyTorch is not installed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One case with its time, or the reason why it has none."""

    case: Case
    row: dict[str, Any] | None
    predicted_s: float | None
    why: str = ""
    """Why it was not measured, or has no prediction."""


@dataclass(frozen=True, slots=True)
class Session:
    """All that was measured."""

    header: Header
    results: tuple[Measured, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What is written."""
        return [one.row for one in self.results if one.row is not None]


def torch_module() -> Any:
    """PyTorch; InputError where it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        hint = "install it as its makers say for your device, or with: pip install 'clustersim[measure]'"
        raise InputError(Problem(f"measuring needs PyTorch, which cannot be imported: {error}", hint=hint)) from None


def device_of(torch: Any, device: str | None) -> OnTorch:
    """The device to measure, by default the first that is no CPU; InputError where it is not there."""
    there = bool(torch.cuda.is_available())
    word = device or ("cuda" if there else "cpu")
    kind = word.partition(":")[0]
    if kind not in ("cuda", "cpu"):
        raise InputError(Problem(f"`--device {word[:40]}` is no device that is measured", hint="cuda, cuda:N or cpu"))
    number = word.partition(":")[2]
    count = int(torch.cuda.device_count()) if there else 0
    if kind == "cuda" and not (there and (not number or (number.isdigit() and int(number) < count))):
        raise InputError(Problem(f"PyTorch sees no device `{word[:40]}`", hint=f"it sees {count} of CUDA; or `cpu`"))
    return OnTorch(torch, word)


def planned(target: Target, only: Sequence[str]) -> list[Case]:
    """The cases of a device; InputError where there are none."""
    found = cases(target, only)
    if not found:
        raise InputError(Problem(f"nothing of kind {', '.join(only)} can be measured here", hint="leave out `--only`"))
    return found


def measure(
    on: OnTorch,
    listed: Sequence[Case],
    seconds: float,
    accelerator: str | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Session:
    """Time cases for about so many seconds together. `accelerator` names the device's profile, which is otherwise
    looked for by the device's name; `tell` is told how many are done."""
    name = accelerator or card(on.name)[0]
    spec = load_spec(Accelerator, name) if name else None
    header = Header(
        device=on.name,
        accelerator=name,
        date=str(date.today()),
        versions={"clustersim": __version__, "python": python_version(), **on.versions},
    )
    found = []
    for done, case in enumerate(listed):
        if tell is not None:
            tell(done, len(listed))
        found.append(_measured(on, case, seconds / len(listed), header, spec))
    return Session(header, tuple(found))


def _measured(on: OnTorch, case: Case, budget: float, header: Header, spec: Accelerator | None) -> Measured:
    try:
        timing = timed(on.call(case), on, budget)
    except NotMeasured as why:
        return Measured(case, None, None, str(why))
    except (RuntimeError, NotImplementedError, TypeError) as error:  # what PyTorch raises of formats, sizes, memory
        return Measured(case, None, None, " ".join(str(error).split())[:200])
    share = case.shape["kernels"] if case.op == "launch" else 1
    row: dict[str, Any] = {
        "id": case.name,
        "source": SOURCE,
        "op": case.op,
        "accelerator": header.device,
        "dtype": case.dtype,
        "shape": dict(case.shape),
        "library": f"PyTorch {on.versions.get('torch', '')}".strip(),
        "metrics": {"time_s": timing.seconds / share, "spread": timing.spread, "samples": timing.samples},
    }
    if case.op == "all_reduce":  # as rows of collectives, which `calibrate collectives` reads
        row |= {"num_ranks": case.shape["ranks"], "num_nodes": 1, "size_bytes": case.shape["bytes"]}
        row |= {"accelerator_id": header.accelerator, "library": "NCCL"}
    if spec is None:
        return Measured(case, row, None, "no profile of this device")
    try:
        return Measured(case, row, predicted(read_row(KernelRow, row), spec))
    except (Refused, SimulatorError) as why:
        return Measured(case, row, None, " ".join(str(why).split()))


# ---- what is drawn --------------------------------------------------------------------------------------------------


def document(session: Session, file: str) -> MeasuredDocument:
    """A session as it is drawn."""
    cases_ = (
        MeasuredCase(
            one.case.kind,
            one.case.name,
            one.case.bytes,
            one.row["metrics"]["time_s"] if one.row else None,
            one.predicted_s,
            one.why,
        )
        for one in session.results
    )
    return MeasuredDocument(session.header.words, tuple(cases_), file)


def dry_run(device: str | None, only: Sequence[str]) -> MeasuredDocument:
    """What would be measured here; on a GPU of 80 GB where PyTorch cannot be asked."""
    try:
        on = device_of(torch_module(), device)
        target, place = on.target(), f"on {on.name}"
    except InputError as error:
        target, place = DRY, f"on a GPU of 80 GB ({error.problems[0].message})"
    found = (MeasuredCase(case.kind, case.name, case.bytes) for case in planned(target, only))
    return MeasuredDocument(place, tuple(found))
