"""Training of an adapter in what iterations leave: no iteration lasts longer for it than it may, tokens are conserved,
and with nothing to serve it runs at the rate of its own iterations."""

from typing import Any

import numpy as np
import pytest

from simulator.cli import main
from simulator.results.files import read, save
from simulator.results.result import Result
from simulator.run.serve import serve, serving
from simulator.run.site import Site
from simulator.serving.costs.beside.finetuning import PRODUCTS
from simulator.serving.fleet.system import resolve
from simulator.serving.replica.finetuning import FinetuningTokens
from simulator.specs import load_scenario
from simulator.units import to_ticks

FILE = "scenarios/serving/quickstart.yaml"
TUNED = "+serving.finetuning={sequence_length: 2048, iteration: 50 ms}"
ONE = ("requests.count=1", "requests.lengths={prompt: {fixed: 64}, output: {fixed: 2000}}")


def scenario(*changes: str) -> Any:
    return load_scenario(FILE, list(changes)).spec


def run(*changes: str) -> Result:
    return serve(scenario(*changes))


def tokens_of(*changes: str) -> FinetuningTokens:
    spec = scenario("requests.count=1", *changes)
    site = Site(spec.cluster, 0)
    (replica,) = serving(site, spec, resolve(spec)).replicas
    assert replica.finetuning is not None
    return replica.finetuning


def test_no_iteration_lasts_longer_for_it_than_it_may() -> None:
    result = run(TUNED, "requests.count=60")
    assert result.service is not None
    rows = result.service.replicas[0].iterations
    assert set(rows.count.tolist()) == {1}
    most = to_ticks(50e-3)
    # An update is no token: it may come on top.
    use = result.service.finetuning
    assert use is not None and use.updates == use.sequences > 10
    lasts = rows.first[rows.prompt_tokens == 0]  # prompts alone may take longer
    over = lasts[lasts > most]
    assert np.median(lasts) > 0.98 * most
    assert len(over) <= use.updates and (over < most + to_ticks(1e-3)).all()
    assert result.metrics["completed"] == 60


def test_tokens_are_conserved() -> None:
    result = run(TUNED, "requests.count=40", "serving.replicas=2", "serving.finetuning.batch=4")
    assert result.service is not None
    use = result.service.finetuning
    assert use is not None
    under_way = use.forward_tokens - use.sequences * 2048
    assert 0 <= under_way <= 2 * 2048
    assert 0 <= use.tokens - use.sequences * 2048 <= under_way
    assert 0 <= use.sequences / 4 - use.updates < 2
    assert result.metrics["finetuning_throughput"] == pytest.approx(use.tokens / use.duration)
    busy = sum(parts["finetuning"] for parts in result.breakdown)
    assert busy == pytest.approx(use.working)
    assert result.metrics["utilisation"] <= 1.0


def test_with_nothing_to_serve_it_runs_at_the_rate_of_its_iterations() -> None:
    """The second request comes when long nothing was served: tokens over time are those of one sequence over the time
    of its iterations, which are filled to the last token that fits."""
    given = (
        "requests.count=2",
        "requests.arrivals={constant: 0.05 /s}",
        "requests.lengths={prompt: {fixed: 8}, output: {fixed: 1}}",
    )
    result = run(TUNED, *given)
    assert result.service is not None and result.service.finetuning is not None
    own = tokens_of(TUNED)
    cost, left, spent = own.cost, 2048, 0
    while left:
        taken, ticks = own._forward(0, 0, to_ticks(50e-3) - cost.host(0))
        left, spent = left - taken, spent + ticks
    spent += round(2048 * own.per_token) + own.own.update
    share = 1 - cost.host(0) / to_ticks(50e-3)
    rate = 2048 / (spent / 1e12) * share
    # Pieces of a forward pass that share an iteration with a backward pass are smaller than windows, and slower.
    assert 0.95 * rate < result.metrics["finetuning_throughput"] <= rate


