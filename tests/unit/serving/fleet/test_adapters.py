"""Adapters when serving: bytes and kernels counted by hand, systems that cannot have them, what is said of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.cli import main
from simulator.cost import compile_device
from simulator.errors import InputError
from simulator.random import stream
from simulator.results import files
from simulator.results.result import Result
from simulator.results.serving.adapters import AdapterUse
from simulator.run.serve import serve
from simulator.serving.costs.beside.adapters import AdapterProducts, adapters_of
from simulator.serving.costs.depth import depths
from simulator.serving.costs.formats import resolve_formats
from simulator.serving.costs.operators import Shard
from simulator.serving.workload.adapters import BASE, apart, assigned
from simulator.serving.workload.generate import Workload, generate
from simulator.specs import load_scenario, load_spec
from simulator.specs.adapters import Adapters
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import NumberFormats
from simulator.units import TICKS_PER_SECOND
from tests.unit.serving.costs.test_iteration import stack

FILE = "scenarios/serving/quickstart.yaml"
ALL = ("attention in", "attention out", "mlp in", "mlp out")


def products(model: str = "llama-7b", tp: int = 1, **spec: Any) -> AdapterProducts:
    shape = load_spec(Model, model)
    device = compile_device(load_spec(Cluster, "dgx-a100").node.accelerator)
    shard = Shard(shape, tp, resolve_formats(NumberFormats(weights="fp16"), device)[0], True)
    (found,) = adapters_of(shard, depths(shape, (shape.layers,)), device, stack(), Adapters(count=1, **spec), (), ())
    assert isinstance(found, AdapterProducts)
    return found


@pytest.mark.parametrize(("rank", "megabytes"), [(8, 16.8), (16, 33.6), (64, 134)])
def test_bytes_of_an_adapter_are_the_published_ones(rank: int, megabytes: float) -> None:
    """Llama-7B, queries, keys, values and output in fp16: r (d_in + d_out) of each."""
    assert products().bytes(rank) == pytest.approx(megabytes * 1e6, rel=2e-3)
    assert products().bytes(rank) == 32 * 4 * rank * (4096 + 4096) * 2


def test_devices_share_the_cut_side_of_each_matrix() -> None:
    """Column-cut products have the first matrix whole, row-cut ones the second."""
    size = 32 * 16 * 2
    assert products(tp=4).bytes(16) == size * (3 * (4096 + 4096 // 4) + (4096 // 4 + 4096))
    whole = products(tp=1, targets=ALL).bytes(16)
    assert whole == size * (4 * 8192 + 2 * (4096 + 11008) + (11008 + 4096))
    assert whole < 4 * products(tp=4, targets=ALL).bytes(16)


def test_kernels_are_launches_and_bytes_for_few_rows() -> None:
    found = products(targets=ALL)
    curve = found.device.stream
    adapters = rows = 32
    between = 32 * rows * (3 + 1 + 2 + 1) * 16 * 4.0
    outputs = 32 * rows * (3 * 4096 + 4096 + 2 * 11008 + 4096) * 2
    inputs = 32 * rows * (4096 + 4096 + 4096 + 11008) * 2  # queries, keys and values read theirs together
    moved = adapters * found.bytes(16) + 2 * between + inputs + 2 * outputs
    seconds = 32 * 4 * 2 * curve.launch + moved / (curve.bandwidth * curve.efficiency)
    assert found.ticks(rows, adapters, 16 * adapters) == pytest.approx(seconds * TICKS_PER_SECOND, rel=1e-9)


def test_more_rows_adapters_and_ranks_never_take_less_time_and_one_by_one_takes_most() -> None:
    grouped, single = products(), products(kernels="one-by-one")
    assert grouped.ticks(0, 0, 0) == 0
    for rows, adapters in ((1, 1), (8, 8), (512, 3), (4096, 1)):
        ticks = grouped.ticks(rows, adapters, 16 * adapters)
        assert ticks <= grouped.ticks(2 * rows, adapters, 16 * adapters)
        assert ticks <= grouped.ticks(2 * rows, adapters + 1, 16 * (adapters + 1))
        assert ticks <= grouped.ticks(rows, adapters, 32 * adapters)
        launches = round((adapters - 1) * 32 * 2 * 2 * grouped.device.stream.launch * TICKS_PER_SECOND)
        assert single.ticks(rows, adapters, 16 * adapters) == pytest.approx(ticks + launches, abs=2)


def workload(count: int = 2000, **more: Any) -> Workload:
    lengths = {"prompt": {"fixed": 100}, "output": {"fixed": 10}}
    return generate(Requests.model_validate({"lengths": lengths, "count": count} | more), 1)


def test_popularity_and_share_are_those_that_are_asked_for() -> None:
    found = assigned(workload(20_000), Adapters(count=50, zipf=1.0, base_share=0.25), 3)
    counts = np.bincount(found[found != BASE], minlength=50)
    assert (found == BASE).mean() == pytest.approx(0.25, abs=0.02)
    weights = 1 / np.arange(1, 51)
    np.testing.assert_allclose(counts / counts.sum(), weights / weights.sum(), atol=0.012)
    assert set(assigned(workload(), Adapters(count=3), 3).tolist()) == {0, 1, 2}


def test_turns_of_a_conversation_and_requests_of_a_tenant_have_one_adapter() -> None:
    talks = workload(sessions={"turns": {"fixed": 4}, "think": {"fixed": 1}})
    found = assigned(talks, Adapters(count=100, base_share=0.3), 5)
    assert talks.session is not None
    for session in np.unique(talks.session):
        assert len(set(found[talks.session == session].tolist())) == 1
    tenants = [{"name": "a", "share": 0.7}, {"name": "b", "share": 0.3}]
    owned = workload(tenants=tenants)
    assert owned.tenant is not None
    assert assigned(owned, Adapters(count=2, by_tenant=True), 5, 2).tolist() == owned.tenant.tolist()


def test_prefixes_are_shared_by_requests_of_one_adapter_only() -> None:
    shared = workload(200, shared_prefix={"tokens": {"fixed": 64}, "groups": 3})
    adapters = stream(0, "test").integers(-1, 4, 200)
    made = apart(shared, adapters)
    assert shared.prefix is not None and made.prefix is not None
    for i in range(0, 200, 7):
        for j in range(200):
            same = tuple(shared.prefix[i]) == tuple(shared.prefix[j]) and adapters[i] == adapters[j]
            assert (tuple(made.prefix[i]) == tuple(made.prefix[j])) == same
            assert same or set(made.prefix[i]).isdisjoint(made.prefix[j])
    traced = replace(shared, prefix=((5, 7), (5, 8)) * 100)
    assert apart(traced, np.zeros(200, np.int64)).prefix == ((14, 16), (14, 17)) * 100


def loads(*given: str) -> int:
    """Loads of adapters in a run that does all of its 60 requests."""
    scenario = load_scenario(FILE, ["requests.count=60", "+serving.adapters={count: 4, slots: 4}", *given]).scenario
    assert isinstance(scenario, ServingScenario)
    result = serve(scenario)
    assert result.service is not None and result.service.adapters is not None
    assert result.metrics["completed"] == 60
    return result.service.adapters.loads


def test_adapters_stand_beside_pools_or_failures(tmp_path: Path) -> None:
    """Both sides of pools load what they need, replicas load again after a failure; the two together are refused."""
    pools = "+serving.pools=[{name: p, role: prefill}, {name: d, role: decode}]", "serving.replicas=1"
    trace = tmp_path / "faults.csv"
    trace.write_text("time,what,until\n3,replica 1,4\n")
    fails = f"+serving.fleet={{failures: {{trace: {trace}}}}}"
    assert loads(*pools) == 8
    assert loads("serving.replicas=2", fails) > loads("serving.replicas=2")
    with pytest.raises(InputError, match="adapters beside pools whose replicas or links fail are not simulated"):
        loads(*pools, fails)


@pytest.mark.parametrize(
    ("given", "words", "more"),
    [
        ("{count: 0}", ("adapters.count", "write 1 or more"), ()),
        ("{count: 4, rank: 0}", ("adapters.rank", "write 1 or more"), ()),
        ("{count: 4, rank: []}", ("lists at least one rank",), ()),
        ("{count: 4, targets: [mlp up]}", ("`mlp up` is no product of a layer", "`mlp in`"), ()),
        ("{count: 4, host_slots: 2}", ("hosts hold 2 of 4 adapters", "`storage`"), ()),
        ("{count: 4, storage: 6 GB/s}", ("none comes from `storage`",), ()),
        ("{count: 9, slots: 4, host_slots: 2, storage: 6 GB/s}", ("`host_slots` 2 are fewer than the 4",), ()),
        ("{count: 4, by_tenant: true, zipf: 1}", ("leave one out",), ()),
        ("{count: 4, by_tenant: true}", ("need `requests.tenants`",), ()),
        ("{count: 4, base_share: 1.5}", ("base_share",), ()),
        ("{count: 4, kernels: fused}", ("write `grouped` or `one-by-one`",), ()),
        ("{count: 4, rank: 65536, slots: 1}", ("an adapter of rank 65536 takes", "are free beside weights"), ()),
        ("{count: 4, rank: 65536}", ("an adapter of rank 65536 takes", "the whole cache has", "adapters.rank"), ()),
        ("{count: 4, slots: 2}", ("the devices of", "are the host"), ("cluster=clusters/laptop-cell",)),
        (
            "{count: 4}",
            ("change their role", "leave `adapters` or `switching` out"),
            ("+serving.pools=[{name: p, role: prefill}, {name: d, role: decode}]", "+serving.switching={}"),
        ),
    ],
)
def test_adapters_that_cannot_be_are_refused_in_words(
    given: str, words: tuple[str, ...], more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FILE, "--quiet", "requests.count=10", f"+serving.adapters={given}", *more]) == 2
    said = capsys.readouterr()
    assert not said.out and "Traceback" not in said.err
    for word in words:
        assert word in said.err, said.err


@pytest.fixture(scope="module")
def result() -> Result:
    given = "+serving.adapters={count: 12, rank: [8, 64], slots: 3, host_slots: 5, storage: 2 GB/s}"
    scenario = load_scenario(FILE, ["requests.count=60", given]).spec
    return serve(scenario)  # type: ignore[arg-type]


def test_the_result_says_what_became_of_them(result: Result, tmp_path: Path) -> None:
    assert result.service is not None
    use = result.service.adapters
    assert isinstance(use, AdapterUse)
    assert use.requests == 60 and 0 < use.hits < 60 and use.loads >= use.fetched > 0 and use.most <= 3
    assert result.metrics["adapter_hit_rate"] == use.hits / 60
    assert "adapters" in result.memory[0].at_peak and "adapters" in result.breakdown[0]
    path = tmp_path / "result"
    files.save(result, path)
    read = files.read(path)
    assert read.service is not None and read.service.adapters == use


def test_slots_are_taken_from_the_cache() -> None:
    """Each slot takes the bytes of the largest rank, block by block."""
    rows = []
    for slots in (1, 9):
        given = f"+serving.adapters={{count: 12, rank: [8, 64], slots: {slots}}}"
        (memory,) = serve(load_scenario(FILE, ["requests.count=1", "serving.replicas=1", given]).spec).memory  # type: ignore[arg-type]
        rows.append(memory.at_peak)
    taken = rows[1]["adapters"] - rows[0]["adapters"]
    assert rows[1]["adapters"] == 9 * rows[0]["adapters"]
    assert rows[0]["kv cache"] - rows[1]["kv cache"] == pytest.approx(taken, rel=1e-3)


@pytest.mark.parametrize("form", ["page", "html", "json"])
def test_every_form_has_them(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = "+serving.adapters={count: 12, slots: 3, host_slots: 5, storage: 2 GB/s}"
    out = {"page": [], "html": ["--html", str(tmp_path / "a.html")], "json": ["--json", "-"]}[form]
    assert main(["run", FILE, "requests.count=40", given, *out]) == 0
    said = (tmp_path / "a.html").read_text() if form == "html" else capsys.readouterr().out
    words = {
        "page": ("Adapters", "found on the devices"),
        "html": ("Adapters", "from storage"),
        "json": ('"adapters"',),
    }
    assert all(word in said for word in words[form])
