"""Words of the field that are not modelled are no misspellings."""

from pathlib import Path

import pytest

from simulator.cli import main
from simulator.errors import InputError, nearest
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario, names
from simulator.specs.model.model import Model
from simulator.specs.training import Stack
from simulator.unmodelled import UNMODELLED, unmodelled

TRAINING, SERVING = "scenarios/quickstart.yaml", "scenarios/serving/quickstart.yaml"


@pytest.mark.parametrize(
    ("file", "override", "words"),
    [
        (SERVING, "+serving.speculative=3", "speculative decoding is `serving.speculation`"),
        (SERVING, "+serving.lora=a", "adapters (LoRA) are `serving.adapters`"),
        (SERVING, "+serving.data_parallel=2", "`serving.parallel.dp` its attention ranks"),
        (SERVING, "serving.parallel.cp=2", "over the devices of `tp` by `serving.parallel.dcp`"),
        (SERVING, "serving.router=sticky", "`session`"),
        (SERVING, "serving.batching.policy=continuous", "batches continuously"),
        (SERVING, "stack=stacks/lightllm", "no stack of its own"),
        (SERVING, "model=models/deepseek-v4", "attention to compressed tokens"),
        (SERVING, "cluster.extends=clusters/dgx-a100", "`cluster=clusters/dgx-a100`"),
        (TRAINING, "training.schedule=zerobubble", "`zb-h1`"),
        (TRAINING, "training.parallel.ep=2", "has no experts; leave `ep` out"),
        (TRAINING, "model=models/deepseek-v4", "`deepseek-v3.2`"),
        (SERVING, "serving.parallel.ep=2", "dense model, without experts to spread over devices; leave `ep` out"),
        (TRAINING, "training.precision=mxfp6", "block-scaled"),
        (TRAINING, "+training.optimizer=shampoo", "`adafactor`"),
    ],
)
def test_the_refusal_says_what_there_is_instead(file: str, override: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        simulate(load_scenario(file, [override]).scenario)
    assert words in str(caught.value)
    assert "did you mean" not in str(caught.value)


def test_options_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", TRAINING, "--speculative-model=x"]) == 2
    assert "speculative decoding is `serving.speculation`" in capsys.readouterr().err
    assert main(["run", TRAINING, "--jsn"]) == 2
    assert "see `clustersim run --help`" in capsys.readouterr().err


def test_what_is_known_stays_known_and_misspellings_stay_misspellings() -> None:
    load_scenario(TRAINING, ["training.parallel.dp=2", "training.parallel.cp=1"])
    assert nearest("dpp", ["dp", "tp"]) == "did you mean `dp`?"
    assert nearest("Interleaved", ["interlaced", "interleaved-1f1b"]) == "did you mean `interleaved-1f1b`?"
    assert nearest("Session", ["session"]) == "did you mean `session`?"
    assert unmodelled("batchng") == ""


def test_what_is_shipped_is_not_called_missing() -> None:
    """No stack is refused by its own name; a model only with words that name it."""
    assert [name for name in names(Stack) if unmodelled(name)] == []
    denied = {name: said for name in names(Model) if (said := unmodelled(name)) and "not modelled" in said}
    assert denied == {}


def test_a_scenario_that_is_not_there_has_the_nearest_name_and_no_words_on_models(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for given, meant in (
        ("scenarios/serving/whisper-large-v3.yaml", "serving/whisper"),
        ("whisper-large-v3", "serving/whisper"),
        ("quikstart", "quickstart"),
        ("scenarios/training/megatron-1tt.yaml", "training/megatron-1t"),
    ):
        assert main(["run", given]) == 2
        assert capsys.readouterr().err.strip().endswith(f"did you mean `{meant}`?")
    assert main(["run", "dualpipe"]) == 2
    assert "write the path of a file" in capsys.readouterr().err


def test_words_are_written_as_they_are_looked_up() -> None:
    for word in UNMODELLED:
        assert unmodelled(word.removesuffix("*")) == UNMODELLED[word]


@pytest.mark.parametrize(
    ("line", "place"),
    [("  schedule: zerobubble", ":{n}: training.schedule: "), ("  global_batch: 127", ":{n}: training.global_batch: ")],
)
def test_refusals_of_later_work_name_file_and_line(
    line: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = line.split(":")[0]
    lines = [each for each in Path(TRAINING).read_text().splitlines() if not each.startswith(key)]
    number = lines.index("training:") + 1
    lines.insert(number, line)
    file = tmp_path / "mine.yaml"
    file.write_text("\n".join(lines) + "\n")
    assert main(["run", str(file)]) == 2
    assert f"{file}{place.format(n=number + 1)}" in capsys.readouterr().err


def test_refusals_of_later_work_name_the_override(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", TRAINING, "training.global_batch=127"]) == 2
    assert "override `training.global_batch=127`: training.global_batch" in capsys.readouterr().err


def test_refusals_of_what_is_left_out_name_the_part_that_lacks_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", TRAINING, "model=models/deepseek-v3"]) == 2
    lines = Path(TRAINING).read_text().splitlines()
    assert f"{TRAINING}:{lines.index('training:') + 2}: training.stages: 61 layers" in capsys.readouterr().err
