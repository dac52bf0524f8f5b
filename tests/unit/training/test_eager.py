"""What eager PyTorch moves in elementwise operations and in Adam, kernel by kernel, by hand."""

from typing import Any

import pytest

from simulator.cost.work import Stream
from simulator.specs.model import LayerKind
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.optimizers.step import optimizer_step
from simulator.training.overlap.launches import host_time, modules
from simulator.training.step import Kernel
from tests import jobs

LLAMA = {"gated_ffn": True, "norm": "rmsnorm", "position": "rotary", "ffn": 2816, "biases": False}


def job(stack: str, model: dict[str, Any] | None = None, **changes: Any) -> Job:
    shape = jobs.model(**(LLAMA if model is None else model))
    return build_job(jobs.scenario(on="generic-h100", software=jobs.stack(stack), shape=shape, **changes))


def moved(found: Job, name: str, back: bool = False) -> float:
    """Bytes that the first operation of a name moves for each element of the hidden rows."""
    steps = operators.layer_backward(found, jobs.LAYER) if back else operators.layer_forward(found, jobs.LAYER)
    kernel = next(one for one in operators.each(list(steps)) if isinstance(one, Kernel) and one.name == name)
    assert isinstance(kernel.work, Stream)
    return (kernel.work.read_bytes + kernel.work.write_bytes) / (found.tokens * found.model.hidden)


def test_a_norm_goes_to_fp32_and_back() -> None:
    # to fp32 6, squares 8, their mean 4, times its root 8, back 6, times the scales 4 bytes
    assert moved(job("transformers"), "norm") == 36
    assert moved(job("fsdp-eager"), "norm") == 36
    assert moved(job("transformers"), "norm", back=True) == 92


def test_residuals_are_one_kernel() -> None:
    assert moved(job("transformers"), "residual") == 6


def test_positions_are_turned_by_halves() -> None:
    # queries and keys: times cosines 4, halves negated 2 and joined 4, times sines 4, added 6 bytes
    assert moved(job("transformers"), "rotary") == 2 * 20
    assert moved(job("transformers"), "rotary", back=True) == 2 * 30


def test_stacks_that_fuse_and_layer_norms_have_one_kernel() -> None:
    assert moved(job("megatron-core"), "norm") == 4
    assert moved(job("fsdp-compiled"), "norm") == 4
    assert moved(job("transformers", {"norm": "layernorm"}), "norm") == 4


def test_adam_by_operations_moves_88_bytes_a_parameter_with_its_clipping() -> None:
    def update(stack: str) -> float:
        found = job(stack)
        kernel = next(one for one in optimizer_step(found, 0) if isinstance(one, Kernel) and one.name == "update")
        assert isinstance(kernel.work, Stream)
        return kernel.work.read_bytes + kernel.work.write_bytes

    assert update("fsdp-eager") / update("fsdp-compiled") == pytest.approx(88 / 28)


def test_modules_of_a_layer_look_for_their_parameters() -> None:
    found = job("transformers-deepspeed", zero=3)
    # the layer, attention, MLP, activation, two norms, queries, keys, values, output, gate, up, down
    assert modules(operators.layer_ops(found, jobs.LAYER)) == 13
    each, layer = found.stack.module_overhead, found.stack.layer_overhead.value
    assert each is not None and host_time(found, jobs.LAYER) == pytest.approx(layer + 13 * each.value)
    assert host_time(job("transformers-deepspeed", zero=2), jobs.LAYER) == layer


def test_every_expert_is_an_mlp_of_modules() -> None:
    found = job("transformers-deepspeed", LLAMA | {"experts": 8, "top_k": 2, "expert_ffn": 512}, zero=3)
    kind = LayerKind("grouped", "moe")
    # 10 around the experts with the router, then each expert, its gate, up, down and activation
    assert modules(operators.layer_ops(found, kind)) == 10 + 8 * 5
