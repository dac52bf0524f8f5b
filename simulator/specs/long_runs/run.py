"""A training run from its first step to its last: how long it is, what fails, how it is saved and restarted."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bandwidth, Bytes, Count, Seconds, Spec
from simulator.specs.long_runs.failures import FailureRates


class Checkpoints(Spec):
    """When and how a run is saved."""

    kind: Literal["synchronous", "asynchronous", "memory"] = "asynchronous"
    """`synchronous`: steps wait until all is copied to hosts and written to storage. `asynchronous`: they wait for the
    copy to hosts, and storage is written beside them. `memory`: they wait for the copy to the own host; the copy in the
    memory of another node's host is made beside them (GEMINI)."""
    interval: Seconds | None = None
    """Time of steps between two checkpoints, rounded to whole steps."""
    steps: Count | None = None
    """Or steps between two checkpoints. Where neither is given, the interval that is advised."""
    persist: Count = 100
    """With `memory`, every so many-th checkpoint is written to storage as well."""
    size: Bytes | None = Field(default=None, gt=0)
    """Of one checkpoint; parameters and optimizer states of the memory ledger, each once, where left out."""
    writers: Literal["all", "first"] = "all"
    """Of states that several data-parallel ranks copy, each writes a part (`all`), or the first writes them."""
    load: Literal["once", "each"] = "once"
    """Whether storage is read once, and ranks pass on to their copies what they read, or each reads all that it has."""
    reshard: Literal["load", "offline"] = "load"
    """A run that goes on with another layout reads what its ranks need of any layout (`load`), or a job rewrites the
    checkpoint first, which is a read and a write of all of it (`offline`)."""
    files: Count = 1
    """Files that a device writes to storage."""
    keep: Annotated[int, Field(ge=1, le=1_000_000)] = 2
    """Checkpoints that storage holds at a time, the one that is being written among them."""

    @model_validator(mode="after")
    def _one_interval(self) -> Self:
        if self.interval is not None and self.steps is not None:
            raise ValueError("write either `interval` or `steps`, not both")
        if self.interval == 0:
            raise ValueError("an `interval` of nothing is none: write `steps: 1` for a checkpoint after each step")
        return self


class Recovery(Spec):
    """What happens after a failure."""

    detection: Seconds = 600.0
    """Until the run is stopped; 10 min where left out, the time-out of a collective in PyTorch."""
    restart: Seconds = 300.0
    """From there until steps run again, without the reading of a checkpoint; 5 min where left out (200 s for 16,000 to
    900 s for 98,000 GPUs, arXiv:2602.00277)."""
    spares: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Nodes that wait to replace failed ones; as many as are needed where left out."""
    swap: Seconds = 0.0
    """What bringing in a spare node adds to a restart."""
    repair: Seconds | None = None
    """Until a failed node is back among the spares; it does not come back within the run where left out."""
    elastic: bool = False
    """Where no spare node is left, whether the run goes on with fewer data-parallel replicas, which then share the
    whole batch, in place of waiting for a node."""


class Samples(Spec):
    """What is read for the steps of a run, and how fast it gets to the devices."""

    bytes: Annotated[Bytes, Field(gt=0)]
    """Of a sequence, as storage has it."""
    rate: Bandwidth | None = None
    """Such bytes that the processors of a node prepare (decode, cut, tokenise) in a second; as many as come where left
    out."""


class Evaluation(Spec):
    """What a run stops for to see how good the model is."""

    every: Count
    """Steps from one evaluation to the next."""
    takes: Annotated[Seconds, Field(gt=0)]
    """What one takes, for which all devices stop training."""


class LongRun(Spec):
    """A whole run with its failures and checkpoints."""

    tokens: float | None = Field(default=None, gt=0, le=1e18)
    """Until so many tokens are trained, the last step whole."""
    steps: Count | None = None
    """Or until so many steps are done."""
    days: float | None = Field(default=None, gt=0, le=36_500, allow_inf_nan=False)
    """Or for so many days. Where none is given: `training.tokens`."""
    failures: FailureRates | None = None
    """What fails how often: a file of `hardware_profiles/failures`, or causes."""
    trace: str | None = None
    """A file of failures, a row each: `time,what,until`, and the share `left` of what is slow. See
    docs/models/runs.md."""
    data: Samples | None = Field(default=None, exclude_if=lambda data: data is None)
    """What is read from storage beside the steps; nothing that they would wait for where left out."""
    evaluation: Evaluation | None = Field(default=None, exclude_if=lambda evaluation: evaluation is None)
    """Evaluations between steps; none where left out."""
    checkpoints: Checkpoints = Checkpoints.model_construct()
    """When and how it is saved."""
    recovery: Recovery = Recovery.model_construct()
    """What happens after a failure."""
    samples: Annotated[int, Field(ge=1, le=1000)] = 16
    """Runs that are simulated, each with failures of its own: figures are their means, with quantiles."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        given = [name for name in ("tokens", "steps", "days") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"write one of `{given[0]}` and `{given[1]}`, not both")
        return self
