"""What fp8 training adds to the operators of a layer, and what it leaves in 16 bits."""

import pytest

from simulator.cost.work import Attention, Gemm, Stream
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.operators import Kernel
from tests import jobs


def job(precision: str) -> Job:
    software = jobs.stack("megatron-core")
    return build_job(jobs.scenario(on="generic-h100", software=software, training={"precision": precision}))


def test_only_the_matrices_of_layers_are_multiplied_in_8_bits() -> None:
    narrow = job("fp8")
    layer = [*operators.layer_forward(narrow, jobs.LAYER), *operators.layer_backward(narrow, jobs.LAYER)]
    head = [*operators.head_forward(narrow), *operators.head_backward(narrow)]
    kinds = {
        place: {step.work.dtype for step in steps if isinstance(step, Kernel) and isinstance(step.work, Gemm)}
        for place, steps in (("layer", layer), ("head", head))
    }
    assert kinds == {"layer": {"fp8"}, "head": {"bf16"}}
    attention = {s.work.dtype for s in layer if isinstance(s, Kernel) and isinstance(s.work, Attention)}
    assert attention == {"bf16"}


def test_every_factor_but_the_weights_is_cast_once_a_pass() -> None:
    """Bytes by hand: forward 4 an element of attention out (h) and MLP out (4 h), 1 of what norms write; backward 4 of
    the gradients of the four matrices' outputs (3 h, h, 4 h, h)."""
    narrow = job("fp8")
    size = narrow.tokens * narrow.model.hidden

    def cast(steps: object) -> float:
        works = [s.work for s in steps if isinstance(s, Kernel) and s.name.startswith("cast")]  # type: ignore[attr-defined]
        return sum(w.read_bytes + w.write_bytes for w in works if isinstance(w, Stream)) / size

    assert cast(operators.layer_forward(narrow, jobs.LAYER)) == pytest.approx(4 * (1 + 4) + 2 * 1)
    assert cast(operators.layer_backward(narrow, jobs.LAYER)) == pytest.approx(4 * (3 + 1 + 4 + 1))
    assert (
        cast([*operators.layer_forward(job("bf16"), jobs.LAYER), *operators.layer_backward(job("bf16"), jobs.LAYER)])
        == 0
    )


@pytest.mark.parametrize(("stack", "forward", "backward"), [("fsdp", 0, 2 + 2 + 2 + 4 + 4 + 4), ("fsdp2", 4, 4 + 6)])
def test_units_of_sharded_parameters_are_copied_as_their_framework_does(
    stack: str, forward: int, backward: int
) -> None:
    """FSDP joins gradients (2 bytes read, 2 written), casts them (2, 4) and divides them (4, 4); FSDP2 copies gathered
    parameters out (2, 2) in each pass, and gradients in (2, 4)."""
    found = build_job(jobs.scenario(software=jobs.stack(stack), dp=8, zero=3, training={"precision": "bf16"}))
    size = operators.layer_parameters(found, jobs.LAYER)
    for steps, expected in ((operators.layer_forward, forward), (operators.layer_backward, backward)):
        works = [step.work for step in steps(found, jobs.LAYER) if isinstance(step, Kernel)]
        named = [step.name for step in steps(found, jobs.LAYER) if isinstance(step, Kernel)]
        copies = [
            w for w, n in zip(works, named, strict=True) if n.startswith(("copy parameters", "copy grad", "flatten"))
        ]
        moved = sum(work.read_bytes + work.write_bytes for work in copies if isinstance(work, Stream))
        assert moved == expected * size


def test_what_is_computed_again_copies_no_parameters() -> None:
    """They were copied out once for the whole backward pass."""
    found = build_job(jobs.scenario(software=jobs.stack("fsdp2"), dp=8, zero=3, training={"recompute": "full"}))
    again = [step.name for step in operators.recomputed(found, jobs.LAYER) if isinstance(step, Kernel)]
    assert again and not any(name.startswith("copy") for name in again)


def test_full_recomputation_stops_at_what_the_backward_pass_needs() -> None:
    """Nothing keeps the result of a dense layer's last product; the probabilities of experts' rows need theirs."""
    kinds = {"dense": {}, "experts": {"experts": 8, "top_k": 2, "expert_ffn": 512}}
    missing = {}
    for name, shape in kinds.items():
        times = []
        for early in (False, True):
            software = jobs.stack("fsdp2", stops_early=early)
            found = build_job(
                jobs.scenario(
                    software=software, shape=jobs.model(**shape), dp=8, zero=3, training={"recompute": "full"}
                )
            )
            names = [s.name for s in operators.recomputed(found, found.kinds[0]) if isinstance(s, Kernel)]
            assert not any(one.startswith("copy") for one in names)
            times.append(names)
        whole, stopped = times
        assert whole[: len(stopped)] == stopped
        missing[name] = whole[len(stopped) :]
    assert missing == {"dense": [ops_of_dense()[-2], ops_of_dense()[-1]], "experts": []}


def ops_of_dense() -> list[str]:
    """Names of the kernels of a dense layer's forward pass, without copies."""
    found = build_job(jobs.scenario(software=jobs.stack("fsdp2"), dp=8))
    return [step.name for step in operators.layer_forward(found, jobs.LAYER) if isinstance(step, Kernel)]
