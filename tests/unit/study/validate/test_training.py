"""Published rows: reading without trust, mapping to scenarios, errors of time, a stratified sample of all of them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import validation
from simulator.cli import main
from simulator.interop.rows.jsonl import LONGEST, Refused, parse_line, read_lines, read_row, sample
from simulator.interop.rows.training import Row
from simulator.results.documents.form import plain
from simulator.run.measured.training import map_row, measured_step
from simulator.specs import data_root
from simulator.study.validate.accuracy import TRAINING, growth, places_of_best, ranking, statistics, summary
from simulator.study.validate.published import KINDS
from simulator.study.validate.training import Outcome, validate_line, validate_row

ROW: dict[str, Any] = {
    "id": "r1",
    "source": "test",
    "task": "pretrain",
    "device": "A100-80GB",
    "intra_node": "NVLink3 600 GB/s",
    "devices": 16,
    "devices_per_node": 8,
    "inter_node_gbps_per_device": 200,
    "model": "gpt",
    "hidden": 1024,
    "layers": 8,
    "heads": 16,
    "kv_heads": 16,
    "ffn": 4096,
    "gated_ffn": False,
    "vocab": 51200,
    "seq_len": 1024,
    "precision": "fp16",
    "global_batch": 64,
    "micro_batch": 2,
    "tp": 2,
    "pp": 2,
    "schedule": "1f1b",
    "recompute": "full",
    "framework": "Megatron-LM",
    "primary_metric": "step_s",
    "step_s": 1.0,
}
SHIPPED = data_root() / "workloads" / "measurements" / "training.jsonl"


def row(**changes: Any) -> dict[str, Any]:
    """A row with some keys changed; None takes one away."""
    return {key: value for key, value in (ROW | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden": "wide"}, "key `hidden`"),
        ({"devices": -8}, "key `devices`"),
        ({"step_s": float("nan")}, "key `step_s`"),
        ({"global_batch": None}, "without key `global_batch`"),
        ({"global_batch": None, "seq_len": None}, "without key `seq_len`"),
        ({"hidden": "wide", "layers": 0}, "`layers`: `0` is out of range; write 1 or more"),
        ({"device": "Z80"}, "device `Z80`"),
        ({"experts": 8}, "mixture of experts"),
        ({"cp": 3, "devices": 24}, "sequence_length 1,024 does not divide into 2 x cp 3"),
        ({"schedule": "zero-bubble (zbb)"}, "schedule"),
        ({"precision": "mxfp4"}, "precision `mxfp4`"),
        ({"tp": 3}, "tp 3"),
        ({"global_batch": 63}, "no multiple"),
        ({"devices": 12}, "no multiple of 8"),
        ({"framework": "Abacus"}, "framework `Abacus`"),
        ({"step_s": None}, "no step_s in the row"),
    ],
)
def test_a_row_that_cannot_be_simulated_says_why(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        map_row(read_row(Row, row(**changes)))


def test_what_a_row_leaves_open_is_listed() -> None:
    mapped = map_row(read_row(Row, row(vocab=None, micro_batch=None, recompute=None)))
    assert any("vocabulary" in text for text in mapped.assumed)
    assert any("micro_batch" in text for text in mapped.assumed)
    assert any("recompute" in text for text in mapped.assumed)
    assert map_row(read_row(Row, row())).assumed == ()


GB200: dict[str, Any] = {
    "device": "GB200",
    "devices": 64,
    "devices_per_node": 4,
    "intra_node": "NVLink5 1800 GB/s, NVL72 domain",
    "hidden": 8192,
    "layers": 80,
    "heads": 64,
    "kv_heads": 8,
    "ffn": 28672,
    "gated_ffn": True,
    "vocab": 128256,
    "seq_len": 8192,
    "precision": "fp8",
    "global_batch": 256,
    "tp": 1,
    "pp": 1,
    "shard": "megatron-fsdp group=64",
    "recompute": None,
    "framework": "Megatron-Bridge (Megatron-Core)",
}


def test_trays_of_a_rack_are_one_node() -> None:
    assert map_row(read_row(Row, row(**GB200))).scenario.cluster.node.devices == 64


def test_a_run_that_does_not_fit_offloads_where_the_link_is_fast() -> None:
    """NVIDIA's recipe for this run offloads 40 of its 80 layers."""
    mapped = map_row(read_row(Row, row(**GB200)))
    assert 30 <= (mapped.scenario.training.offload_layers or 0) <= 50
    assert any("offload_layers" in text for text in mapped.assumed)
    assert validate_row(mapped.row).feasible


