"""Logs of nccl-tests: what they identify is measured, the rest stays, and a fit of another machine is not written."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from simulator.calibration.asked import Asked
from simulator.calibration.collectives.figures import figures_of
from simulator.calibration.collectives.model import Model, predicted
from simulator.calibration.collectives.own import other_devices
from simulator.calibration.collectives.touched import at_bound, identified, sensitivities
from simulator.calibration.kinds import calibrate
from simulator.errors import InputError
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile

H100 = load_spec(CollectiveProfile, "nccl-h100")
V100 = load_spec(CollectiveProfile, "nccl-v100")
GPU = "NVIDIA H100 80GB HBM3"


def rows(sizes: list[int], ranks: int = 8, nodes: int = 1) -> pd.DataFrame:
    """All-reduces as `nccl-h100` prices them."""
    table = pd.DataFrame({"size": sizes}, dtype=float)
    table = table.assign(source="made", op="all_reduce", ranks=ranks, nodes=nodes, algorithm="auto", part="fitted")
    table = table.assign(cluster="dgx-h100")
    return table.assign(seconds=predicted(table, H100))


def log(folder: Path, table: pd.DataFrame, factor: float = 1.0, gpu: str = GPU) -> Path:
    """What nccl-tests would print of them."""
    ranks, each = int(table.ranks[0]), int(table.ranks[0] // table.nodes[0])
    head = [
        f"#  Rank {i:2} Group  0 Pid  {i + 1} on node{i // each} device  {i % each} [0x1b] {gpu}" for i in range(ranks)
    ]
    seconds = factor * table.seconds
    lines = [
        f"{size:.0f} {size // 4:.0f} float sum -1 {1e6 * time:.3f} 1.0 1.0 0 {1e6 * time:.3f} 1.0 1.0 0"
        for size, time in zip(table["size"], seconds, strict=True)
    ]
    path = folder / "all_reduce_perf.log"
    path.write_text("\n".join([*head, *lines]) + "\n")
    return path


class Answer(NamedTuple):
    """What a calibration said and wrote."""

    said: str
    out: Path

    def profile(self, name: str = "nccl-h100") -> CollectiveProfile:
        return load_spec(CollectiveProfile, str(self.out / f"{name}.yaml"))


def calibrated(path: Path, cluster: str = "dgx-h100") -> Answer:
    said, out = list[str](), path.parent / "fitted"
    calibrate("collectives", Asked((path,), out=out, cluster=cluster, say=said.append))
    return Answer("\n".join(said), out)


FIVE = [1 << power for power in (20, 22, 24, 26, 28)]
ALL = [1 << power for power in range(3, 34)]


def test_five_sizes_of_one_node_measure_what_they_touch_alone(tmp_path: Path) -> None:
    """They called over 30 figures measured, trees between nodes among them."""
    answer = calibrated(log(tmp_path, rows(FIVE), 1.1))
    text = (answer.out / "nccl-h100.yaml").read_text()
    assert "scale_out" not in text and "trees" not in text and 1 <= text.count("status: measured") <= 4
    nvls, shipped = answer.profile().protocols["NVLS"].scale_up, H100.protocols["NVLS"].scale_up
    assert nvls.efficiency.value == pytest.approx(shipped.efficiency.value / 1.1, rel=0.05)
    assert nvls.efficiency.status == "measured"
    assert "on 3 of 4 rows of all_reduce_perf.log" in (nvls.efficiency.source or "")
    assert "NVLS.scale_up.efficiency: " in answer.said
    (line,) = [line for line in answer.said.splitlines() if "not identified by its rows" in line]
    assert {"LL.trees.scale_out.launch", "Simple.scale_up.launch"} <= set(line.partition("rows: ")[2].split(", "))


def test_what_is_not_identified_keeps_value_status_and_source(tmp_path: Path) -> None:
    answer = calibrated(log(tmp_path, rows(ALL, 16, 2), 1.2))
    before, after = dict(H100.protocols), dict(answer.profile().protocols)
    assert after["Simple"] == before["Simple"] and after["NVLS"] == before["NVLS"]
    assert after["LL"].scale_up == before["LL"].scale_up and after["LL"].trees != before["LL"].trees
    table = rows(ALL, 16, 2)
    off = np.log(predicted(table, answer.profile()) / (1.2 * table.seconds))
    assert np.median(abs(off)) < 0.05 < np.log(1.2)


def test_figures_that_trade_against_each_other_are_told_given_the_others() -> None:
    """One size of a group tells a launch or its hops; two groups tell both."""
    short = [1024, 2048, 4096, 8192]
    one, two = rows(short), pd.concat([rows(short, ranks) for ranks in (2, 8)], ignore_index=True)
    values, _ = figures_of(H100)
    paths = ("LL.scale_up.launch", "LL.scale_up.latency")
    found = [
        identified(Model(table, H100), values, paths, dict.fromkeys(paths, 0.4), np.zeros(len(table)))
        for table in (one, two)
    ]
    assert list(found[0]) == ["LL.scale_up.latency"]
    assert set(found[1]) == set(paths) and found[1]["LL.scale_up.launch"] == 8


def test_sensitivities_are_the_shares_of_what_a_time_is_made_of() -> None:
    """Launch, hops and links of a ring are each in proportion to their figure, and nothing else is in its time."""
    table = rows([1 << 12, 1 << 20, 1 << 30]).assign(cluster="dgx-1-v100", algorithm="ring/Simple")
    values, measured = figures_of(V100)
    model, paths = Model(table, V100), sorted(measured)
    by = dict(zip(paths, sensitivities(model, values, paths).T, strict=True))
    assert paths == [f"Simple.scale_up.{name}" for name in ("efficiency", "latency", "launch")]
    links, hops, launch = by.values()
    assert launch + hops - links == pytest.approx(1, abs=1e-4)
    times = predicted(table, V100)
    assert launch == pytest.approx(values["Simple.scale_up.launch"] / times, rel=1e-3)
    assert links[-1] == pytest.approx(-1, abs=0.01)


def test_a_protocol_that_a_row_forces_is_what_the_fit_prices() -> None:
    for algorithm in ("ring/Simple", "ring/LL", "auto"):
        table = rows([1 << 12, 1 << 30]).assign(cluster="dgx-1-v100", algorithm=algorithm)
        assert Model(table, V100).seconds(figures_of(V100)[0]) == pytest.approx(predicted(table, V100), rel=1e-5)


def test_no_figure_stands_on_a_single_row() -> None:
    table, path = rows([1 << 33]), "NVLS.scale_up.efficiency"
    model, values = Model(table, H100), figures_of(H100)[0]
    assert abs(sensitivities(model, values, [path])[0, 0]) > 0.9
    assert identified(model, values, [path], {path: 9.0}, np.zeros(1)) == {}


def test_a_log_of_one_size_identifies_nothing_and_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nccl-h100: not written, for its rows identify no figure"):
        calibrated(log(tmp_path, rows([1 << 20])))
    assert not (tmp_path / "fitted").exists()


def test_no_folder_is_left_behind_of_several(tmp_path: Path) -> None:
    asked = Asked((log(tmp_path, rows([1 << 20])),), out=tmp_path / "some" / "folder", cluster="dgx-h100", say=print)
    with pytest.raises(InputError):
        calibrate("collectives", asked)
    assert not (tmp_path / "some").exists()


def test_an_operation_that_is_no_word_is_a_damaged_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"op": ["x"], "id": "a"}\n')
    with pytest.raises(InputError, match=f"has no collectives that are simulated; .*{path.name}:1"):
        calibrate("collectives", Asked((path,)))


def test_of_several_profiles_those_that_hold_are_written(tmp_path: Path) -> None:
    """One row of V100 identifies nothing and is said; rows of A100 four times as slow are refused, after all others."""
    form = '{"id": "%s", "op": "all_reduce", "source": "made", "accelerator_id": "%s", "num_ranks": 8, "num_nodes": 1, '
    form += '"size_bytes": %d, "metrics": {"time_s": %g}}'
    table = rows(FIVE)
    times = list(zip(table["size"], table.seconds, strict=True))
    lines = [form % ("h", "h100-sxm", size, 1.1 * time) for size, time in times]
    path, said = tmp_path / "rows.jsonl", list[str]()
    asked = Asked((path,), out=tmp_path / "fitted", say=said.append)
    path.write_text("\n".join([*lines, form % ("v", "v100-sxm", 1 << 30, 0.0145)]))
    calibrate("collectives", asked)
    assert [file.name for file in (tmp_path / "fitted").iterdir()] == ["nccl-h100.yaml"]
    assert "nccl-v100: not written, for its rows identify no figure" in said
    (tmp_path / "fitted" / "nccl-h100.yaml").unlink()
    slow = [form % ("a", "a100-sxm-80gb", size, 9 * time) for size, time in times]
    path.write_text("\n".join([*slow, *lines]))
    with pytest.raises(InputError, match="nccl-a100: not written, for rows held back from 1 MiB are off by"):
        calibrate("collectives", asked)
    assert [file.name for file in (tmp_path / "fitted").iterdir()] == ["nccl-h100.yaml"]


@pytest.mark.parametrize("sizes", [FIVE, ALL])
def test_a_log_of_another_cluster_is_not_written(sizes: list[int], tmp_path: Path) -> None:
    """Its long messages are half as fast again as links of A100 can: of all sizes together the median hid it."""
    path = log(tmp_path, rows(sizes))
    (tmp_path / "fitted").mkdir()
    kept = tmp_path / "fitted" / "nccl-a100.yaml"
    kept.write_text("mine")
    with pytest.raises(InputError) as caught:
        calibrated(path, "dgx-a100")
    (problem,) = caught.value.problems
    assert "nccl-a100: not written, for rows held back from 1 MiB are off by" in problem.message
    assert "all_reduce of 8 ranks on 1 node of all_reduce_perf.log: " in problem.message
    assert "another cluster than `dgx-a100`" in problem.hint
    assert kept.read_text() == "mine" and list(kept.parent.iterdir()) == [kept]


def test_what_ends_at_a_bound_is_named_and_no_measurement(tmp_path: Path) -> None:
    """Links a sixth faster than they can be: the fit holds, with an efficiency of 1."""
    large = [1 << power for power in range(26, 34)]
    shipped = H100.protocols["NVLS"].scale_up.efficiency.value
    answer = calibrated(log(tmp_path, rows(large), 0.9 * shipped))
    assert "nccl-h100: at a bound of its range: NVLS.scale_up.efficiency" in answer.said
    found = answer.profile().protocols["NVLS"].scale_up.efficiency
    assert found.status == "estimate" and (found.source or "").endswith("; at a bound of its range")
    assert at_bound("NVLS.scale_up.efficiency", found.value)
    assert not at_bound("Simple.scale_out.efficiency", 0.978)


def test_damaged_lines_are_named_and_the_others_are_fitted(tmp_path: Path) -> None:
    path = log(tmp_path, rows(FIVE), 1.1)
    lines = path.read_bytes().splitlines()
    lines[9:9] = [b"2097152 52\x1b[31m", b"\xff\xfe 12"]
    path.write_bytes(b"\n".join(lines) + b"\n")
    answer = calibrated(path)
    assert f"refused: {path}:10: 2 columns where the head names 13" in answer.said
    assert f"refused: {path}:11: the line is too long or not text in UTF-8" in answer.said
    assert "\x1b" not in answer.said
    assert "on 3 of 4 rows" in (answer.profile().protocols["NVLS"].scale_up.efficiency.source or "")


def test_a_log_of_damaged_lines_alone_is_refused_with_the_first(tmp_path: Path) -> None:
    path = log(tmp_path, rows(FIVE))
    path.write_text("\n".join(line if line[0] == "#" else line[:20] for line in path.read_text().splitlines()))
    with pytest.raises(InputError, match=r"_perf.log:9: \d columns where"):
        calibrated(path)


def test_damaged_rows_of_a_file_are_named_and_the_others_are_fitted(tmp_path: Path) -> None:
    row = '{"id": "r", "op": "all_reduce", "source": "made", "accelerator_id": "h100-sxm", "num_ranks": 8, '
    row += '"num_nodes": 1, "size_bytes": %d, "metrics": {"time_s": %g}}'
    table = rows(FIVE)
    lines = [row % (size, 1.1 * time) for size, time in zip(table["size"], table.seconds, strict=True)]
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "\n".join(
            [*lines[:2], lines[2][:40], '{"op": "all_reduce"}', lines[2].replace("all_reduce", "p2p_copy"), *lines[2:]]
        )
    )
    said = list[str]()
    calibrate("collectives", Asked((path,), out=tmp_path / "fitted", say=said.append))
    refused = [line for line in "\n".join(said).splitlines() if line.startswith("refused: ")]
    assert [line.split(":")[2] for line in refused] == ["3", "4"]
    assert (tmp_path / "fitted" / "nccl-h100.yaml").exists()


def test_another_gpu_than_the_clusters_is_a_warning(tmp_path: Path) -> None:
    assert "warning" not in calibrated(log(tmp_path, rows(FIVE))).said
    answer = calibrated(log(tmp_path, rows(FIVE), gpu="NVIDIA H200"))
    assert "the log names NVIDIA H200, and `dgx-h100` has NVIDIA H100" in answer.said


@pytest.mark.parametrize(
    ("words", "cluster", "other"),
    [
        ("NVIDIA A100-SXM4-80GB", "dgx-a100", False),
        ("NVIDIA A100-SXM4-80GB", "dgx-h100", True),
        ("AMD Instinct MI300X", "mi300x-cluster", False),
        ("Tesla V100-SXM2-16GB", "dgx-1-v100-16gb", False),
        ("NVIDIA A100", "dgx-a100-40gb", False),
        ("something new", "dgx-h100", False),
    ],
)
def test_a_gpu_is_another_where_its_name_says_so(words: str, cluster: str, other: bool) -> None:
    """Where it leaves form or memory open, or is not known, it may be the cluster's."""
    assert bool(other_devices([words], cluster)) == other
