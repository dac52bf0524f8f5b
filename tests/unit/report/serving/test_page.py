import re
from dataclasses import replace

import numpy as np
import pytest

from simulator.report.result.html import document
from simulator.report.result.page import page
from simulator.report.serving.page import MOST_REPLICAS, parts_in_words
from simulator.report.text.plain import encodable
from simulator.results.result import DeviceClass, MemoryUse, Result, Spans
from tests.services import Slo, asked, disaggregated, serve, serving_result

RESULT = serving_result(serve(asked(), blocks=130))


def section(text: str, heading: str) -> list[str]:
    """Lines of a page from a heading to the next empty line."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.strip().startswith(heading))
    end = next((i for i in range(begin, len(lines)) if not lines[i].strip()), len(lines))
    return lines[begin + 1 : end]


def test_headline() -> None:
    text = page(RESULT, elapsed_s=1.5)
    assert "2 replicas of 2 x A100 · Llama 2 7B · 200 requests · vLLM" in text
    assert re.search(r"requests finished +196", text)
    assert re.search(r"requests rejected +4", text)
    assert f"{RESULT.metrics['output_throughput']:.3g}" in text
    assert "per million output tokens" in text
    assert "simulated in 1.50 s · clustersim 0.1.0 · scenario 0f3a0f3a0f3a0f3a" in text


def test_latencies() -> None:
    head, *rows = section(page(RESULT), "Latency")
    assert head.split() == ["mean", "median", "P90", "P95", "P99"]
    assert [row.split()[0] for row in rows] == ["TTFT", "TPOT", "ITL", "E2E", "queue"]
    assert f"{RESULT.metrics['mean_tpot_ms']:.1f} ms" in rows[1]


def test_latencies_of_each_class_where_there_are_several() -> None:
    assert RESULT.service is not None
    requests = RESULT.service.requests
    classes = np.arange(len(requests.arrival)) % 2
    service = replace(RESULT.service, requests=replace(requests, priority=classes))
    head, *rows = section(page(replace(RESULT, service=service)), "Latency by priority class")
    assert head.split() == ["class", "finished", "TTFT", "mean", "P99", "TPOT", "mean", "P99", "E2E", "mean", "P99"]
    assert [row.split()[:2] for row in rows] == [["0", "96"], ["1", "100"]]
    text = document(replace(RESULT, service=service))
    assert "class 0" in text and "TTFT P99" in text
    assert "priority class" not in page(RESULT)


def test_objectives_with_what_was_wanted() -> None:
    rows = section(page(RESULT), "Objectives")
    assert [row.split()[0] for row in rows] == ["TTFT", "TPOT", "all"]
    assert "at most 500 ms" in rows[0]
    assert "wanted 90.0 %" in rows[2]
    assert "Objectives" not in page(serving_result(serve(asked(50)), None))


def test_parts_of_a_request_sum_to_its_time() -> None:
    _axis, bar, *rows = section(page(RESULT), "Where the time of a request goes")
    shares = [float(row.rstrip(" %").split()[-1]) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.3)
    assert {"queue", "prompts", "decoding"} <= {word for row in rows for word in row.split()}
    assert "░" in bar and "█" in bar


def test_caches_and_replicas() -> None:
    text = " ".join(section(page(RESULT), "Key-value caches"))
    assert f"{int(RESULT.metrics['preemptions']):,} preemptions" in text
    head, *rows = section(page(RESULT), "Replicas")
    assert head.split()[:4] == ["busy", "iterations", "batch", "cache"]
    assert any("linear 60.0, attention 20.0" in row for row in rows)


def test_images() -> None:
    assert "Images" not in page(RESULT)
    figures = {"total_images": 3.0, "total_image_tokens": 3054.0, "image_encoding_s": 0.25}
    (line,) = section(page(replace(RESULT, metrics={**RESULT.metrics, **figures})), "Images")
    assert "3 images" in line and "3,054 tokens of prompts" in line and "encoded in 250 ms" in line


def test_of_many_replicas_the_busiest_and_the_idlest() -> None:
    service = serve(asked(60), replicas=20)
    rows = section(page(serving_result(service)), "Replicas, the busiest and the idlest of 20")
    assert len([row for row in rows if row.strip().startswith("replica")]) == MOST_REPLICAS


def test_parts_in_words() -> None:
    assert parts_in_words({}) == "-"
    many = dict.fromkeys("abcdef", 1.0)
    assert parts_in_words(many) == "a 16.7, b 16.7, c 16.7, d 16.7, rest 33.3"


def test_published_warnings_assumptions() -> None:
    text = page(RESULT)
    assert re.search(r"mean TTFT +700 ms", text)
    assert "the queue grows" in section(text, "Warnings")[0]
    assert "block_size" in section(text, "Assumptions")[0]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    for result in (RESULT, replace(RESULT, name="x" * 300), serving_result(disaggregated(), None)):
        text = page(result, width=width)
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text.partition("output tokens/s")[2].partition("Published")[0]


def test_colour_and_ascii() -> None:
    assert "\x1b" not in page(RESULT)
    assert "\x1b" in page(RESULT, colour=True)
    text = encodable(page(RESULT), "ascii")
    assert text.isascii()
    assert "?" not in text


def test_names_from_files_cannot_steer_the_terminal() -> None:
    evil = "\x1b]0;owned\x07 [bold]x[/bold]\n"
    assert RESULT.service is not None
    replicas = tuple(replace(one, name=evil, device=evil, parts={evil: 1.0}) for one in RESULT.service.replicas)
    scenario = {"model": {"name": evil}, "slo": {"ttft": "soon", "attainment": [1]}}
    text = page(replace(RESULT, service=replace(RESULT.service, replicas=replicas), scenario=scenario, name=evil))
    assert not set(text) & {"\x1b", "\x07"}


def test_a_model_that_does_not_fit() -> None:
    none, short = np.zeros(0, np.int64), np.zeros(0, np.int32)
    memory = (MemoryUse(0, 80e9, 140e9, {"weights": 140e9}, np.zeros(1, np.int64), np.full(1, 140e9)),)
    result = Result(
        kind="serving",
        name="too large",
        metrics={},
        classes=(DeviceClass("all", 1, 0),),
        breakdown=(),
        spans=Spans(none, none, short, short, short, short, (), ()),
        memory=memory,
        feasible=False,
    )
    text = page(result)
    assert "OUT OF MEMORY  all (rank 0) needs 140 GB of 80.0 GB" in text
    assert "If it fitted" not in text


def test_nothing_was_asked() -> None:
    assert "0 requests" in page(serving_result(serve([]), Slo(), comparisons=()))
