"""From a scenario to replicas on devices: what the stack fills in, what is refused and how, what never fits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.cli import main
from simulator.errors import InputError
from simulator.results.infeasibility import reason
from simulator.results.result import Result, Service
from simulator.results.serving.service import REJECTED
from simulator.run.serve import serve
from simulator.run.service import saturated
from simulator.serving.fleet.encoders import LONGEST
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario
from tests import services

FILE = "scenarios/serving/quickstart.yaml"
FEW = "requests.count=40"


def loaded(*overrides: str) -> Any:
    return load_scenario(FILE, [FEW, *overrides]).spec


def served(*overrides: str) -> Result:
    return serve(loaded(*overrides))


def test_what_the_scenario_leaves_open_is_the_stacks() -> None:
    scenario = loaded("serving={}")
    (system,) = resolve(scenario)
    stack = scenario.stack
    assert (system.policy, system.prefix_caching) == (stack.policy, stack.prefix_caching)
    assert (system.rules.token_budget, system.rules.max_sequences) == (stack.token_budget, stack.max_sequences)
    assert system.cost.block_size == stack.block_size
    assert system.context == scenario.model.max_sequence
    assert system.watermark == round(system.cost.blocks * 0.01)
    assert (system.replicas, system.devices(0)[0], system.swap_tokens) == (1, 0, 0)


def test_what_the_scenario_says_comes_first() -> None:
    (system,) = resolve(
        loaded(
            "serving={context: 2048}",
            "+serving.batching={policy: priority, max_num_batched_tokens: 300, max_num_seqs: 7, ageing: 2 s}",
            "+serving.kv_cache={blocks: 99, block_size: 32, watermark: 0.1, prefix_caching: block, preemption: swap}",
        )
    )
    assert (system.policy, system.context, system.watermark, system.prefix_caching) == ("priority", 2048, 10, "block")
    assert (system.rules.token_budget, system.rules.max_sequences, system.rules.ageing) == (300, 7, 2 * 10**12)
    assert (system.cost.blocks, system.cost.block_size) == (99, 32)
    assert system.swap_tokens == int(4 * 2**30 / system.cost.kv_replica_bytes)


def test_policies_of_whole_prompts_have_room_for_the_longest() -> None:
    (system,) = resolve(loaded("serving={context: 60000, batching: {policy: vllm-v0}}"))
    assert system.rules.token_budget == 60000


def test_a_model_that_knows_no_longest_sequence() -> None:
    (system,) = resolve(loaded("serving={}", "~model.max_sequence"))
    assert system.context == LONGEST


POOLS = (
    "[{name: p, role: prefill, replicas: 2, parallel: {tp: 2}}, {name: d, role: decode, batching: {max_sequences: 9}}]"
)


def test_pools_stand_side_by_side() -> None:
    first, second = resolve(loaded(f"+serving.pools={POOLS}"))
    assert [first.devices(i) for i in range(2)] == [(0, 1), (2, 3)]
    assert second.devices(0) == (4,)
    assert (first.rules.max_sequences, second.rules.max_sequences) == (128, 9)
    assert first.make_policy() is not first.make_policy()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("+serving.router=roundrobin", ("serving.router", "did you mean `round-robin`")),
        ("serving.batching.policy=saratti", ("serving.batching.policy", "did you mean `sarathi`")),
        ("+serving.pools=[{name: p, role: prefill}]", ("needs a `decode` pool",)),
        ("+serving.pools=[{name: d, role: decode}]", ("a `prefill` pool needs",)),
        (
            "+serving.pools=[{name: a, replicas: 5}, {name: b, replicas: 5}]",
            ("pool `b`: the replicas take 10 devices, 5 of them those of pools before it, the cluster has 8",),
        ),
        ("+serving.pools=[{name: a}, {name: a}]", ("pools have different names",)),
        ("+serving.parallel={tp: 16}", ("16 devices, the cluster has 8", "serving.parallel")),
        ("+serving.parallel={tp: 1000000000}", ("1000000000 devices, the cluster has 8", "serving.parallel")),
        ("+serving.parallel={pp: 9}", ("9 devices, the cluster has 8",)),
        ("+serving.replicas=9", ("take 9 devices, the cluster has 8",)),
        ("serving.batching.token_budget=64", ("no room for 128 sequences", "write 128 or more")),
        ("serving.batching.max_sequences=0", ("out of range",)),
        ("requests.count=0", ("out of range; write 1 or more",)),
        ("requests.arrivals={poisson: 0 /s}", ("write more than 0",)),
        ("requests.arrivals={poisson: 4}", ("poisson",)),
        ("~requests.lengths", ("write `lengths`",)),
        ("+requests.trace=nowhere.csv", ("nowhere.csv", "No such file")),
        ("+serving.kv_cache={prefix_caching: tree}", ("write `none`, `block` or `radix`",)),
        ("+serving.kv_cache={watermark: 2}", ("out of range",)),
        ("+serving.kv_cache={blocks: -1}", ("out of range",)),
        ("stack=megatron-core", ("for training",)),
        ("+serving.batch={}", ("batch",)),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    override: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FILE, "--quiet", override]) == 2
    said = capsys.readouterr()
    assert not said.out and "Traceback" not in said.err
    for word in words:
        assert word in said.err


def test_replicas_and_pools_are_not_both_given() -> None:
    with pytest.raises(InputError, match="`pools` lists their own"):
        served("+serving.pools=[{name: a}]", "+serving.replicas=2")


def test_prefill_and_decode_on_networks_of_their_own() -> None:
    pools = "[{name: p, role: prefill, cluster: clusters/dgx-a100}, {name: d, role: decode}]"
    with pytest.raises(InputError, match="no network joins it"):
        served(f"+serving.pools={pools}")


def test_prefixes_in_pieces_that_cache_blocks_do_not_divide(tmp_path: Any) -> None:
    trace = tmp_path / "mooncake.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n' * 3)
    with pytest.raises(InputError, match="divisor of 512"):
        served(
            f"+requests.trace={trace}",
            "requests.count=3",
            "~requests.lengths",
            "+serving.kv_cache={block_size: 24, prefix_caching: block}",
        )


@pytest.mark.parametrize("override", ["serving.context=700", "+serving.kv_cache={blocks: 40}"])
@pytest.mark.parametrize("policy", ["sarathi", "static", "vllm-v0"])
def test_requests_that_are_too_long_are_rejected_and_counted(override: str, policy: str) -> None:
    result = served(override, f"serving.batching.policy={policy}")
    rejected = int((result.service.requests.status == REJECTED).sum())  # type: ignore[union-attr]
    assert 0 < rejected < 40
    assert (result.metrics["failed"], result.metrics["completed"]) == (rejected, 40 - rejected)
    assert result.feasible
    (told,) = [text for text in result.warnings if f"{rejected} of 40 requests were rejected" in text]
    assert ("exceed the context of 700 tokens" if "context" in override else "the cache of a replica") in told


def test_when_all_are_rejected_the_run_ends() -> None:
    result = served("serving.context=1")
    assert (result.metrics["failed"], result.metrics["completed"]) == (40, 0)
    assert np.isnan(result.metrics["mean_ttft_ms"])
    assert not result.feasible
    assert "all 40 requests are rejected" in reason(result)


def test_more_than_can_be_served_is_said() -> None:
    result = served("requests.count=2000", "requests.arrivals={poisson: 100 /s}")
    assert any(warning.startswith("saturated: requests come at ") for warning in result.warnings)
    queue = result.service.replicas[0].iterations.waiting  # type: ignore[union-attr]
    assert queue.max() > 100
    calm = served("requests.arrivals={poisson: 1 /s}")
    assert not any("saturated" in warning for warning in calm.warnings)


@pytest.mark.parametrize(
    "requests",
    [
        ("requests.count=3", "requests.arrivals={poisson: 1000 /s}", "serving.batching.max_sequences=1"),
        ("requests.count=10", "requests.arrivals={poisson: 100 /s}", "serving.batching.max_sequences=1"),
        ("requests.count=30", "requests.arrivals={poisson: 400 /s}"),  # taken up before the first is done
    ],
)
def test_a_few_requests_or_a_burst_say_nothing_of_saturation(requests: tuple[str, ...]) -> None:
    assert not any("saturated" in warning for warning in served(*requests).warnings)


@pytest.mark.parametrize(("rate", "count"), [(30, 200), (100, 100), (400, 200)])
def test_a_heavy_overload_is_said_however_short_its_arrivals(rate: int, count: int) -> None:
    """The replica takes up about five a second; a request runs for longer than all arrivals last."""
    result = served(f"requests.count={count}", f"requests.arrivals={{poisson: {rate} /s}}")
    [told] = [text for text in result.warnings if text.startswith("saturated: requests come at ")]
    taken = float(told.partition("taken up at ")[2].partition("/s")[0])
    assert 4 < taken < 8


def queue(started: list[int]) -> Service:
    """A request each second, begun at the given seconds and done two seconds later."""
    whole = services.serve(services.asked(len(started)), replicas=1)
    second, arrival = 10**12, np.arange(len(started)) * 10**12
    begun = np.array(started, np.int64) * second
    moments = {"arrival": arrival, "scheduled": begun, "first_token": begun + second, "finish": begun + 2 * second}
    return replace(whole, requests=replace(whole.requests, status=np.zeros(len(started), np.int64), **moments))


def test_a_queue_is_saturated_where_it_grew_all_the_time() -> None:
    steady = [2 * i for i in range(400)]
    assert saturated(queue(steady))
    ended = [i if i < 300 else 300 + 20 * (i - 300) for i in range(400)]  # a stop in the last quarter
    assert not saturated(queue(ended))
    assert not saturated(queue([min(2 * i, i + 40) for i in range(400)]))  # it grew once, and no longer
    assert not saturated(queue(steady[:20]))


def test_a_model_that_does_not_fit_is_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    result = served("model=models/llama-2-70b")
    assert not result.feasible and result.service is None and not result.metrics
    assert result.memory[0].peak > result.memory[0].capacity
    assert main(["run", FILE, "model=models/llama-2-70b"]) == 4
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert "weights" in said.out


def test_pauses_and_moves_name_rows_of_the_records() -> None:
    """Users' questions arrive in another order than they are listed in."""
    result = served(
        "requests.arrivals={closed_loop: {clients: 8, think: {exponential: 3}}}",
        f"+serving.pools={POOLS}",
        "requests.lengths={prompt: {uniform: [10, 900]}, output: {uniform: [2, 60]}}",
    )
    service = result.service
    assert service is not None and service.transfers is not None
    requests, moves = service.requests, service.transfers
    assert (np.diff(requests.arrival) >= 0).all()
    assert len(moves.request) == 40
    assert (moves.start == requests.first_token[moves.request]).all()
    assert (moves.end < requests.finish[moves.request]).all()
    assert moves.bytes == pytest.approx(
        requests.prompt[moves.request] * moves.bytes[0] / requests.prompt[moves.request[0]]
    )


@pytest.mark.parametrize("change", [(), ("+seed=7",)])
def test_fast_forward_changes_nothing_at_real_prices(change: tuple[str, ...]) -> None:
    scenario = loaded(
        *change, "+serving.kv_cache={blocks: 400}", "requests.arrivals={poisson: 20 /s}", "serving.context=4096"
    )
    forwarded, stepping = serve(scenario, leap=True).service, serve(scenario, leap=False).service
    assert forwarded is not None and stepping is not None
    for name in ("arrival", "scheduled", "first_token", "finish", "preemptions", "status"):
        assert (getattr(forwarded.requests, name) == getattr(stepping.requests, name)).all()
    assert forwarded.replicas[0].busy == stepping.replicas[0].busy
