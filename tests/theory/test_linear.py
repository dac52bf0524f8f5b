"""Layers with a state: published sizes, constant states, FLOP of the published counts."""

import pytest

from simulator.model.blocks.ends import embedding, head
from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.ops import StateScan
from simulator.model.tensors import multiplied, scan, tensors
from simulator.specs import load_spec
from simulator.specs.model import Model


def total(model: Model) -> float:
    """Parameters, a tied head once."""
    ends = [*embedding(model, Cut()), *([] if model.tied_embeddings else head(model, Cut()))]
    layers = sum(tensor.elements for kind in model.kinds for tensor in tensors(layer(model, Cut(), kind)))
    return layers + sum(tensor.elements for tensor in tensors(ends))


def active(model: Model) -> float:
    """Matrices that a token meets, head included, look-up apart."""
    return sum(multiplied(layer(model, Cut(), kind)) for kind in model.kinds) + multiplied(head(model, Cut()))


def state_bytes(model: Model) -> float:
    """Of one sequence: states as they are kept, tails of convolutions in 16 bits."""
    found = [scan(layer(model, Cut(), kind)) for kind in model.kinds]
    return sum(one.state * one.state_bytes + one.tail * 2.0 for one in found if one is not None)


@pytest.mark.parametrize(
    ("name", "billions", "visited", "megabytes"),
    [
        ("nemotron-h-56b", 56.3, None, 913),
        ("nemotron-3-nano-30b-a3b", 31.6, 3.2, 49),
        ("jamba-1.5-large", 398.6, 93.6, None),
        ("mamba-2-1.3b", 1.34, None, 102),
        ("gla-1.3b", 1.37, None, 50),
    ],
)
def test_sizes_are_as_published(name: str, billions: float, visited: float | None, megabytes: float | None) -> None:
    model = load_spec(Model, f"models/{name}")
    assert total(model) / 1e9 == pytest.approx(billions, rel=0.005)
    if visited is not None:
        assert active(model) / 1e9 == pytest.approx(visited, rel=0.015)
    if megabytes is not None:
        assert state_bytes(model) / 1e6 == pytest.approx(megabytes, rel=0.01)


def test_flops_of_a_row_are_the_published_counts() -> None:
    # Megatron-LM: 8 heads d^2 and 7 inner n; equation 13 of arXiv:2510.26692 at chunks of 64.
    assert StateScan("delta", 32, 16, 128, 128, 64).flops == 8 * 32 * 128**2
    assert StateScan("mamba2", 64, 8, 128, 64, 128).flops == 7 * 64 * 64 * 128
    assert StateScan("kda", 32, 32, 128, 128, 64).flops == 32 * (6 * 128**2 + 3 * 64 * 128 + 64**2)
    assert StateScan("gla", 4, 4, 256, 512, 64).flops == 4 * (4 * 256 * 512 + 2 * 64 * (256 + 512))
    assert StateScan("mamba1", 4096, 1, 16, 1, 64).flops == 9 * 4096 * 16


def test_the_state_does_not_know_how_long_the_sequence_is_and_devices_share_it() -> None:
    model = load_spec(Model, "models/nemotron-h-56b")
    stateful = next(kind for kind in model.kinds if kind.stateful)
    whole, eighth = scan(layer(model, Cut(), stateful)), scan(layer(model, Cut({"tp": 8}), stateful))
    assert whole is not None and eighth is not None
    assert eighth.state * 8 == whole.state == 256 * 64 * 256
