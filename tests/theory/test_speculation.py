"""Speculative decoding against its theory: tokens per iteration, speed-up, costs by hand, conservation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from simulator.cost import compile_device
from simulator.cost.decode import decode_lines
from simulator.errors import InputError
from simulator.random import stream
from simulator.results.serving.service import FINISHED
from simulator.run.serve import serve
from simulator.serving.costs.beside.drafting import verified_rows
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.iteration import ReplicaCost, compile_costs
from simulator.serving.replica.speculation import TURNS, Yields
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import KvCache, Layout, NumberFormats, ServingStack
from simulator.specs.speculation import Speculation
from tests.replicas import ENDLESS, Price, Setting, System, asked, check, gaps, run

STEP = 1000
"""Ticks of an iteration, however many rows it has."""


def spec(**given: Any) -> Speculation:
    return Speculation.model_validate({"kind": "n-gram", "acceptance": 0.7, "draft_length": 3} | given)


def closed(a: float, g: int) -> float:
    """Leviathan et al. (arXiv:2211.17192), equation 1."""
    return g + 1.0 if a == 1.0 else (1 - a ** (g + 1)) / (1 - a)


@pytest.mark.parametrize("g", [1, 2, 5])
@pytest.mark.parametrize("a", [0.0, 0.4, 0.8, 1.0])
def test_tokens_of_an_iteration_at_constant_acceptance(a: float, g: int) -> None:
    of = spec(acceptance=a, draft_length=g)
    assert of.mean() == pytest.approx(closed(a, g), rel=1e-12)
    assert sum(of.chances(g)) == pytest.approx(1.0)
    for yields in ("random", "expected"):
        table = np.diff(Yields(of.model_copy(update={"yields": yields}), stream(0, "test")).tables[g])[:TURNS]
        assert table.mean() == pytest.approx(closed(a, g), abs=g / TURNS * 2)
        assert 1 <= table.min() <= table.max() <= g + 1


def test_tokens_by_depth() -> None:
    """1 + 0.8 + 0.8 x 0.5 + 0.8 x 0.5 x 0.25 (EAGLE-2, arXiv:2406.16858, section 4)."""
    of = spec(acceptance=[0.8, 0.5, 0.25])
    assert of.mean() == pytest.approx(1 + 0.8 + 0.4 + 0.1)
    assert of.chances(3) == pytest.approx([0.2, 0.4, 0.3, 0.1])
    assert of.mean(1) == pytest.approx(1.8)


def test_a_mean_alone_is_the_whole_number_below_or_above() -> None:
    of = spec(acceptance=None, tokens_per_step=2.25)
    assert of.chances(3) == pytest.approx([0.0, 0.75, 0.25, 0.0])
    assert spec(acceptance=None, tokens_per_step=4.0).chances(3) == pytest.approx([0.0, 0.0, 0.0, 1.0])


def test_a_tree_verifies_its_candidates_and_grows_by_its_depth() -> None:
    of = spec(acceptance=0.8, draft_length=4, tree=25)
    assert of.rows(1) == 26
    assert of.mean() == pytest.approx(closed(0.8, 4))
    assert verified_rows(of, np.array([0, 3, 1])).tolist() == [0, 78, 26]


def test_lengths_by_load() -> None:
    of = spec(draft_length=0, by_load=[{"sequences": 4, "draft_length": 3}, {"sequences": 16, "draft_length": 1}])
    assert [of.rows(count) for count in (1, 4, 5, 16, 17)] == [4, 4, 2, 2, 1]
    assert of.most_rows == 4


@dataclass
class Draft:
    """Drafting at a price a token."""

    each: int
    length: int

    def ticks(self, rows: int, sequences: int, decoding: int) -> int:
        return self.each * self.length if decoding else 0


def ran(of: Speculation | None, c: float = 0.0, rows: Any = ((0, 4, 20_001),), **setting: Any) -> System:
    draft = None if of is None else Draft(round(c * STEP), of.draft_length)
    price = Price(
        row=0,
        sample=0,
        read=0,
        edge=ENDLESS,
        base=0,
        overhead=STEP,
        each=0,
        speculation=of,
        drafting=draft,  # type: ignore[arg-type]
    )
    done = run(asked(rows), Setting(**({"price": price, "blocks": 20_000} | setting)), fast_forward=setting == {})
    check(done)
    return done


@pytest.mark.parametrize(("a", "g", "c"), [(0.8, 4, 0.05), (0.6, 2, 0.1), (1.0, 3, 0.2), (0.3, 5, 0.2)])
def test_the_speed_up_is_that_of_the_closed_form(a: float, g: int, c: float) -> None:
    """(1 - a^(g+1)) / ((1 - a) (g c + 1)), and (g + 1) / (g c + 1) where all is accepted (theorem 3.8)."""
    plain, drafted = ran(None), ran(spec(acceptance=a, draft_length=g), c)
    times = [int(one.times("finish")[0] - one.times("first_token")[0]) for one in (plain, drafted)]
    assert times[0] == 20_000 * STEP
    assert times[0] / times[1] == pytest.approx(closed(a, g) / (g * c + 1), rel=0.02 if a < 1 else 1e-12)
    exact = ran(spec(acceptance=a, draft_length=g, yields="expected"), c)
    lasts = int(exact.times("finish")[0] - exact.times("first_token")[0])
    assert times[0] / lasts == pytest.approx(closed(a, g) / (g * c + 1), rel=1e-3)


QUEUED = 9
"""Column of requests that wait, of which a stretch knows those of its begin only."""
MANY = [(200 * i, 5 + i % 40, 2 + 7 * i % 90) for i in range(60)]


@pytest.mark.parametrize("policy", ["vllm-v1", "guaranteed", "prefill-first", "static", "orca"])
def test_all_tokens_come_out_and_all_blocks_come_back(policy: str) -> None:
    """However few blocks there are: slots of drafts are slots."""
    done = ran(spec(), rows=MANY, policy=policy, blocks=60, budget=200, most=6)
    assert set(done.ledger.status) == {FINISHED}
    assert done.ledger.done == done.ledger.output
    (replica,) = done.replicas
    assert replica.blocks.free == 60
    produced = sum(batch.decodes.produced for batch in replica.batches)  # type: ignore[attr-defined]
    recomputed = len(done.ledger.pauses)
    assert produced == sum(done.ledger.output) - len(MANY) - recomputed
    assert len(gaps(done)) == int((done.log()[:, 1] * done.log()[:, 4]).sum()) + recomputed


def test_swapped_sequences_come_back() -> None:
    done = ran(spec(), rows=MANY, blocks=40, swap=1000, budget=200)
    assert done.ledger.done == done.ledger.output
    assert done.replicas[0].preempted > 0


def test_what_a_request_gets_does_not_depend_on_its_company() -> None:
    alone = ran(spec(), rows=[(0, 8, 400)])
    beside = ran(spec(), rows=[(0, 8, 400)] + [(0, 8, 50)] * 3)
    assert alone.times("finish")[0] == beside.times("finish")[0]


@pytest.mark.parametrize("sharers", [1, 2])
def test_fast_forward_changes_nothing(sharers: int) -> None:
    given = asked(MANY)
    setting = Setting(price=Price(speculation=spec()), replicas=2, sharers=sharers, blocks=200, budget=200)
    one, other = (run(given, setting, fast_forward=leap) for leap in (True, False))
    for number in range(2):
        mine, theirs = (np.delete(done.log(number), QUEUED, axis=1) for done in (one, other))
        assert (mine == theirs).all()
    assert one.ledger.finish == other.ledger.finish


def test_drafted_tokens_take_their_part_of_the_budget() -> None:
    """Four rows each: three decodes leave 8 of 20 tokens to prompts."""
    done = ran(spec(acceptance=0.0), rows=[(0, 4, 30)] * 3 + [(4 * STEP, 16, 2)], budget=20, most=4)
    chunks = [row[5] for row in done.log().tolist() if row[5] and row[4] == 3]
    assert chunks == [8, 8]


# Costs --------------------------------------------------------------------------------------------------------------


def priced(model: str, of: Speculation | None, tp: int = 1, cluster: str = "dgx-h100", **formats: Any) -> ReplicaCost:
    return compile_costs(
        load_spec(Model, model),
        Layout(tp=tp),
        NumberFormats(**formats),
        load_spec(ServingStack, "vllm"),
        load_spec(Cluster, cluster),
        4096,
        KvCache(),
        8192,
        64,
        speculation=of,
    )


def weights(model: str, of: Speculation) -> float:
    """Billions of weights that speculation adds."""
    added = priced(model, of).weights_bytes - priced(model, None).weights_bytes
    return added / 2e9


@pytest.mark.parametrize(("model", "billions"), [("vicuna-7b", 0.24), ("vicuna-13b", 0.37)])
def test_sizes_of_eagle_heads(model: str, billions: float) -> None:
    """As their authors state (SafeAILab/EAGLE, README)."""
    assert round(weights(model, spec(kind="eagle")), 2) == billions


def test_sizes_of_medusa_heads() -> None:
    """Each 4096 x 4096 and 4096 x 32000 (arXiv:2401.10774, section 2.1.1)."""
    assert weights("vicuna-7b", spec(kind="medusa", draft_length=5)) == pytest.approx(5 * 4096 * (4096 + 32000) / 1e9)


def test_a_module_for_multi_token_prediction_has_one_layer_and_its_cache() -> None:
    """DeepSeek-V3: one layer beside 61, of 576 cached elements a token, and 14 B weights less the 1.85 B of the copies
    of embedding and head that its checkpoint has."""
    of = Speculation(kind="mtp", draft_length=1, acceptance=0.8)
    plain, drafts = (priced("deepseek-r1", one, tp=8, weights="fp8", kv="fp8") for one in (None, of))
    assert drafts.kv_token_bytes / plain.kv_token_bytes == pytest.approx(62 / 61)
    whole = Shards("deepseek-r1")
    assert whole.layer + 2 * 129_280 * 7168 == pytest.approx((684.5 - 671.0) * 1e9, rel=0.02)


class Shards:
    """Weights of the module on one device."""

    def __init__(self, name: str) -> None:
        from simulator.serving.costs.formats import resolve_formats
        from simulator.serving.costs.operators import Shard

        model = load_spec(Model, name)
        device = compile_device(load_spec(Cluster, "dgx-h100").node.accelerator)
        shard = Shard(model, 1, resolve_formats(NumberFormats(), device)[0], True)
        self.layer = shard.layer_bytes(model.predicting[0]) / 2


def test_a_draft_model_costs_what_its_own_steps_cost() -> None:
    """g passes of one row a sequence, the first of them on every row that was verified."""
    small, g = load_spec(Model, "tinyllama-1.1b"), 3
    of = Speculation(kind="draft-model", model=small, draft_length=g, acceptance=0.7)
    (stage,) = priced("llama-2-7b", of).stages
    (alone,) = priced("tinyllama-1.1b", None).stages
    (plain,) = priced("llama-2-7b", None).stages
    assert stage.drafting is not None
    n = 8
    wanted = alone.rows(n * (g + 1), n) + (g - 1) * alone.rows(n, n)
    assert stage.drafting.ticks(n * (g + 1), n, n) == pytest.approx(wanted, rel=1e-3)
    at = 512 * n
    (seen, own), (_, small_own) = ([line_at(cost.decode(n), at) for cost in (stage, plain)], (0, alone.decode(n)))
    assert seen - own == pytest.approx(g * line_at(small_own, at), rel=0.02)


def test_a_draft_of_several_tokens_a_pass_passes_less_often() -> None:
    """g / k passes, rounded up, of k rows a sequence each; the first on every row that was verified."""
    small, g, k, n = load_spec(Model, "tinyllama-1.1b"), 6, 2, 8
    of = Speculation(kind="draft-model", model=small, draft_length=g, per_pass=k, acceptance=0.7)
    (stage,) = priced("llama-2-7b", of).stages
    (alone,) = priced("tinyllama-1.1b", None).stages
    (plain,) = priced("llama-2-7b", None).stages
    assert stage.drafting is not None
    wanted = alone.rows(n * (g + 1), n * k) + 2 * alone.rows(n * k, n * k)
    assert stage.drafting.ticks(n * (g + 1), n, n) == pytest.approx(wanted, rel=1e-3)
    at = 512 * n
    own = line_at(stage.decode(n), at) - line_at(stage.attention.decode(n, g + 1), at)
    first, further = (line_at(alone.attention.decode(n, rows), at) for rows in (g + 1, k))
    assert own == pytest.approx(first + 2 * further, rel=0.02)
    assert line_at(plain.decode(n), at) < line_at(stage.decode(n), at)
    assert [of.passes(length) for length in (0, 1, 5, 6)] == [0, 1, 3, 3]


def test_a_module_sends_rows_to_its_experts_too() -> None:
    """Of 58 layers of experts and a module that passes 4 rows of each sequence once, and one row twice more."""
    given = (
        load_spec(Model, "deepseek-r1"),
        Layout(dp=8, ep=8),
        NumberFormats(weights="fp8", kv="fp8"),
        load_spec(ServingStack, "sglang").model_copy(update={"dispatcher": "deepep"}),
        load_spec(Cluster, "dgx-h200"),
    )
    of = Speculation(kind="mtp", draft_length=3, acceptance=0.8)
    rest = {"context": 4096, "kv_cache": KvCache(), "token_budget": 8192, "max_sequences": 64, "in_step": True}
    ((plain,), (drafts,)) = (compile_costs(*given, **rest, speculation=one).stages for one in (None, of))  # type: ignore[arg-type]
    one, four = (plain.exchanged(n, 8 * n) / 58 for n in (16, 64))
    assert one > 0
    assert drafts.exchanged(64, 512) == pytest.approx(58 * four + four + 2 * one, rel=1e-3)
    assert drafts.together(512, 512) > plain.together(512, 512)


def line_at(segments: Any, context: int) -> int:
    """Ticks at so many cached tokens."""
    return next(base + slope * context for end, base, slope in segments if context <= end)


def test_verified_queries_read_keys_once() -> None:
    """Latents of DeepSeek: bytes as with one query, arithmetic four times; grouped keys of Llama far below it."""
    device = compile_device(load_spec(Cluster, "dgx-h100").node.accelerator)
    one, four = (decode_lines(64, 1, 1.0, 1152.0, 278_528.0 * q, False, True, device.latent)[1] for q in (1, 4))
    assert one[0] == four[0]
    assert four[1] == pytest.approx(max(one[1], 4 * 278_528.0 / device.latent.arithmetic))
    (plain,) = priced("llama-3.1-8b", None).stages
    (drafts,) = priced("llama-3.1-8b", spec()).stages
    assert drafts.decode(16) == plain.decode(16)
    assert drafts.verified(16) == 64


def test_depths_of_a_module_count_as_layers() -> None:
    model = load_spec(Model, "deepseek-r1")
    depth = Depth(1, 0, 0, ((model.predicting[0], 1),))
    assert depth.attending(model, 1) == 1
    assert depth.caches == 1


# Whole runs ---------------------------------------------------------------------------------------------------------


def scenario(**changes: Any) -> ServingScenario:
    return ServingScenario.model_validate(
        {
            "version": 1,
            "name": "speculation",
            "cluster": load_spec(Cluster, "dgx-h100"),
            "model": load_spec(Model, "llama-3.1-8b"),
            "stack": load_spec(ServingStack, "vllm"),
            "serving": {"speculation": {"kind": "eagle", "draft_length": 3, "acceptance": 0.7}} | changes,
            "requests": {
                "arrivals": {"closed_loop": {"clients": 8}},
                "lengths": {"prompt": {"fixed": 200}, "output": {"fixed": 101}},
                "count": 200,
            },
        }
    )


def test_figures_of_a_run() -> None:
    result = serve(scenario())
    metrics = result.metrics
    assert metrics["tokens_per_step"] == pytest.approx(closed(0.7, 3), rel=0.03)
    assert metrics["total_output_tokens"] == 200 * 101
    assert metrics["mean_itl_ms"] / metrics["mean_tpot_ms"] == pytest.approx(metrics["tokens_per_step"], rel=0.05)
    plain = serve(scenario(speculation=None)).metrics
    assert "tokens_per_step" not in plain
    assert 1.2 < plain["mean_tpot_ms"] / metrics["mean_tpot_ms"] < closed(0.7, 3)
    assert result.service is not None
    (said,) = [text for text in result.assumptions if "drafted" in text]
    assert said.startswith(
        "3 drafted tokens give a sequence 2.53 an iteration on average: accepted with 70 %, an assum"
    )
    (replica,) = result.service.replicas
    assert replica.parts["draft"] > 0
    assert sum(replica.parts.values()) == pytest.approx(replica.busy)
    nothing = scenario(speculation={"draft_length": 0, "acceptance": 0.5})
    assert serve(nothing).metrics == plain


def test_the_same_seed_the_same_run() -> None:
    first, again, other = (serve(scenario().model_copy(update={"seed": seed})).metrics for seed in (3, 3, 4))
    assert first == again != other


def test_pools_speculate_on_their_own() -> None:
    """Prompts pass the head too; the cache that moves has its layer."""
    pools = [{"name": role, "role": role} for role in ("prefill", "decode")]
    apart = serve(scenario(pools=pools, speculation={"kind": "eagle", "draft_length": 3, "acceptance": 0.7}))
    assert apart.metrics["tokens_per_step"] == pytest.approx(closed(0.7, 3), rel=0.03)
    assert apart.metrics["completed"] == 200
    pools[1]["speculation"] = {"kind": "n-gram", "draft_length": 1, "acceptance": 0.5}  # type: ignore[assignment]
    other = serve(scenario(pools=pools, speculation=None))
    assert other.metrics["tokens_per_step"] == pytest.approx(1.5, rel=0.03)


@pytest.mark.parametrize("layout", [{"pp": 2}, {"tp": 2, "pp": 2}])
def test_stages_pass_verified_rows(layout: dict[str, int]) -> None:
    metrics = serve(scenario(parallel=layout)).metrics
    assert metrics["tokens_per_step"] == pytest.approx(closed(0.7, 3), rel=0.03)
    assert metrics["completed"] == 200


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"acceptance": 1.2}, "less than or equal to 1"),
        ({"acceptance": -0.1}, "greater than or equal to 0"),
        ({"acceptance": [0.5, 0.4]}, "2 depths of 3"),
        ({"tokens_per_step": 2.0}, "one of `acceptance` and `tokens_per_step`"),
        ({"acceptance": None}, "one of `acceptance` and `tokens_per_step`"),
        ({"acceptance": None, "tokens_per_step": 5.0}, "at most 4"),
        ({"kind": "draft-model"}, "names what drafts by `model`"),
        ({"tree": 2}, "not 3 deep"),
        ({"by_load": [{"sequences": 8, "draft_length": 1}] * 2}, "from few to many"),
        ({"kind": "medusa", "per_pass": 2}, "leave `per_pass` out"),
        ({"kind": "eagle", "per_pass": 4}, "more than the 3 asked for"),
    ],
)
def test_speculation_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        spec(**given)


def test_a_model_without_what_its_speculation_needs() -> None:
    with pytest.raises(InputError, match="has no module for multi-token prediction") as found:
        serve(scenario(speculation={"kind": "mtp", "draft_length": 1, "acceptance": 0.8}))
    assert found.value.problems[0].path == "serving.speculation.kind"
    stateful = replace_model(scenario(), "qwen3-next-80b-a3b")
    with pytest.raises(InputError, match="layers with a state"):
        serve(stateful)
    wide = scenario(batching={"max_sequences": 600, "token_budget": 1000})
    with pytest.raises(InputError, match="with 4 rows each"):
        serve(wide)


def replace_model(of: ServingScenario, name: str) -> ServingScenario:
    return of.model_copy(update={"model": load_spec(Model, name)})