def test_a_run_that_does_not_fit_recomputes_where_the_link_is_slow() -> None:
    slow = GB200 | {"device": "B200", "devices_per_node": 8, "intra_node": None}
    training = map_row(read_row(Row, row(**slow))).scenario.training
    assert training.recompute == "full"
    assert training.offload_layers is None
    assert 0 < (training.recompute_layers or 0) < 80


def test_a_run_that_says_what_it_recomputes_stays_as_it_is() -> None:
    training = map_row(read_row(Row, row(**GB200 | {"recompute": "none"}))).scenario.training
    assert (training.recompute, training.offload_layers) == ("none", None)


@pytest.mark.parametrize(("devices", "blocks"), [(384, True), (64, False)])
def test_large_runs_on_jean_zay_block_on_launches(devices: int, blocks: bool) -> None:
    words = "NVLink3 (4 inter-GPU connects)"
    mapped = map_row(read_row(Row, row(devices=devices, intra_node=words, global_batch=devices * 4)))
    assert mapped.scenario.training.blocking_launches is blocks
    assert any("launches block" in text for text in mapped.assumed) is blocks


def test_layers_that_do_not_divide_leave_first_and_last_short() -> None:
    mapped = map_row(read_row(Row, row(layers=10, pp=4, tp=2)))
    assert mapped.job.chunks == (2, 3, 3, 2)


@pytest.mark.parametrize(("metric", "value"), [("tokens_per_s_per_device", 4096.0), ("samples_per_s", 64.0)])
def test_every_metric_is_a_step_time(metric: str, value: float) -> None:
    mapped = map_row(read_row(Row, row(primary_metric=metric, step_s=None, **{metric: value})))
    assert measured_step(mapped.row, mapped.job) == pytest.approx(1.0)


def test_rates_of_flops_are_turned_back_with_the_authors_formula() -> None:
    """Megatron's 96 B s l h^2 (1 + s/6h + V/16lh) where recomputation is counted, 72 ... V/12lh where not."""
    for words, factor, head in (("megatron-hardware (4x fwd)", 96, 16), ("model flops", 72, 12)):
        changed = row(primary_metric="flops_per_s_per_device", flops_per_s_per_device=1e14, flops_convention=words)
        mapped = map_row(read_row(Row, changed))
        flops = factor * 64 * 1024 * 8 * 1024**2 * (1 + 1024 / 6144 + 51200 / (head * 8 * 1024))
        assert measured_step(mapped.row, mapped.job) == pytest.approx(flops / 1e14 / 16)


def test_the_sign_of_an_error_is_of_time() -> None:
    slow = validate_row(read_row(Row, row(step_s=1e-3)))
    assert slow.error is not None and slow.error > 0
    rate = validate_row(
        read_row(Row, row(step_s=None, primary_metric="tokens_per_s_per_device") | {"tokens_per_s_per_device": 4e6})
    )
    assert rate.error is not None and rate.error > 0
    assert rate.predicted is not None and rate.measured is not None and rate.predicted < rate.measured


def test_statistics() -> None:
    assert statistics([0.1, -0.3]).mean == pytest.approx(0.2)
    assert statistics([0.1, -0.3]).signed == pytest.approx(-0.1)
    assert plain(statistics([])) == {"rows": 0}


