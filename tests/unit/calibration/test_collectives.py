"""The closed form that a fit varies is the price of the simulator, and a fit finds the figures that made its rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import left_out_network
from simulator.calibration.asked import Asked
from simulator.calibration.collectives.figures import BOUNDS, figures_of, kind_of
from simulator.calibration.collectives.fit import fitted, without
from simulator.calibration.collectives.model import Model, predicted
from simulator.calibration.collectives.own import rows_of_file
from simulator.calibration.collectives.prior import Prior, held, prior
from simulator.calibration.collectives.rows import HALVED, MB, told
from simulator.calibration.kinds import calibrate
from simulator.errors import InputError
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile

PROFILE = load_spec(CollectiveProfile, "nccl-v100")


def rows() -> pd.DataFrame:
    """All-reduces of one DGX-1 as the profile prices them."""
    grid = [(ranks, size * MB) for ranks in (2, 4, 8) for size in (1, 4, 16, 64, 256, 1024)]
    table = pd.DataFrame(grid, columns=["ranks", "size"])
    table = table.assign(source="made", op="all_reduce", nodes=1, algorithm="auto", cluster="dgx-1-v100", part="fitted")
    return table.assign(seconds=predicted(table, PROFILE))


def test_the_closed_form_is_the_price() -> None:
    table = rows()
    values, _ = figures_of(PROFILE)
    assert Model(table, PROFILE).seconds(values) == pytest.approx(table.seconds.to_numpy(), rel=1e-6)


def test_the_closed_form_follows_the_rules_of_a_library() -> None:
    """Trees to 48 MiB and rings above between nodes, whatever is quickest; one node stays free."""
    library = load_spec(CollectiveProfile, "rccl-mi355x")
    grid = [(nodes, size) for nodes in (1, 2, 3) for size in (1024.0, 4.0 * MB, 64.0 * MB, 1024.0 * MB)]
    table = pd.DataFrame(grid, columns=["nodes", "size"]).assign(ranks=lambda rows: 8 * rows.nodes, source="made")
    table = table.assign(op="all_reduce", algorithm="auto", cluster="mi355x-cluster", part="fitted")
    model = Model(table, library)
    assert model.taken == ["", "", "", ""] + 2 * ["tree", "tree", "ring", "ring"]
    assert model.seconds(figures_of(library)[0]) == pytest.approx(predicted(table, library), rel=1e-6)


def test_a_fit_of_what_the_profile_made_stays_where_it_is() -> None:
    values, measured = figures_of(PROFILE)
    found = fitted(Model(rows(), PROFILE))
    assert set(found) == measured
    large = {path: value for path, value in found.items() if path.endswith("efficiency")}
    assert large == pytest.approx({path: values[path] for path in large}, rel=0.02)


@pytest.mark.parametrize("factor", [0.9, 1.25])
def test_a_fit_comes_nearer_to_another_machine(factor: float) -> None:
    table = rows().assign(seconds=lambda made: factor * made.seconds)
    model, (values, _) = Model(table, PROFILE), figures_of(PROFILE)
    found = values | fitted(model)
    before, after = (abs(np.log(model.seconds(each) / table.seconds)).mean() for each in (values, found))
    assert after < 0.9 * before


def test_a_file_of_rows_or_a_log_becomes_a_profile_with_what_is_left(tmp_path: Path) -> None:
    """Times of a machine whose launches take 10 us longer: the fitted profile is nearer, and loads as it is written."""
    table = rows()
    slower = table.seconds + 1e-5
    published = [
        {
            "id": f"r{i}",
            "op": "all_reduce",
            "source": "made",
            "accelerator_id": "v100-sxm",
            "num_ranks": int(row.ranks),
            "num_nodes": 1,
            "size_bytes": float(row.size),
            "metrics": {"time_s": float(seconds)},
        }
        for i, (row, seconds) in enumerate(zip(table.itertuples(), slower, strict=True))
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, published)))
    said: list[str] = []
    calibrate("collectives", Asked((file,), out=tmp_path, left_out=tmp_path / "left.json", say=said.append))
    assert "source left out" in "\n".join(said)
    fitted = load_spec(CollectiveProfile, str(tmp_path / "nccl-v100.yaml"))
    before, after = (abs(predicted(table, profile) / slower - 1).mean() for profile in (PROFILE, fitted))
    assert after < before
    launch = fitted.protocols["Simple"].scale_up.launch
    assert launch.status == "measured"
    assert "held-out" in launch.source
    errors = json.loads((tmp_path / "left.json").read_text())
    assert len(errors) == len(table)


def test_a_log_needs_its_cluster_and_its_operation(tmp_path: Path) -> None:
    head = "#  Rank  0 Group  0 Pid  1 on node0 device  0\n#  Rank  1 Group  0 Pid  2 on node0 device  1\n"
    row = "4194304 1048576 float sum -1 99.0 42.0 42.0 0 98.0 42.0 42.0 0\n"
    for name, cluster, words in (
        ("log.txt", "dgx-1-v100", "no operation is named"),
        ("all_reduce.log", None, "does not say where it ran"),
    ):
        file = tmp_path / name
        file.write_text(head + row)
        with pytest.raises(InputError, match=words):
            rows_of_file(Asked((file,), cluster=cluster))
    (table,) = rows_of_file(Asked((file,), cluster="dgx-1-v100")).values()
    assert (table.op[0], table.ranks[0], table.seconds[0]) == ("all_reduce", 2, pytest.approx(98e-6))


@pytest.mark.parametrize("name", ["nccl-a100", "nccl-h100", "nccl-b200", "nccl-h100-efa", "rccl", "rccl-mi355x"])
def test_a_prior_knows_every_measured_figure_and_none_of_the_profile_itself(name: str) -> None:
    profile = load_spec(CollectiveProfile, name)
    (values, measured), before = figures_of(profile), prior(name, profile)
    assert set(before.middle) == set(before.spread) == measured
    for path, value in before.values().items():
        low, high = BOUNDS[kind_of(path)]
        assert low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9)
        if not name.endswith("-efa") or "scale_out" in path:  # inside a node a network of its own changes nothing
            assert value != pytest.approx(values[path], rel=1e-12)


def test_what_no_row_shows_stays_at_what_other_devices_have() -> None:
    """Rows of one size under one protocol: the other figures keep their priors, launches up to what they share."""
    table, before = rows().query("size == size.max()").reset_index(drop=True), held(PROFILE)
    shifted = before.values()["LL.scale_up.latency"] if "LL.scale_up.latency" in before.middle else None
    found = fitted(Model(table.assign(seconds=1.3 * table.seconds), PROFILE), before=before)
    assert shifted is None or found["LL.scale_up.latency"] == pytest.approx(shifted, rel=1e-3)
    assert found["Simple.scale_up.efficiency"] < 0.9 * before.values()["Simple.scale_up.efficiency"]


def test_a_prior_takes_what_other_networks_measured_before_what_a_library_expects() -> None:
    """Trees under LL128 between nodes of H100: other cards reach a fifth, NCCL's tables expect nine tenths."""
    before = prior("nccl-h100", load_spec(CollectiveProfile, "nccl-h100"))
    assert before.values()["LL128.trees.scale_out.efficiency"] < 0.3


