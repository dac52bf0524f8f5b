"""Figures that rates or sizes are divided by are never nothing."""

import pytest

from simulator.errors import InputError
from simulator.specs import load_file, load_scenario
from simulator.specs.hardware import Cluster
from simulator.specs.kernels import KernelProfile
from simulator.specs.libraries.collectives import CollectiveProfile

NOTHING = "{value: 0, status: estimate, source: a test}"


@pytest.mark.parametrize(
    "key",
    [
        "stack.compute_efficiency",
        "stack.attention_efficiency",
        "cluster.node.accelerator.peak.bf16",
        "cluster.node.accelerator.clock",
        "+cluster.network.switch_reduction.largest",
    ],
)
def test_a_scenario_with_a_figure_of_nothing_is_refused(key: str) -> None:
    """Efficiencies of 0 and a largest operation of 0 bytes ended with internal errors, a peak of 0 was taken for a
    format that the device lacks."""
    with pytest.raises(InputError, match="is out of range; write more than 0"):
        load_scenario("quickstart", [f"{key}={NOTHING}"])


def test_a_window_and_a_piece_of_no_bytes_are_refused() -> None:
    """Wide links moved nothing at a rate that was no number."""
    with pytest.raises(InputError, match="is out of range; write more than 0"):
        load_file(Cluster, "clusters/wan-12-regions", [f"network.window={NOTHING}"])
    with pytest.raises(InputError, match="is out of range; write more than 0"):
        load_file(
            CollectiveProfile,
            "collectives/nccl-h100",
            [f"protocols.Simple.scale_out.piece={{wait: {NOTHING}, bytes: {NOTHING}}}"],
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fleet.before.0.mtbf", "{before: [{name: gateway, servers: 1, mtbf: 1 us}]}"),
        ("fleet.failures.mtbf", "{failures: {mtbf: 1 us}}"),
        ("fleet.failures.links.mtbf", "{failures: {links: {names: [NIC 0], mtbf: 1 us}}}"),
        ("fleet.autoscaling.check", "{autoscaling: {rule: queue, target: 1, max: 2, check: 1 us}}"),
    ],
)
def test_events_that_never_end_to_come_are_refused(key: str, value: str) -> None:
    """Failures and looks of every microsecond took as long as there is time."""
    with pytest.raises(InputError, match=f"`{key}` is 1 ms or more, not 0.001 ms"):
        load_scenario("serving/quickstart", [f"+serving.fleet={value}"])


@pytest.mark.parametrize(
    "key", ["gemm.bf16.memory", "stream.memory", "attention.paged.forward.128", "decode.memory", "decode.write"]
)
def test_a_share_of_nothing_in_a_kernel_profile_is_refused(key: str) -> None:
    """What moves or computes at such a share ended with an internal error."""
    with pytest.raises(InputError, match="is out of range; write more than 0"):
        load_file(KernelProfile, "kernels/h100-sxm", [f"{key}=0"])
