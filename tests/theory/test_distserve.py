"""DistServe's queueing model (OSDI 2024, Section 3): M/D/1 with its fitted latencies in place of our prices.

Time to first token with rate R and a prefill of D seconds: D + R D^2 / (2 (1 - R D)); over two stages
D + R D^2 / (4 (2 - R D)); on more devices that are K times as fast together D / K + R D^2 / (2 K (K - R D)).
"""

import pytest

from simulator.results.result import Result
from simulator.study.papers.claims import scenario
from simulator.study.papers.latency_models import FittedStage, Latencies, serve_fitted

PROMPT, ANSWER = 512, 20
FITS: Latencies = (18.103, 0.10191, 7.1223e-06), (19.935, 0.00062694, 0.038507), (7.1662, 0.0005798, 0.15831)
"""OPT-13B on one A100, of LLMServe/DistServe simdistserve/estimators/profile_data."""
THRESHOLD = 95
D = (FITS[0][0] + FITS[0][1] * PROMPT + FITS[0][2] * PROMPT**2) / 1e3
"""Seconds of a prefill."""


def run(rate: float, *changes: str, faster: float = 1.0, output: int = 1, count: int = 60_000) -> Result:
    """Prompts of one length one by one, through prefills that take D / `faster`."""
    shape = (
        f"requests.lengths={{prompt: {{fixed: {PROMPT}}}, output: {{fixed: {output}}}}}",
        f"requests.count={count}",
        f"requests.arrivals.poisson={rate} /s",
        "serving.batching={max_sequences: 1, token_budget: 512}",
        *changes,
    )
    prefill, *decode = (tuple(x / faster for x in each) for each in FITS)
    return serve_fitted(scenario("distserve/vllm-13b", shape), lambda _: (prefill, *decode), THRESHOLD)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_the_first_token_of_one_instance(load: float) -> None:
    rate = load / D
    expected = D + rate * D**2 / (2 * (1 - rate * D))
    assert run(rate).metrics["mean_ttft_ms"] / 1e3 == pytest.approx(expected, rel=0.03)


def test_the_first_token_over_two_stages() -> None:
    rate = 1.2 / D
    expected = D + rate * D**2 / (4 * (2 - rate * D))
    found = run(rate, "serving.parallel={pp: 2}", count=30_000).metrics["mean_ttft_ms"]
    assert found / 1e3 == pytest.approx(expected, rel=0.03)


def test_the_first_token_on_faster_devices() -> None:
    speed, rate = 1.6, 1.0 / D
    expected = D / speed + rate * D**2 / (2 * speed * (speed - rate * D))
    assert run(rate, faster=speed).metrics["mean_ttft_ms"] / 1e3 == pytest.approx(expected, rel=0.03)


def test_a_request_alone_takes_what_the_fit_says() -> None:
    a, b, c = FITS[1]
    decodes = sum(a + b * (PROMPT + done) + c for done in range(1, ANSWER))
    found = run(1.0, output=ANSWER, count=1).metrics["mean_e2el_ms"]
    assert found == pytest.approx(1e3 * D + decodes, rel=1e-9)


def test_large_batches_take_the_other_fit() -> None:
    stage = FittedStage(FITS, THRESHOLD)
    ((_, small, _),), ((_, large, _),) = stage.decode(THRESHOLD - 1), stage.decode(THRESHOLD)
    assert small == round(1e9 * (19.935 + 0.038507 * 94))
    assert large == round(1e9 * (7.1662 + 0.15831 * 95))