def test_figures_far_from_what_is_known_count_by_their_square() -> None:
    """A row twenty times as slow as before moves an efficiency that is known to 15 % by less than three of these."""
    table, known = rows().query("size == size.max() and ranks == 8").reset_index(drop=True), held(PROFILE)
    before = Prior(known.middle, dict.fromkeys(known.spread, 0.15))
    found = fitted(Model(table.assign(seconds=20 * table.seconds), PROFILE), before=before)
    moved = np.log([found[path] / known.values()[path] for path in found])
    assert abs(moved).max() < 3 * 0.15


def test_rows_of_which_the_protocol_is_not_known_tell_no_figure() -> None:
    table = pd.DataFrame({"source": ["vTrain A100", "vTrain A100", "vTrain V100", HALVED], "size": [1, 8, 1, 8]})
    rows = table.assign(size=table["size"] * MB, op="all_reduce", ranks=8, nodes=1)
    assert told(rows).tolist() == [False, True, True, False]


def test_a_broadcast_is_fitted_with_the_figures_of_rings() -> None:
    """As the simulator prices it, where trees have figures of their own."""
    table = pd.DataFrame({"source": "one", "op": "broadcast", "ranks": 16, "nodes": 2, "size": [64 * MB, 512 * MB]})
    table = table.assign(cluster="dgx-h100", algorithm="ring/LL128", seconds=1.0, part="fitted")
    profile = load_spec(CollectiveProfile, "nccl-h100")
    assert Model(table, profile).seconds(figures_of(profile)[0]) == pytest.approx(predicted(table, profile))


def test_sends_of_crowded_groups_tell_no_figure_and_each_goes_to_one_rank() -> None:
    """128 ranks that pass a message on were priced as one that sends to all others, 50 times as slow as it was."""
    table = pd.DataFrame({"source": "one", "size": MB, "op": "send", "ranks": [16, 128], "nodes": [2, 16]})
    assert told(table).tolist() == [True, False]
    sends = table.assign(cluster="efa-p5", algorithm="auto", seconds=1.0, part="fitted")
    profile = load_spec(CollectiveProfile, "nccl-h100-efa")
    two, many = Model(sends, profile).seconds(figures_of(profile)[0])
    assert two == many < 1e-4


