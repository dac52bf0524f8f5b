"""What is made of a timeline, worked out from the operations of two stages that pass one microbatch there and back."""

from itertools import product

import pytest

from simulator.results import Result
from simulator.run.simulate import simulate
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.scenario import Scenario
from simulator.training import memory
from tests import jobs

TOKENS = 1024


def scenario(batch: int = 1) -> Scenario:
    return jobs.scenario(batch=batch, devices=2, pp=2, tp=1, dp=1, zero=0)


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(scenario())


def operations(result: Result) -> dict[tuple[int, str], tuple[int, int]]:
    """(device, what it does): (start, end)."""
    spans = result.spans
    rows = zip(spans.lane, spans.name, spans.start.tolist(), spans.end.tolist(), strict=True)
    return {(spans.lanes[lane][0], spans.names[name]): (start, end) for lane, name, start, end in rows}


def test_what_chunks_keep_is_asked_for_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once for each class of devices."""
    asked = []

    def counted(job: memory.Job, chunk: memory.Chunk) -> float:
        asked.append(chunk)
        return 1.0

    monkeypatch.setattr(memory, "chunk_activations", counted)
    simulate(scenario())
    assert len(asked) == len(set(asked)) == 2


def test_gaps_by_what_ends_them(result: Result) -> None:
    """A stage waits for its first forward or backward pass: exposed while that is sent, a bubble before."""
    done = operations(result)
    begin = {key: start for key, (start, _) in done.items()}
    last = {key: end - start for key, (start, end) in done.items()}
    there, back, tied = last[0, "send forward"], last[1, "send backward"], last[0, "sum embedding gradients"]
    first, second = result.breakdown
    assert first["exposed_pp"] * 1e12 == pytest.approx(there + back + tied)
    assert first["bubble"] * 1e12 == pytest.approx(begin[0, "backward"] - done[0, "send forward"][1] - back)
    assert second["exposed_pp"] * 1e12 == pytest.approx(there + back + tied)
    ends = begin[1, "sum embedding gradients"] - done[1, "send backward"][1]
    idle_at_the_end = done[0, "optimizer"][1] - done[1, "optimizer"][1]
    assert second["bubble"] * 1e12 == pytest.approx(last[0, "forward"] + ends + idle_at_the_end)
    for device, parts in enumerate(result.breakdown):
        worked = last[device, "forward"] + last[device, "backward"]
        assert (parts["compute"] + parts["recompute"]) * 1e12 == pytest.approx(worked)
        assert parts["optimizer"] * 1e12 == pytest.approx(last[device, "optimizer"])


def test_tokens_energy_and_money_of_a_step(result: Result) -> None:
    """Two devices of 400 W, which draw as they compute, write, send and wait; 1024 tokens."""
    device, step = scenario().cluster.node.accelerator, result.metrics["step_time_s"]
    assert device.power is not None and device.power.idle is not None and device.price is not None
    idle, peak = device.power.idle.value, device.power.peak.value
    assert result.metrics["tokens_per_s"] == pytest.approx(TOKENS / step)
    assert 2 * step * idle < result.metrics["energy_j"] < 2 * step * peak
    assert result.metrics["cost_usd"] == pytest.approx(2 * step * device.price.value)


def test_activations_are_kept_from_forward_to_backward(result: Result) -> None:
    done = operations(result)
    for device, use in enumerate(result.memory):
        assert use.time.tolist() == [done[device, "forward"][0], done[device, "backward"][1]]
        kept = use.at_peak["activations"]
        assert kept > 0
        assert use.level.tolist() == pytest.approx([use.peak, use.peak - kept])
        assert sum(use.at_peak.values()) == pytest.approx(use.peak)


def test_one_forward_one_backward_keeps_a_microbatch_less_on_each_stage(result: Result) -> None:
    """Of four microbatches the first stage keeps two at once, the second one."""
    single = [use.at_peak["activations"] for use in result.memory]
    four = [use.at_peak["activations"] for use in simulate(scenario(batch=4)).memory]
    assert four == pytest.approx([2 * single[0], single[1]])


def test_the_path_is_named_by_device_and_has_no_gaps(result: Result) -> None:
    """There and back: the first stage's forward, the second's both, the first's backward, and the longer optimizer."""
    path = result.critical_path
    seconds = dict(path.seconds)
    assert sum(seconds.values()) == pytest.approx(result.metrics["step_time_s"])
    assert "wait" not in seconds and all(value > 0 for value in seconds.values())
    done = operations(result)
    last = {key: end - start for key, (start, end) in done.items()}
    on_second = sum(last[1, name] for name in ("forward", "backward", "send backward"))
    first, second = (sum(parts.values()) * 1e12 for parts in path.by_class)
    assert second == pytest.approx(on_second)
    assert first == pytest.approx(result.spans.end.max() - on_second)
    assert list(path.by_operation.values()) == sorted(path.by_operation.values(), reverse=True)


@pytest.mark.parametrize(
    ("software", "device", "runtime"),
    [
        ("megatron-core", "h100-sxm", 1e9),
        ("maxtext", "h100-sxm", 1e9),
        ("maxtext", "tpu-v5p", 0.26e9),
        ("megatron-core", "tpu-v5p", None),
        ("pytorch-ddp", "kv260", None),
    ],
)
def test_a_stack_is_extrapolated_to_devices_that_it_has_no_kernels_for(
    software: str, device: str, runtime: float | None
) -> None:
    """What a CUDA context takes is not charged to a board without one, and the Result says that times are a guess."""
    plain = jobs.scenario(software=jobs.stack(software))
    node = plain.cluster.node.model_copy(update={"accelerator": load_spec(Accelerator, device)})
    result = simulate(plain.model_copy(update={"cluster": plain.cluster.model_copy(update={"node": node})}))
    assert result.memory[0].at_peak.get("runtime") == runtime
    warned = [text for text in result.warnings if text.startswith("extrapolated: ")]
    assert len(warned) == (runtime is None)


def test_a_device_is_never_busy_for_more_than_the_whole_step() -> None:
    """48 ordinary settings of one device: shares of whole ticks are not more than 1, sums of rounded seconds are."""
    shares, rounded = [], []
    for sequence, micro, batches in product((256, 768, 1024, 2048), (1, 3, 5, 8), (1, 2, 5)):
        layout = {"tp": 1, "pp": 1, "dp": 1, "zero": 0}
        step = simulate(jobs.scenario(devices=1, batch=micro * batches, micro=micro, sequence=sequence, **layout))
        power = jobs.cluster(1, 1).node.accelerator.power
        assert power is not None and power.idle is not None
        seconds = step.metrics["step_time_s"]
        idle, peak = power.idle.value, power.peak.value
        shares.append((step.metrics["energy_j"] / seconds - idle) / (peak - idle))
        parts = step.breakdown[0]
        rounded.append(sum(parts[name] for name in ("compute", "recompute", "optimizer", "stall")) / seconds)
    assert len(shares) == 48
    assert max(shares) <= 1 + 1e-12
    assert max(rounded) > 1


@pytest.mark.parametrize(("vpp", "word"), [(1, "stage"), (2, "chunk")])
def test_chunks_of_an_interleaved_schedule_are_not_called_stages(vpp: int, word: str) -> None:
    result = simulate(jobs.scenario(pp=2, vpp=vpp, dp=4))
    names = result.critical_path.by_operation
    numbered = {name.split(", ")[1].split()[0] for name in names if ", " in name}
    assert numbered == {word} == {result.spans.stage_word}
