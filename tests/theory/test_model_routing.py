"""Several models behind one address: attempts are counted once, latencies add up, shares come out as written."""

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.cli import main
from simulator.results import read, save
from simulator.results.result import Result, Service
from simulator.results.serving.model_routing import ModelUse, by_model
from simulator.results.serving.request_time import request_time
from simulator.results.serving.service import FAILED, FINISHED, by_difficulty
from simulator.run.serve import serve
from simulator.specs import load_scenario

SMALL, LARGE = "models/qwen2.5-1.5b", "models/llama-2-7b"
FILE = f"""version: 1
name: two models
cluster: {{extends: clusters/dgx-a100, nodes: 1}}
model: {LARGE}
stack: vllm
serving:
  pools: [{{name: small, model: {SMALL}}}, {{name: large, replicas: 2}}]
  models: MODELS
requests: {{arrivals: {{constant: 0.2 /s}}, lengths: {{prompt: {{fixed: 300}}, output: {{fixed: 60}}}}, count: 20}}
"""
ONE = "classes: [{name: any, share: 1, accepted: {small: SHARE}}]"


def written(folder: Path, models: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(FILE.replace("MODELS", "{" + models + "}"))
    return path


def run(folder: Path, models: str, *changes: str) -> Result:
    return serve(load_scenario(str(written(folder, models)), list(changes)).spec)  # type: ignore[arg-type]


def cascade(folder: Path, share: str, *changes: str, judge: str = "0 s") -> tuple[Result, Service, ModelUse]:
    result = run(folder, f"cascade: [small, large], judge: {judge}, {ONE.replace('SHARE', share)}", *changes)
    assert result.service is not None and result.service.models is not None
    return result, result.service, result.service.models


def alone(folder: Path, pool: str, *changes: str) -> Service:
    """All requests at one pool."""
    service = run(folder, f"classes: [{{name: any, share: 1, sent: {{{pool}: 1}}}}]", *changes).service
    assert service is not None
    return service


def latency(service: Service) -> list[int]:
    return (service.requests.finish - service.requests.arrival).tolist()  # type: ignore[no-any-return]


def test_a_request_that_is_asked_again_takes_as_long_as_both_answers(tmp_path: Path) -> None:
    """Requests that never meet: the two latencies and the judging add up, to the tick."""
    both = cascade(tmp_path, "0 %", judge="30 ms")[1]
    small, large = alone(tmp_path, "small"), alone(tmp_path, "large")
    judge = 30_000_000_000
    assert latency(both) == [a + b + judge for a, b in zip(latency(small), latency(large), strict=True)]
    parts = request_time(both)
    assert parts["earlier"].tolist() == [a + judge for a in latency(small)]
    assert np.sum(list(parts.values()), axis=0).tolist() == latency(both)
    np.testing.assert_array_equal(both.requests.first_token - both.requests.scheduled, parts["prefill"])


def test_answers_that_do_are_those_of_the_small_model_alone(tmp_path: Path) -> None:
    result, service, use = cascade(tmp_path, "100 %", judge="30 ms")
    assert latency(service) == [ticks + 30_000_000_000 for ticks in latency(alone(tmp_path, "small"))]
    assert use.pool.tolist() == [0] * 20 and use.kept.all()
    assert result.metrics["asked_again_share"] == result.metrics["discarded_tokens"] == 0
    assert "expected_accuracy" not in result.metrics  # nothing says it


def test_requests_are_counted_once_and_attempts_add_up(tmp_path: Path) -> None:
    result, service, use = cascade(tmp_path, "60 %", "requests.count=400", "requests.arrivals={poisson: 5 /s}")
    assert result.metrics["completed"] == 400 == use.kept.sum()
    again = len(use.request) - 400
    assert (use.pool == 0).sum() == 400 and (use.pool == 1).sum() == again
    assert result.metrics["asked_again_share"] == again / 400
    assert 0.4 * 400 - 4 * 9.8 < again < 0.4 * 400 + 4 * 9.8  # four standard deviations of a binomial
    assert result.metrics["discarded_tokens"] == 60 * again
    assert result.metrics["total_output_tokens"] == 60 * 400
    ends = np.zeros(400, np.int64)
    ends[use.request[use.kept > 0]] = use.end[use.kept > 0]
    np.testing.assert_array_equal(ends, service.requests.finish)
    pools, classes = by_model(use), by_difficulty(service)
    for amount in ("cost_usd", "energy_j"):
        assert sum(one[amount] for one in pools.values()) == pytest.approx(result.metrics[amount], rel=1e-9)
        assert sum(one[amount] for one in classes.values()) == pytest.approx(result.metrics[amount], rel=1e-9)


def test_classes_go_where_their_shares_say_and_are_as_right_as_the_table(tmp_path: Path) -> None:
    easy = "{name: easy, share: 75 %, sent: {small: 1}, accuracy: {small: 0.8}}"
    hard = "{name: hard, share: 25 %, sent: {small: 0.5, large: 0.5}, accuracy: {small: 0.2, large: 0.6}}"
    changes = "requests.count=2000", "requests.arrivals={at_once: true}", "requests.lengths.output={fixed: 2}"
    result = run(tmp_path, f"classes: [{easy}, {hard}]", *changes)
    assert result.service is not None and result.service.models is not None
    found, use = by_difficulty(result.service), result.service.models
    assert found["easy"]["requests"] == pytest.approx(1500, abs=80)
    assert found["easy"]["answers_large"] == 0
    assert found["hard"]["answers_small"] == pytest.approx(found["hard"]["requests"] / 2, abs=50)
    own = found["hard"]["answers_small"] * 0.2 + found["hard"]["answers_large"] * 0.6
    assert found["hard"]["expected_accuracy"] == pytest.approx(own / found["hard"]["requests"])
    every = (own + found["easy"]["requests"] * 0.8) / 2000
    assert result.metrics["expected_accuracy"] == pytest.approx(every)
    assert len(use.request) == 2000


def test_a_pipeline_asks_more_of_its_model(tmp_path: Path) -> None:
    first = f"cascade: [small, large], pipelines: {{large: {{prompt: 3, output: 2}}}}, {ONE.replace('SHARE', '0')}"
    result = run(tmp_path, first)
    assert result.service is not None and result.service.models is not None
    use = result.service.models
    assert use.prompt.tolist() == [300 if pool == 0 else 900 for pool in use.pool]
    assert use.output.tolist() == [60 if pool == 0 else 120 for pool in use.pool]
    longer = "requests.lengths={prompt: {fixed: 900}, output: {fixed: 120}}"
    large = use.pool == 1
    assert (use.end - use.sent)[large].tolist() == latency(alone(tmp_path, "large", longer))


def test_a_pipeline_of_short_answers_leaves_the_next_model_its_own(tmp_path: Path) -> None:
    """Only the answer of the first model is shorter; its prompt is that of the next one."""
    first = f"cascade: [small, large], pipelines: {{small: {{output: 0.5}}}}, {ONE.replace('SHARE', '0')}"
    service = run(tmp_path, first).service
    assert service is not None and service.models is not None
    assert service.models.output.tolist() == [30 if pool == 0 else 60 for pool in service.models.pool]


@pytest.mark.parametrize("rule", ["retry", "migrate", "fail"])
def test_failures_lose_no_request_of_any_model(tmp_path: Path, rule: str) -> None:
    failing = f"+serving.fleet={{failures: {{mtbf: 4 s, repair: {{fixed: 2}}, requests: {rule}}}}}"
    busy = "requests.count=150", "requests.arrivals={poisson: 10 /s}"
    result, service, use = cascade(tmp_path, "50 %", failing, *busy, judge="200 ms")
    status = service.requests.status
    assert result.metrics["completed"] + result.metrics["failed"] == 150
    assert (use.kept > 0).sum() == (status == FINISHED).sum()
    assert len(set(use.request[use.kept > 0].tolist())) == (use.kept > 0).sum()
    assert result.metrics["replica_failures"] > 0
    lost = service.requests.status == FAILED
    assert not set(np.flatnonzero(lost).tolist()) & set(use.request[use.kept > 0].tolist())
    assert (np.diff(use.end) >= 0).all() and (use.scheduled[use.kept > 0] >= use.sent[use.kept > 0]).all()


def test_a_conversation_has_one_difficulty(tmp_path: Path) -> None:
    kinds = "classes: [{name: a, share: 0.5, sent: {small: 1}}, {name: b, share: 0.5, sent: {large: 1}}]"
    talks = "+requests.sessions={turns: {fixed: 3}, think: {fixed: 1}}"
    result = run(tmp_path, kinds, talks, "requests.count=30", "serving.router=session")
    assert result.service is not None and result.service.models is not None
    assert set(result.service.models.difficulty.tolist()) == {0, 1}
    assert result.metrics["completed"] == 30
    counts = np.bincount(result.service.models.difficulty)
    assert (counts % 3 == 0).all()  # whole conversations


def test_saved_and_read_again_it_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, service, use = cascade(tmp_path, "50 %", judge="10 ms")
    save(result, tmp_path / "a.result")
    again = read(tmp_path / "a.result")
    assert again.service is not None and again.service.models is not None
    assert by_model(again.service.models) == by_model(use)
    assert by_difficulty(again.service) == by_difficulty(service)
    path = written(tmp_path, f"cascade: [small, large], {ONE.replace('SHARE', '0.5')}")
    assert main(["run", str(path), "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)["service"]
    assert [one["pool"] for one in told["models"]] == ["small", "large"]
    assert told["difficulties"][0]["difficulty"] == "any"
    assert main(["run", str(path), "--html", str(tmp_path / "page.html")]) == 0
    page = capsys.readouterr().out
    assert "attempts" in page and "Qwen2.5" in page and "asked again" in page
    assert "Models" in (tmp_path / "page.html").read_text()


BAD = [
    ("classes: [{name: a, share: 0.5, sent: {small: 1}}]", "sums to 1"),
    ("classes: [{name: a, share: 1}]", "write `sent`"),
    ("classes: [{name: a, share: 1, sent: {small: 0.5}}]", "sums to 1"),
    ("classes: [{name: a, share: 1, sent: {smal: 1}}]", "no pool `smal`"),
    ("cascade: [small, lage], classes: [{name: a, share: 1}]", "no pool `lage`"),
    ("cascade: [small, small], classes: [{name: a, share: 1}]", "each pool once"),
    ("cascade: [small, large], classes: [{name: a, share: 1, accepted: {large: 0.5}}]", "nothing comes after"),
    ("cascade: [small, large], classes: [{name: a, share: 1, accepted: {small: 1.5}}]", "accepted"),
    ("cascade: [small, large], classes: [{name: a, share: 1}], pipelines: {big: {prompt: 2}}", "no pool `big`"),
    ("cascade: [small, large], classes: []", "classes"),
]


@pytest.mark.parametrize(("models", "message"), BAD)
def test_what_makes_no_sense_is_said(
    tmp_path: Path, models: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(written(tmp_path, models))]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert "models.yaml:8" in error or "models.yaml:7" in error


BESIDE = [
    ("+serving.adapters={count: 2}", "adapters"),
    ("serving.pools.0.role=prefill", "pool"),
    ("+requests.shared_prefix={tokens: {fixed: 64}}", "pipelines"),
]


@pytest.mark.parametrize(("change", "message"), BESIDE)
def test_what_it_is_not_simulated_with_is_said(
    tmp_path: Path, change: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    models = "cascade: [small, large], pipelines: {large: {prompt: 2}}, classes: [{name: a, share: 1}]"
    assert main(["run", str(written(tmp_path, models)), change]) == 2
    assert message in capsys.readouterr().err


def test_a_pool_with_a_model_of_its_own_needs_a_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("".join(line for line in FILE.splitlines(keepends=True) if "MODELS" not in line))
    assert main(["run", str(path)]) == 2
    assert "write `models`" in capsys.readouterr().err
