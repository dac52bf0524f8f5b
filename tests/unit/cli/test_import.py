"""`clustersim import`, `init`, `doctor` and `completion` as they are typed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.cli import main
from simulator.cli.commands import COMMANDS
from simulator.errors import InputError
from simulator.interop.machine import Machine
from simulator.run.imports import import_file, pairs
from simulator.specs import load_scenario, names
from simulator.specs.scenario import Scenario, ServingScenario
from simulator.study import doctor
from tests.effort import PATIENCE_S

FILES = Path(__file__).resolve().parents[1] / "interop" / "files"
GPT = str(FILES / "gpt-175b.sh")


def test_an_imported_file_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "gpt.yaml")
    assert main(["import", GPT, "--cluster", "selene", "--nodes", "16", "--out", out]) == 0
    assert main(["run", out, "training.global_batch=32", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {out}\n Imported from")


def test_nothing_is_written_where_the_import_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "gpt.yaml"
    assert main(["import", GPT, "--cluster", "selene", "--nodes", "17", "--out", str(out)]) == 2
    assert "--nodes 16 or a multiple" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([GPT], "--cluster"),
        ([GPT, "--cluster", "selen"], "did you mean `selene`?"),
        ([GPT, "--cluster", "selene", "--nodes", "0"], "--nodes 0"),
        ([GPT, "--cluster", "selene", "--set", "x"], "--set NAME=VALUE"),
        ([GPT, "--cluster", "selene", "--format", "torchtitan"], "no TOML"),
        ([GPT, "--cluster", "selene", "--out", GPT], "would overwrite"),
        (["nothing.sh", "--cluster", "selene"], "cannot be read"),
        (["/dev/zero", "--cluster", "selene"], "not a regular file"),
    ],
)
def test_bad_imports(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert "Traceback" not in said.err
    assert not said.out


def test_a_hugging_face_config_becomes_a_scenario_that_serves(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_attention_heads": 64,
        "num_hidden_layers": 80,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
    }
    (tmp_path / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    out = tmp_path / "served.yaml"
    assert main(["import", str(tmp_path), "--cluster", "dgx-h100", "--out", str(out)]) == 0
    scenario = load_scenario(out).scenario
    assert isinstance(scenario, ServingScenario)
    assert scenario.serving.parallel.tp > 1
    assert "# num_hidden_layers, line 6" in out.read_text(encoding="utf-8")
    assert main(["run", str(out), "requests.count=5", "--quiet"]) == 0


@pytest.mark.parametrize(("layers", "tp"), [(2, 1), (180, 8)])
def test_a_layout_of_as_few_devices_as_serve_is_proposed(layers: int, tp: int, tmp_path: Path) -> None:
    """A layer of 856 million weights has 1.7 GB: 3.4 GB fit on one device, 308 GB on no four of 80 GB with 10 % kept
    free."""
    config = {
        "model_type": "llama",
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_attention_heads": 64,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "max_position_embeddings": 8192,
    }
    (tmp_path / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (tmp_path / "served.yaml").write_text(import_file(str(tmp_path), Machine("dgx-h100")), encoding="utf-8")
    scenario = load_scenario(tmp_path / "served.yaml").scenario
    assert isinstance(scenario, ServingScenario)
    assert scenario.serving.parallel.tp == tp


def test_only_json_files_that_name_a_type_of_model_are_hugging_face_s(tmp_path: Path) -> None:
    script = tmp_path / "gpt.sh"
    script.write_text(f'{Path(GPT).read_text(encoding="utf-8")}\n# "model_type"\n', encoding="utf-8")
    assert "training:" in import_file(str(script), Machine("selene", 16))
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        import_file(str(tmp_path / "other.json"), Machine("selene", 16))
    assert "model_type" not in str(caught.value)


@pytest.mark.parametrize("word", ["=8", "NODES=", "NODES"])
def test_words_that_set_nothing_are_refused(word: str) -> None:
    assert pairs(["A=1", "B=c=d"]) == {"A": "1", "B": "c=d"}
    with pytest.raises(InputError, match="sets nothing"):
        pairs(["A=1", word])


@pytest.mark.parametrize("kind", ["training", "serving"])
def test_starters_run(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "start.yaml")
    assert main(["init", kind, "--out", out]) == 0
    assert main(["run", out, *(["requests.count=20"] if kind == "serving" else []), "--quiet"]) == 0
    assert main(["init", kind, "--out", out]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["init", kind, "--out", out, "--force"]) == 0
    assert main(["init", kind]) == 0
    assert "clustersim run scenario.yaml" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["training", "serving"])
def test_what_starters_say_in_comments_is_accepted(kind: str, tmp_path: Path) -> None:
    main(["init", kind, "--out", str(tmp_path / "start.yaml")])
    text = (tmp_path / "start.yaml").read_text(encoding="utf-8")
    lines = text.splitlines()
    for key in ("vpp", "recompute_layers", "steps", "precision", "context", "kv_cache", "batching", "trace"):
        commented = [line for line in lines if line.strip().startswith(f"# {key}:")]
        for line in commented:
            indent = line[: len(line) - len(line.lstrip())]
            changed = text.replace(line, indent + line.strip()[2:])
            (tmp_path / "changed.yaml").write_text(changed, encoding="utf-8")
            load_scenario(tmp_path / "changed.yaml")


def test_the_doctor_finds_all_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "executors agree" in said
    assert "all is well" in said


def test_the_doctors_document_names_no_folders(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    said = capsys.readouterr().out
    found = json.loads(said)
    assert found["healthy"] is True
    assert {finding["group"] for finding in found["findings"]} >= {"packages", "optional", "data", "self test"}
    for folder in (Path.cwd(), Path.home(), Path(sys.prefix)):
        assert str(folder) == "/" or str(folder) not in said


def test_the_doctor_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Point:
        name, value = "mine", "my.module"

        def load(self) -> None:
            raise ImportError(f"cannot import x from {Path.home()}/my/module.py")

    monkeypatch.setattr(doctor, "entry_points", lambda group: [Point()])
    monkeypatch.setattr(doctor, "_self_test", lambda: 1 / 0)
    assert main(["doctor", "--json"]) == 1
    wrong = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["verdict"] == "wrong"]
    assert [(one["name"], one["detail"].split(":")[0]) for one in wrong] == [
        ("mine", "ImportError"),
        ("executors agree", "ZeroDivisionError"),
    ]
    assert str(Path.home()) + "/my" not in str(wrong)


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The completion script in a file."""
    assert main(["completion", shell]) == 0
    path = folder / f"complete.{shell}"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