def test_the_backward_pass_is_the_forward_pass_of_windows_and_two_and_a_half_times_its_attention() -> None:
    own = tokens_of(TUNED, "serving.finetuning.window=512")
    cost, curve = own.cost, own.cost.attention.curve
    products = 4 * (cost.rows(512, 512) + 2 * own.own.products.ticks(512, 1, 16))
    slower = curve.forward[-1][1] / curve.backward[-1][1]
    attention = PRODUCTS * slower * cost.attention.prompt(2048, 0)
    assert own.per_token * 2048 == pytest.approx(products + attention, rel=1e-6)


def test_where_no_token_fits_nothing_is_trained_and_nothing_else_changes() -> None:
    """The memory that training takes apart: blocks are as many."""
    few = ("requests.count=30", "serving.kv_cache.blocks=4000")
    tight, plain = run(TUNED, *few, "serving.finetuning.iteration=10 us"), run(*few)
    assert tight.service is not None and plain.service is not None
    for name in ("first_token", "finish"):
        found = [getattr(one.service.requests, name).tolist() for one in (tight, plain) if one.service]
        assert found[0] == found[1]
    assert tight.metrics["finetuning_throughput"] == 0
    assert any("no token" in text for text in tight.warnings)


def test_more_that_is_served_leaves_less_to_train() -> None:
    rates = [
        run(TUNED, "requests.count=60", f"requests.arrivals.poisson={rate} /s").metrics["finetuning_throughput"]
        for rate in (0.5, 2, 8)
    ]
    assert (np.diff(rates) < 0).all()


def test_memory_holds_one_sequence() -> None:
    kinds = [run(TUNED, *ONE, f"serving.finetuning.sequence_length={n}").memory[0].at_peak for n in (1024, 2048, 4096)]
    sizes = [kind["finetuning"] for kind in kinds]
    assert sizes[2] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[0]))
    # Llama-2-7B: of each layer and token 2 norms, queries, keys, values, output, their gradients, gate, up, and what
    # `mlp out` reads, in 16 bits.
    each = 2 * 32 * (2 * 4096 + 3 * 4096 + 4096 + 2 * 4096 + 3 * 11008)
    assert sizes[1] - sizes[0] == pytest.approx(1024 * each)


def test_what_was_trained_survives_a_file(tmp_path: Any) -> None:
    result = run(TUNED, *ONE)
    save(result, tmp_path / "result.npz")
    again = read(tmp_path / "result.npz")
    assert again.service is not None and result.service is not None
    assert again.service.finetuning == result.service.finetuning


@pytest.mark.parametrize(
    ("given", "words", "more"),
    [
        ("{sequence_length: 2048}", ("iteration: 50 ms", "serving.finetuning"), ()),
        ("{iteration: 50 ms}", ("sequence_length",), ()),
        ("{sequence_length: 0, iteration: 50 ms}", ("sequence_length", "write 1 or more"), ()),
        ("{sequence_length: 99, iteration: 0 ms}", ("finetuning.iteration",), ()),
        ("{sequence_length: 99, iteration: 1 ms, targets: [head]}", ("no product of a layer",), ()),
        ("{sequence_length: 99, iteration: 1 ms}", ("take turns",), ("+serving.parallel={pp: 2}",)),
        ("{sequence_length: 99, iteration: 1 ms}", ("come, go and fail",), ("+serving.fleet={failures: {mtbf: 9 s}}",)),
        ("{sequence_length: 99, iteration: 1 ms}", ("loaded in every",), ("+serving.weights={path: host}",)),
    ],
)
def test_what_cannot_be_trained_is_refused_in_words(
    given: str, words: tuple[str, ...], more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FILE, "--quiet", "requests.count=10", f"+serving.finetuning={given}", *more]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    for word in words:
        assert word in said, said


def test_pages_say_what_was_trained(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    page = tmp_path / "page.html"
    assert main(["run", FILE, *ONE, TUNED, "--html", str(page)]) == 0
    assert "tokens/s trained" in capsys.readouterr().out
    assert "Finetuning beside it" in page.read_text()


def test_a_sequence_larger_than_memory_is_infeasible(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", FILE, "--quiet", *ONE, TUNED, "serving.finetuning.sequence_length=131072"]) == 4
    assert "Traceback" not in capsys.readouterr().err