def test_ranking_is_spearmans_coefficient_weighted_by_size() -> None:
    read = read_row(Row, row())
    right = [Outcome(str(m), read, m, p) for m, p in ((1.0, 2.0), (2.0, 3.0), (3.0, 9.0))]
    assert ranking(right) == pytest.approx(1.0)
    assert ranking([right[0]]) is None
    other = read_row(Row, row(devices=32))
    wrong = [Outcome("a", other, 1.0, 2.0), Outcome("b", other, 2.0, 1.0)]
    assert ranking(right + wrong) == pytest.approx((1.0 * 2 - 1.0 * 1) / 3)


def test_the_place_of_the_best_layout_is_counted_in_sweeps_that_are_large_enough() -> None:
    read = read_row(Row, row())
    times = ((1.0, 1.3), (2.0, 1.2), (3.0, 1.1), (4.0, 9.0), (5.0, 8.0))
    sweep = [Outcome(str(m), read, m, p) for m, p in times]
    assert places_of_best(sweep) == [3]
    assert places_of_best(sweep[:4]) == []
    assert places_of_best([*sweep, Outcome("refused", read, refused="no")]) == [3]


def test_the_page_says_what_rows_beyond_dense_ones_in_16_bits_err_left_out() -> None:
    """Groups of experts, of cut sequences and of narrow formats have errors of fits that have not seen their source."""
    kinds = {"plain": {}, "experts": {"experts": 8}, "cut": {"cp": 2}, "narrow": {"precision": "fp8"}}
    rows = {name: read_row(Row, row(id=name, **more)) for name, more in kinds.items()}
    done = [Outcome(name, read, 1.0, 1.1) for name, read in rows.items()]
    assert [o.id for o in done if validation.beyond_dense(o)] == ["experts", "cut", "narrow"]
    assert not validation.beyond_dense(Outcome("experts", rows["experts"], refused="no"))
    assert not validation.beyond_dense(Outcome("line", refused="no"))
    lines = validation.tables(done, {"experts": 0.2, "cut": -0.3, "narrow": 0.4})
    cells = {line.split(" | ")[0].strip("| "): line.split(" | ")[-1].strip(" |") for line in lines if "%" in line}
    assert cells["experts, context parallelism, 8 or 4 bits"] == "30.0 %"
    assert cells["mixture of experts"] == "20.0 %"
    assert cells["tp cp pp"] == "30.0 %"


def test_growth_is_the_slope_of_the_error_inside_a_model() -> None:
    """Two models with levels of their own, both slower by 2 % than simulated with each doubling."""
    scan = [
        Outcome(f"{model}-{n}", read_row(Row, row(devices=n, model=model)), 1.02**k * level, 1.0)
        for model, level in (("A", 1.0), ("B", 1.3))
        for k, n in enumerate((8, 16, 32, 64))
    ]
    rows, slope, off = growth(scan)[scan[0].row.source if scan[0].row else ""]
    assert (rows, slope, off) == (8, pytest.approx(-np.log(1.02)), pytest.approx(0.0, abs=1e-9))
    assert growth(scan[:2]) == {}


# ---- files without trust -------------------------------------------------------------------------------------------


def test_hostile_lines_are_refused_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    bad = ['{"id": "cut', "[" * 5000, "[1, 2]", "null", '{"x": NaN}', '{"pad": "' + "x" * LONGEST + '"}', "\udcff"]
    text = "\n".join([json.dumps(row()), *bad, "", json.dumps(row(id="last"))])
    file.write_bytes(text.encode(errors="surrogateescape"))
    outcomes = KINDS["training"].validate(list(read_lines(file)))
    assert [o.error is not None for o in outcomes] == [True, *[False] * len(bad), True]
    assert all(o.refused for o in outcomes[1:-1])
    assert outcomes[1].id.endswith("rows.jsonl:2")


def test_a_file_of_100_megabytes_is_read_in_bounded_memory(tmp_path: Path) -> None:
    file = tmp_path / "huge.jsonl"
    with open(file, "wb") as out:
        out.truncate(100_000_000)
    lines = list(read_lines(file))
    assert len(lines) == 1
    with pytest.raises(Refused, match="longer than"):
        parse_line(lines[0])


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.jsonl"],
        ["--by", "colour"],
        ["--jobs", "0"],
        ["--json", "/nowhere/x.json"],
        ["--html", "/nowhere/x.html"],
        ["--html", "-"],
    ],
)
def test_bad_arguments_exit_2(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["validate", *arguments]) == 2


