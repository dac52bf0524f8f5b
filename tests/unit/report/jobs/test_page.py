"""The terminal page of several jobs."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from simulator.report.jobs import contents
from simulator.report.result.page import page
from simulator.results.result import Result
from tests.factories import out_of_memory
from tests.several import beside, jobs_result, simulated


def lines(result: Result, width: int = 100) -> list[str]:
    return page(result, width=width).splitlines()


def row(text: list[str], first: str) -> str:
    """The first line that begins with a word."""
    return next(line for line in text if line.split()[:1] == [first])


@pytest.mark.parametrize("made", [jobs_result, simulated, beside])
@pytest.mark.parametrize("width", [60, 80, 100])
def test_pages_keep_to_their_width(made: Callable[[], Result], width: int) -> None:
    assert max(map(len, lines(made(), width))) <= width


def test_a_row_for_each_job() -> None:
    text = lines(jobs_result())
    train, chat = row(text, "train").split(), row(text, "chat").split()
    assert train[:4] == ["train", "trains", "192", "step"]
    assert train[4:10] == ["272", "ms", "340", "ms", "1.25", "x"]
    assert chat[:4] == ["chat", "serves", "2", "request"]
    assert "500 ms to 40.0 s" in row(text, "chat") or "0.500 s to 40.0 s" in row(text, "chat")


def test_where_they_met_and_what_each_had() -> None:
    met = row(lines(jobs_result()), "leaf")
    assert "leaf up 3 and 3 alike" in met
    assert "25.0 GB/s" in met
    assert "train 48.0 % · chat 52.0 %" in met


def test_what_is_alike_is_said_once_and_by_job() -> None:
    text = page(simulated())
    assert text.count("precision is not given") == 1
    assert "large, small: precision is not given: bf16" in text
    assert "large: placement spread: 32 devices of nodes 0, 2, 4, 6" in text
    assert "Megatron-Core 0.6 to 0.12 with Transformer Engine (" not in text


def test_jobs_that_did_not_meet() -> None:
    text = page(replace(jobs_result(), meetings=()))
    assert contents.NOWHERE in " ".join(text.split())
    alone = jobs_result()
    assert "Where they met" not in page(replace(alone, jobs=alone.jobs[:1], meetings=()))


def test_a_job_that_does_not_fit_is_said_first() -> None:
    result = jobs_result()
    train = replace(result.jobs[0], result=out_of_memory())
    text = page(replace(result, jobs=(train, result.jobs[1]), feasible=False))
    assert "INFEASIBLE  train: needs" in text


def test_what_disturbs_them_and_who_goes_on() -> None:
    text = " ".join(page(jobs_result()).split())
    assert "slow-links from 2.00 s for 1.00 s: NIC 17, 10.0 % of the bandwidth left" in text
    assert "train: further steps follow, which are not counted, until all jobs are done" in text
    assert "clustersim run FILE --job train" in text
    assert contents.quoted("two words") == "'two words'"


@pytest.mark.parametrize(("times", "drawn"), [("regular", ""), ("random", " on average")])
def test_links_that_flap_say_for_how_long(times: str, drawn: str) -> None:
    one = {"kind": "flapping-links", "links": ["NIC 1"], "start": 0.0, "up": 20.0, "down": 0.3, "times": times}
    result = jobs_result()
    text = " ".join(page(replace(result, scenario={**result.scenario, "perturbations": [one]})).split())
    assert f"flapping-links from 0 s: NIC 1, 300 ms down and 20.0 s up{drawn}" in text


def test_the_ground_of_each_job_where_they_differ() -> None:
    both = [line for line in lines(beside()) if line.startswith(" Ground: ")]
    assert [line.split()[1] for line in both] == ["training:", "service:"]
    assert len([line for line in lines(simulated()) if line.startswith(" Ground: ")]) == 1


@pytest.mark.parametrize(("value", "words"), [(1.0042, "1.0042 x"), (1.25, "1.25 x"), (float("nan"), "-")])
def test_slowdowns(value: float, words: str) -> None:
    assert contents.slowdown(value) == words
