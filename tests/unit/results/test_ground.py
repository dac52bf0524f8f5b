from dataclasses import replace
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.results import files, read, save
from simulator.results.documents.form import plain
from simulator.results.ground import Ground, Validation, stated, weakest_of
from simulator.results.summary import to_json
from tests.factories import training_result

VALIDATED = Ground(
    "measured and validated", {"stack": "measured"}, "stack (x, measured)", Validation(157, 0.049, "H100")
)
ESTIMATE = Ground("estimate", {"kernels": "estimate"}, "kernels (cdna2, estimate)", Validation(elsewhere=2))


def test_the_sentence_says_what_the_figures_stand_on() -> None:
    assert VALIDATED.sentence == "measured and validated: 157 published runs on H100, mean error 4.9 %"
    words = (
        "estimate: estimated, not measured: kernels (cdna2); not validated but on 2 published runs in other conditions"
    )
    assert ESTIMATE.sentence == words
    inputs = {"accelerator": "datasheet", "kernels": "measured", "collectives": "datasheet", "stack": "measured"}
    measured = Ground("measured", inputs, "accelerator (x, datasheet)", Validation())
    assert measured.sentence == (
        "measured: kernels and stack measured, accelerator and collectives from a datasheet; not validated"
    )
    data = Ground("datasheet", inputs, "accelerator (x, datasheet)", Validation())
    assert data.sentence == "datasheet: from a datasheet, not measured: collectives; not validated"


def test_the_sentence_says_what_no_validated_run_had_and_what_differs_from_its_profile() -> None:
    held = Validation(5, 0.05, "this device and stack", beyond=("ZeRO-3", "offloaded activations"))
    assert Ground("measured", {"kernels": "measured"}, "kernels (x, measured)", held).sentence == (
        "measured: kernels measured; validated: 5 published runs on this device and stack, mean error 5.0 %; "
        "none of them with ZeRO-3 or offloaded activations"
    )
    other = replace(ESTIMATE, validation=Validation(changed=("accelerator", "network")))
    assert other.sentence.endswith("not validated: other figures than in the profile of the accelerator and network")
    assert Ground().sentence == ""


def test_an_estimate_stays_one_where_runs_were_validated() -> None:
    both = replace(ESTIMATE, validation=Validation(4, 0.2, "a TPU"))
    assert both.sentence.startswith("estimate: ")
    assert "validated: 4 published runs on a TPU, mean error 20.0 %" in both.sentence


def test_the_weakest_of_several() -> None:
    assert weakest_of([VALIDATED, ESTIMATE]) is ESTIMATE
    assert weakest_of([]) == Ground()


def test_the_field_of_the_json_form() -> None:
    field = to_json(training_result(ground=VALIDATED))["ground"]
    assert field == plain(stated(VALIDATED))
    assert (field["kind"], field["validated_rows"], field["validated_mean_error"]) == (
        "measured and validated",
        157,
        0.049,
    )
    assert stated(ESTIMATE).validated_mean_error is None


def test_it_is_saved_and_older_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(training_result(ground=VALIDATED), tmp_path / "a")
    assert read(tmp_path / "a").ground == VALIDATED
    header = files._header
    monkeypatch.setattr(files, "_header", lambda result: {k: v for k, v in header(result).items() if k != "ground"})
    save(training_result(ground=VALIDATED), tmp_path / "b")
    assert read(tmp_path / "b").ground == Ground()


@pytest.mark.parametrize("damage", ["certain", 5, ["measured"]])
def test_a_damaged_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: object) -> None:
    header = files._header
    broken = {"kind": damage, "inputs": {}, "weakest": "", "validation": {}}
    monkeypatch.setattr(files, "_header", lambda result: header(result) | {"ground": broken})
    save(training_result(), tmp_path / "a")
    with pytest.raises(InputError, match="is no result file"):
        read(tmp_path / "a")