def test_nothing_simulated_exits_2(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": "x"}\n')
    assert main(["validate", str(file), "--quiet"]) == 2


def test_a_document_has_every_row(tmp_path: Path) -> None:
    file, out = tmp_path / "rows.jsonl", tmp_path / "errors.json"
    file.write_text(json.dumps(row()) + "\n" + json.dumps(row(id="moe", experts=8)) + "\n")
    assert main(["validate", str(file), "--json", str(out), "--quiet"]) == 0
    found = json.loads(out.read_text())
    assert [r["id"] for r in found["rows"]] == ["r1", "moe"]
    assert found["rows"][0]["error"] == pytest.approx(found["rows"][0]["predicted"] / 1.0 - 1)
    assert found["rows"][1]["refused"] == "a mixture of experts without key `topk`"
    assert found["summary"]["coverage"] == 0.5
    assert found["summary"]["in_scope"]["rows"] == 1
    assert [r["in_scope"] for r in found["rows"]] == [True, False]


def test_a_page_of_the_rows(tmp_path: Path) -> None:
    file, out = tmp_path / "rows.jsonl", tmp_path / "errors.html"
    file.write_text(json.dumps(row()) + "\n" + json.dumps(row(id="moe", experts=8)) + "\n")
    assert main(["validate", str(file), "--html", str(out), "--by", "precision", "--quiet"]) == 0
    text = out.read_text(encoding="utf-8")
    for words in ("By source", "By device", "By precision", "r1: measured", "mixture of experts"):
        assert words in text
    assert main(["validate", str(file), "--html", str(file), "--quiet"]) == 2


# ---- the shipped rows ----------------------------------------------------------------------------------------------


LONG = ("mcore-h100-strong-177B-144", "llama3-405b-8192-cp1")
"""Rows whose open number of chunks, and whose size, take as long as all others of a sample."""


@pytest.mark.parametrize(
    ("each", "without"), [(1, LONG), *(pytest.param(each, (), marks=pytest.mark.slow) for each in (1, 2))]
)
def test_a_stratified_sample_of_the_shipped_rows(each: int, without: tuple[str, ...]) -> None:
    """Dense 16-bit rows of A100 and H100: below the 14.9 % of a textbook line (see docs/validation.md for all rows)."""
    rows = [(json.loads(line.text or "{}"), line) for line in sample(list(read_lines(SHIPPED)), each)]
    dense = [line for row, line in rows if _is_dense(row) and row["id"] not in without]
    figures = summary(list(KINDS["training"].validate(dense)), TRAINING)
    assert figures.simulated >= 10 * each
    assert figures.error.mean < 0.12
    assert abs(figures.error.signed) < 0.06


def _is_dense(row: dict[str, Any]) -> bool:
    scope = row["device"][:4] in ("A100", "H100") and "fp8" not in row["precision"]
    return scope and row["tier"] == 1 and not (row.get("experts") or 0) > 1


def test_rows_are_called_by_id_or_by_file_and_line_without_folders(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "mine", "source": 3}\n{"source": 3}\nnothing\n{"id": 7}\n')
    named = [validate_line(line).id for line in read_lines(path)]
    assert named == ["mine", "rows.jsonl:2", "rows.jsonl:3", "rows.jsonl:4"]


def test_a_sample_says_that_it_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = data_root() / "workloads" / "measurements" / "training.jsonl"
    lines = [line for line in shipped.read_text().splitlines() if line][:4]
    path, page = tmp_path / "rows.jsonl", tmp_path / "page.html"
    path.write_text("\n".join(lines))
    assert main(["validate", str(path), "--sample", "1", "--html", str(page)]) == 0
    words = re.search(r"they are a sample of (\d) of 4 rows", capsys.readouterr().out)
    assert words is not None and words[0] in page.read_text()
    assert main(["validate", str(path)]) == 0
    assert "sample" not in capsys.readouterr().out
