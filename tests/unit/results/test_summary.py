import json
from dataclasses import replace

import numpy as np
import pytest

from simulator.results import dumps, to_json
from simulator.results.result import DeviceClass
from tests.factories import training_result


def test_keys_of_the_document() -> None:
    document = to_json(training_result())
    wanted = {"schema", "metrics", "breakdown", "assumptions", "warnings", "provenance", "memory", "published"}
    assert wanted <= document.keys()
    assert document["schema"] == 1
    assert list(document["breakdown"]) == ["stage 0", "stage 1", "stage 2", "stage 3"]
    assert document["published"][0]["metric"] == "hardware_flops_per_device"
    assert sum(document["memory"][0]["at_peak"].values()) == document["memory"][0]["peak_bytes"]


def test_bytes_depend_on_the_result_alone() -> None:
    result = training_result()
    shuffled = replace(result, metrics=dict(reversed(result.metrics.items())))
    assert dumps(to_json(result)) == dumps(to_json(shuffled)) == dumps(to_json(training_result()))


def test_unknown_metrics_come_last_by_name() -> None:
    document = to_json(training_result(metrics={"zeta": 1.0, "mfu": 0.5, "alpha": 2.0, "step_time_s": 3.0}))
    assert list(document["metrics"]) == ["step_time_s", "mfu", "alpha", "zeta"]


def test_text_is_json_whatever_the_numbers_are() -> None:
    metrics = {"step_time_s": float("nan"), "mfu": float("inf"), "hfu": float(np.float64(0.5))}
    provenance = {"events": np.int64(3), "share": np.float32(0.5), "list": (1, 2), "other": {1: object}}
    text = dumps(to_json(training_result(metrics=metrics, provenance=provenance)))
    document = json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(AssertionError(name)))
    assert document["metrics"] == {"step_time_s": None, "mfu": None, "hfu": 0.5}
    assert document["provenance"]["events"] == 3
    assert text.endswith("}\n")


def test_classes_of_one_name_are_told_apart() -> None:
    classes = (DeviceClass("stage 0", 2, 0), DeviceClass("stage 0", 2, 8), DeviceClass("last", 1, 9))
    document = to_json(replace(training_result(stages=3), classes=classes))
    assert list(document["breakdown"]) == ["stage 0 (rank 0)", "stage 0 (rank 8)", "last"]


def test_critical_path_names_the_classes_that_it_meets() -> None:
    document = to_json(training_result(stages=3))
    path = document["critical_path"]
    assert sum(path["seconds"].values()) == pytest.approx(document["metrics"]["step_time_s"])
    assert path["by_class"] == {"stage 0": path["seconds"]}
    assert path["operations"] == 2
    assert path["by_link"] == {"NIC up": path["seconds"]["exposed_dp"]}
    assert path["by_roof"] == {"compute": path["seconds"]["compute"]}
    assert sum(path["by_operation"].values()) == pytest.approx(sum(path["seconds"].values()))


def test_links_say_what_loads_them_and_whose_they_are() -> None:
    links = to_json(training_result())["links"]
    assert links[1]["by_operation"] == {"forward": 4e9, "backward": 5e9}
    assert [load["used_by"] for load in links] == [["stage 0"], ["stage 1"]]


def test_sensitivities() -> None:
    first = to_json(training_result())["sensitivities"][0]
    assert list(first) == ["name", "change", "step_time_s", "gain"]
    assert (first["name"], first["change"], first["gain"]) == ("nic_bandwidth", "+10 %", 0.001)
