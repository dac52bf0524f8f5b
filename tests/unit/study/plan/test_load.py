"""The rate of a scenario's arrivals, read and set."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.serving.workload.generate import generate
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario
from simulator.study.plan.load import load

QUICKSTART = "scenarios/serving/quickstart.yaml"


def scenario(*overrides: str) -> ServingScenario:
    """The quickstart with changes."""
    found = load_scenario(QUICKSTART, ("requests.count=400", *overrides)).scenario
    assert isinstance(found, ServingScenario)
    return found


def arrivals(chosen: ServingScenario) -> Any:
    """Moments at which its requests arrive."""
    return generate(chosen.requests, chosen.seed).arrival


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("{poisson: 4 /s}", 4.0),
        ("{constant: 120 /min}", 2.0),
        ("{gamma: {rate: 5 /s, burstiness: 0.5}}", 5.0),
        ("{varying: [{duration: 10 s, rate: 2 /s}, {duration: 30 s, rate: 6 /s}]}", 5.0),
    ],
)
def test_twice_the_rate_is_the_same_requests_in_half_the_time(written: str, rate: float) -> None:
    found = load(scenario(f"requests.arrivals={written}"))
    assert found.rate == pytest.approx(rate)
    assert found.unit == "requests"
    np.testing.assert_allclose(arrivals(found.at(rate)), arrivals(found.scenario), rtol=1e-12)
    moments = arrivals(found.at(2 * rate))
    if "varying" in written:  # the rate changes at the same moments as before
        assert 1e12 * len(moments) / moments[-1] == pytest.approx(2 * rate, rel=0.2)
    else:
        np.testing.assert_allclose(moments, arrivals(found.scenario) / 2, rtol=1e-9, atol=2)


def test_a_trace_is_played_faster(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = "\n".join(f"{i / 4},100,10" for i in range(41))
    trace.write_text(f"arrival_s,prompt,output\n{rows}\n")
    override = f"requests={{trace: {trace}, speed: 2.0}}"
    found = load(load_scenario(QUICKSTART, [override]).scenario)  # type: ignore[arg-type]
    assert (found.process, found.rate) == ("trace", pytest.approx(8.0))
    assert found.at(4.0).requests.speed == pytest.approx(1.0)
    part = load(load_scenario(QUICKSTART, [override, "requests.count=3"]).scenario)  # type: ignore[arg-type]
    assert part.rate == pytest.approx(8.0)
    with pytest.raises(InputError, match="no times"):
        load(load_scenario(QUICKSTART, [override, "requests.count=1"]).scenario)  # type: ignore[arg-type]


def test_conversations_are_counted_where_there_are_any() -> None:
    found = load(scenario("requests.sessions={turns: {fixed: 3}, think: {fixed: 5}}"))
    assert (found.unit, found.rate) == ("conversations", 4.0)


def test_alone_is_one_user() -> None:
    alone = load(scenario()).alone()
    assert alone.requests.arrivals.closed_loop is not None
    assert alone.requests.arrivals.closed_loop.clients == 1
    assert (arrivals(alone) >= 0).sum() == 1


@pytest.mark.parametrize(
    ("written", "message"),
    [("{closed_loop: {clients: 4}}", "users who wait"), ("{at_once: true}", "all at once"), ("{}", "all at once")],
)
def test_what_has_no_rate_is_refused(written: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(scenario(f"requests.arrivals={written}"))


@pytest.mark.parametrize(("moments", "rate"), [((0.0, 0.5), 4.0), ((1.0, 1.0, 1.0), None), ((3.0,), None)])
def test_the_rate_of_a_short_trace(moments: tuple[float, ...], rate: float | None, tmp_path: Path) -> None:
    """Two requests half a second apart are 2/s, at twice the speed 4/s; at one moment they have no rate."""
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["arrival_s,prompt,output", *(f"{moment},100,10" for moment in moments)]) + "\n")
    asked = load_scenario(QUICKSTART, [f"requests={{trace: {trace}, speed: 2.0}}"]).scenario
    if rate is None:
        with pytest.raises(InputError, match="no times"):
            load(asked)  # type: ignore[arg-type]
    else:
        assert load(asked).rate == pytest.approx(rate)  # type: ignore[arg-type]
