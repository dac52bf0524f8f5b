"""Sizes of long sequences and of experts that do not fit together: refused at the command line, with what to write."""

import pytest

from simulator.cli import main
from tests.unit.cli.conftest import ROOT
from tests.unit.cli.test_messages import SERVING, refused

LONG = str(ROOT / "scenarios" / "training" / "llama-3.1-8b-128k.yaml")
EXPERTS = str(ROOT / "scenarios" / "training" / "qwen3-235b-a22b.yaml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([LONG, "training.sequence_length=131071"], "131,071 does not divide into 2 x cp 16 = 32 pieces"),
        ([LONG, "training.parallel.cp_kind=ring", "training.sequence_length=131071"], "does not divide into cp 16"),
        (
            [LONG, "training.parallel.cp=64", "training.parallel.cp_kind=ulysses"],
            "cp 64 of `ulysses` is more than the 32 attention heads of a tensor-parallel rank; at most 32",
        ),
        (
            [LONG, "training.parallel.cp_kind=usp", "+training.parallel.ulysses=3"],
            "ulysses 3 has to divide cp 16 and be no more than the 32 heads of a rank",
        ),
        ([EXPERTS, "training.parallel.ep=7"], "ep 7 does not divide the 128 experts of a layer"),
        ([LONG, "+training.parallel.ep=2"], "ep 2: Llama 3.1 8B has no experts; leave `ep` out"),
        ([LONG, "+training.parallel.etp=2"], "etp 2: Llama 3.1 8B has no experts; leave `etp` out"),
        (
            [EXPERTS, "+training.routing.capacity=0.0001"],
            "capacity 0.0001 leaves an expert 0.41 of 65,536 rows, less than one; write a larger one",
        ),
        (
            [EXPERTS, "+training.routing={load: counts, counts: [1, 2, 3]}"],
            "3 numbers for the 128 experts of a layer; write one an expert",
        ),
        (
            [LONG, "+model.window=131073"],
            "a window of 131,073 tokens is longer than the context, `max_sequence` 131,072",
        ),
        (
            [SERVING, "+model.window=8192"],
            "a window of 8,192 tokens is longer than the context, `max_sequence` 4,096",
        ),
        (
            [LONG, "+model.window=8192", "training.sequence_length=4096"],
            "a window of 8,192 tokens is longer than the context, `sequence_length` 4,096; write `model.window=4096`",
        ),
        (
            [LONG, "training.parallel.tp=3"],
            "tp 3 x cp 16 x dp 1 x pp 1 = 48, but the cluster has 64 devices; change the sizes or `cluster.nodes`",
        ),
        (
            [EXPERTS, "training.parallel.dp=3"],
            "tp 2 x cp 1 x dp 3 x pp 8 = 48 (experts: etp 1 x ep 32 x pp 8 = 256, times their replicas), but the "
            "cluster has 256 devices",
        ),
        (
            [EXPERTS, "training.parallel.etp=16"],
            "tp 2 x cp 1 x dp 16 = 32: etp 16 x ep 32 = 512 does not divide it; a divisor of 2",
        ),
        (
            [LONG, "+training.documents=[65536, 6]"],
            "documents of 65,542 tokens do not fill a sequence_length of 131,072",
        ),
        (
            [LONG, "+training.documents=2048", "training.parallel.cp_kind=usp"],
            "`cp_kind: usp` has no way to attend within packed documents; one of `all-gather`, `ring`, `striped`",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, "run", *arguments)


@pytest.mark.parametrize("given", ["model=models/llama-4-scout", "model=models/gemma-2-9b"])
def test_published_windows_may_be_trained_at_any_length_that_they_fit(given: str) -> None:
    """Those of a pattern, which cannot be narrowed, and one that is no longer than the sequence."""
    sizes = [
        "training.sequence_length=4096",
        "training.global_batch=64",
        "training.parallel.cp=1",
        "training.recompute=full",
    ]
    assert main(["run", LONG, given, *sizes, "--quiet"]) in (0, 4)