def test_a_group_left_out_is_judged_by_the_others() -> None:
    """Two sources, one 1.5 times as slow: each is off by about that where the fit saw the other one only."""
    table = rows()
    slow = table.assign(source="slow", seconds=1.5 * table.seconds)
    model = Model(pd.concat([table, slow], ignore_index=True), PROFILE)
    blind, seen = without(model, model.rows.source, held(PROFILE))
    own = (model.rows.source == "slow").to_numpy()
    assert np.median(blind[own]) == pytest.approx(1 / 1.5 - 1, abs=0.06)
    assert np.median(abs(blind[own])) > np.median(abs(seen[own]))


def test_a_source_is_told_by_the_figures_that_nobody_else_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends stand in one source only, at half of the rate that a profile has: it tells their rate, the other none."""
    library = load_spec(CollectiveProfile, "nccl-h100")
    table = rows().assign(cluster="dgx-h100")
    sends = table[table.ranks == 2].assign(source="sends", op="send")
    table["seconds"], sends["seconds"] = predicted(table, library), 2 * predicted(sends, library)
    both = pd.concat([table, sends], ignore_index=True)
    monkeypatch.setattr(left_out_network, "rows_of_family", lambda *_: both)
    monkeypatch.setattr(left_out_network, "prior", lambda *_: held(library))
    alone, _, other = "\n".join(left_out_network.why(Path(), "nccl-h100")).partition("sends (`nccl-h100`)")
    assert "send." not in alone and "send.scale_up.efficiency" in other


def test_rows_choose_by_their_own_library_and_are_told_what_their_source_was() -> None:
    """Rows of GB300 beside those of B200: rules are nccl-b300's; a row told to do without NVLS has none."""
    table = pd.DataFrame(
        {
            "source": "made",
            "op": ["all_to_all", "all_to_all", "all_reduce", "all_reduce"],
            "ranks": 8,
            "nodes": 1,
            "size": 4.0 * MB,
            "seconds": 1e-3,
            "algorithm": "auto",
            "part": "fitted",
            "cluster": ["dgx-b200", "gb300-nvl72", "dgx-b200", "dgx-b200"],
            "profile": ["nccl-b200", "nccl-b300", "nccl-b200", "nccl-b200"],
            "environment": ["", "", "", '{"NCCL_NVLS_ENABLE": 0}'],
        }
    )
    taken = Model(table, load_spec(CollectiveProfile, "nccl-b200")).taken
    assert taken[:2] == ["", "direct/copy LL"]
    assert taken[2].startswith("nvls/")
    assert not taken[3].startswith("nvls")


@pytest.mark.parametrize(("cluster", "operation"), [("dgx-a100", "shift"), ("dgx-h100", "send")])
def test_a_log_of_sendrecv_is_a_shift_where_a_library_tells_it_from_a_send(
    cluster: str, operation: str, tmp_path: Path
) -> None:
    log = tmp_path / "sendrecv_perf.log"
    ranks = "".join(f"#  Rank  {i} Group  0 Pid  {i + 1} on node0 device  {i}\n" for i in range(8))
    log.write_text(ranks + "134217728 33554432 float sum -1 690.0 194.5 194.5 0 691.0 194.2 194.2 0\n")
    (table,) = rows_of_file(Asked((log,), cluster=cluster)).values()
    assert list(table.op) == [operation]
    assert Model(table, load_spec(CollectiveProfile, table.profile[0])).taken in ([""], ["shift"])


@pytest.mark.parametrize(
    ("ranks", "nodes", "said"),
    [(1, 1, "1 rank sends nothing"), (16, 1, "has 8 devices"), (12, 5, "not as many on each")],
)
def test_a_log_of_ranks_that_the_cluster_has_no_place_for_is_refused(
    ranks: int, nodes: int, said: str, tmp_path: Path
) -> None:
    """They were fitted as if 16 ranks were joined by a node of 8 devices."""
    log = tmp_path / "all_reduce_perf.log"
    listed = "".join(f"#  Rank  {i} Group  0 Pid  {i + 1} on node{i % nodes} device  {i}\n" for i in range(ranks))
    log.write_text(listed + "134217728 33554432 float sum -1 690.0 194.5 194.5 0 691.0 194.2 194.2 0\n")
    with pytest.raises(InputError, match=said):
        rows_of_file(Asked((log,), cluster="dgx-h100"))


def test_rows_of_ranks_that_their_nodes_have_no_place_for_are_not_fitted(tmp_path: Path) -> None:
    """They ended the command with an internal error."""
    row = {"id": "r", "op": "all_reduce", "source": "made", "accelerator_id": "v100-sxm", "size_bytes": 1e7}
    row |= {"metrics": {"time_s": 1e-3}}
    file = tmp_path / "rows.jsonl"
    places = ((8, 1), (24, 1), (7, 2), (16, 2))
    file.write_text("\n".join(json.dumps(row | {"num_ranks": ranks, "num_nodes": nodes}) for ranks, nodes in places))
    (found,) = rows_of_file(Asked((file,))).values()
    assert list(zip(found.ranks, found.nodes, strict=True)) == [(8, 1), (16, 2)]
