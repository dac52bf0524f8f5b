"""Shipped rows of serving as it is run now: one of each model, engine and device is simulated; the page is written."""

from dataclasses import replace
from functools import cache
from statistics import mean, median

import pytest

from benchmarks.validation_modern import KEYS, ROWS, others, score, tables, without
from simulator.calibration.stacks.numbers import at
from simulator.calibration.stacks.serving import RANGES, Fit, as_shipped, fields_of, logs_of, strewn, take
from simulator.interop.rows.jsonl import parse_line, read_lines, read_row
from simulator.interop.rows.serving import ServingRow
from simulator.run.measured.serving import map_serving_row
from simulator.specs import data_root
from simulator.study.validate.serving import ServingOutcome, validate_serving_row


@cache
def sample() -> tuple[ServingOutcome, ...]:
    """The row with the fewest requests in flight of each model, engine, device and format."""
    found: dict[tuple[object, ...], ServingRow] = {}
    for line in read_lines(data_root() / ROWS):
        row = read_row(ServingRow, parse_line(line))
        if row.kind != "online_serving" or row.spec_decoding not in (None, "none") or (row.num_nodes or 1) > 1:
            continue
        key = row.model, row.engine, row.accelerator, row.number_format
        if key not in found or (row.concurrency or 0) < (found[key].concurrency or 0):
            found[key] = row
    return tuple(validate_serving_row(row) for row in found.values())


def test_one_row_of_each_kind() -> None:
    done = [o for o in sample() if o.error is not None]
    assert len(done) == len(sample()) > 20
    assert mean(abs(o.errors["tpot"]) for o in done) < 0.2
    assert median(abs(o.errors["throughput"]) for o in done) < 0.2
    assert median(abs(o.errors["ttft"]) for o in done) < 0.5


def test_the_section_lists_every_grouping_and_stands_beside_aiconfigurator() -> None:
    text = "\n".join(tables(list(sample()), 1.0))
    assert all(f"By {key}:" in text for key in KEYS)
    assert "| latent attention | " in text and "| 161 | 11 / 8 / 23 |" in text


class Here:
    """A pool of this process alone."""

    def map(self, function, tasks, chunksize):  # type: ignore[no-untyped-def]
        return map(function, tasks)


def test_what_is_left_out_is_scored_with_other_numbers() -> None:
    row = next(o.row for o in sample() if o.row is not None and o.stack == "sglang")
    mapped = map_serving_row(row)
    take([mapped])
    fit = Fit(Here(), [mapped], fields_of("sglang"))  # type: ignore[arg-type]
    point, found = as_shipped("sglang", fit.fields), dict[str, list[tuple[str, float]]]()
    score(found, "nothing", fit, point, [mapped])
    own = validate_serving_row(row).errors
    assert dict(found["nothing"]) == pytest.approx({name: own[name] for name in ("ttft", "tpot")})
    score(found, "slower", fit, fit.moved(point, fit.fields.index("kernel_efficiency")), [mapped])
    assert dict(found["slower"])["tpot"] > own["tpot"]


def test_an_engine_that_is_left_out_takes_what_others_have() -> None:
    names = ("sglang", "vllm-async", "tensorrt-llm-serve")
    fits = {name: Fit(Here(), [], fields_of(name)) for name in names}  # type: ignore[arg-type]
    points = {name: as_shipped(name, fit.fields) for name, fit in fits.items()}
    found = dict(zip(fits["sglang"].fields, others("sglang", fits, points), strict=True))
    stated = [dict(zip(fits[n].fields, points[n], strict=True))["stream_overhead"] for n in names[1:]]
    assert found["sequence_overhead"] == pytest.approx(mean(stated))
    assert found["verify_overhead"] == mean(RANGES["verify_overhead"])  # no other engine has it


def test_numbers_of_all_stacks_without_rows_lie_at_what_is_known() -> None:
    fits = {n: Fit(Here(), [], fields_of(n)) for n in ("vllm-async", "tensorrt-llm-serve")}  # type: ignore[arg-type]
    points = {name: as_shipped(name, fit.fields) for name, fit in fits.items()}
    blind = without(fits, points, lambda _: True)
    assert all(
        found[fits[name].fields.index("kernel_efficiency")] == pytest.approx(1.0) for name, found in blind.items()
    )


def test_a_number_that_is_struck_out_of_a_row_stays_so() -> None:
    row = next(o.row for o in sample() if o.row is not None and o.stack == "sglang")
    mapped, fields = map_serving_row(row), fields_of("sglang")
    stack = mapped.scenario.stack.model_copy(update={"verify_overhead": None})
    mapped = replace(mapped, scenario=mapped.scenario.model_copy(update={"stack": stack}))
    point = tuple(2 * value for value in as_shipped("sglang", fields))
    moved = at(mapped, fields, point).stack
    assert "verify_overhead" in fields and moved.verify_overhead is None
    assert moved.request_overhead.value == 2 * mapped.scenario.stack.request_overhead.value
    take([mapped])
    assert len(logs_of((row.id, fields, point))) == 2


def test_few_rows_of_each_model_device_and_source() -> None:
    rows = [map_serving_row(o.row) for o in sample() if o.row is not None]
    assert len(strewn(rows, 1)) <= len(strewn(rows, 2)) <= len(strewn(rows, None)) == len(rows)