def completed(words: list[str], path: Path, folder: Path) -> list[str]:
    """What bash offers for the last word."""
    code = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _clustersim; printf "%s\\n" "${COMPREPLY[@]}"'
    command = ["bash", "--norc", "-c", code, str(path), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("bash", tmp_path, capsys)
    (tmp_path / "my file.yaml").touch()
    (tmp_path / "plots").mkdir()

    def offered(*words: str) -> list[str]:
        return completed(["clustersim", *words], path, tmp_path)

    assert set(COMMANDS) <= set(offered(""))
    assert offered("do") == ["doctor"]
    assert offered("run", "--fold", "") == ["auto", "exact", "tiers", "none"]
    assert offered("run", "--sens") == ["--sensitivities"]
    assert offered("run", "my") == ["my file.yaml"]
    assert offered("run", "--plots", "") == ["plots"]
    assert "quickstart" in offered("run", "qui")
    assert offered("import", "x.sh", "--cluster", "sel") == ["selene"]
    assert offered("import", "qui") == []
    assert offered("profiles", "h100-s") == ["h100-sxm", "h100-sxm-96gb"]
    assert offered("init", "s") == ["serving"]
    assert offered("nonsense", "x") == []
    assert len([name for name in names(Scenario) if name.startswith("papers/")]) == len(offered("run", "papers/"))


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("fish", tmp_path, capsys)

    def offered(line: str) -> list[str]:
        command = ["fish", "-N", "-c", f"source {path}; complete -C '{line}'"]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        return sorted(row.split("\t")[0] for row in done.stdout.splitlines())

    assert offered("clustersim do") == ["doctor"]
    assert offered("clustersim run --fold ") == ["auto", "exact", "none", "tiers"]
    assert offered("clustersim import x --cluster sel") == ["selene"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its completion system, replaced by functions that print what they are asked to add."""
    path = script("zsh", tmp_path, capsys)
    code = f"""
compadd() {{ if [[ $1 == -a ]]; then print -rl -- "${{(@P)2}}"; else shift; print -rl -- "$@"; fi }}
_files() {{ print files }}
compdef() {{ : }}
source {path}
words=(clustersim $@); CURRENT=$#words; _clustersim
"""

    def offered(*words: str) -> list[str]:
        command = ["zsh", "-f", "-c", code, "zsh", *words, ""]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return done.stdout.split()

    (tmp_path / "x").touch()
    assert "selene" in offered("import", "x", "--cluster", "s")
    assert offered("run", "--fold", "a") == ["auto", "exact", "tiers", "none"]
    assert offered("run", "--json", "a") == ["files"]


def test_odd_file_names_do_not_get_into_the_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "$(touch x)';.yaml").touch()
    (tmp_path / "scenarios" / "mine.yaml").touch()
    monkeypatch.chdir(tmp_path)
    text = script("bash", tmp_path, capsys).read_text(encoding="utf-8")
    assert "touch" not in text
    assert "mine" in text


def test_a_scenario_is_not_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text("extends: quickstart\nname: mine\n")
    assert main(["import", str(tmp_path / "mine.yaml"), "--cluster", "dgx-h100"]) == 2
    assert "is a scenario of clustersim already; run it" in capsys.readouterr().err
    assert main(["run", str(tmp_path / "mine.yml")]) == 2
    assert "mine.yaml`?" in capsys.readouterr().err
