"""Where people keep command lines of serving engines: launch scripts, or the bare text of a command.

`vllm serve MODEL`, `python -m vllm.entrypoints.openai.api_server`, `python -m sglang.launch_server`, `sglang serve`,
`trtllm-serve MODEL` and `trtllm-bench --model MODEL throughput`. Scripts are read and never run. A file named by
`--extra_llm_api_options` (`--config`, `--extra_engine_args`) is read where it lies beside the script, or where the
script itself writes it (`cat << EOF > FILE`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.interop.arguments import Argument
from simulator.interop.shell.script import Field, Script, words_of
from simulator.specs.text.yaml_text import compose, file_text

VLLM, SGLANG, TENSORRT = "vllm", "sglang", "tensorrt-llm"
SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size"}
SHORT |= {"dcp": "decode_context_parallel_size"}
"""Short options of vLLM with one dash, and of the others with two."""
EXTRA = ("extra_llm_api_options", "config", "extra_engine_args")
LISTS = (
    *("cuda_graph_bs", "cudagraph_capture_sizes", "cuda_graph_sizes", "lora_modules"),
    *("cuda_graph_config.batch_sizes", "cuda_graph_batch_sizes"),
)
"""Arguments that take several words; other lists of extra options are not read."""
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_HEREDOC = re.compile(r"cat\s*(?:<<-?\s*['\"]?(\w+)['\"]?\s*>\s*(\S+)|>\s*(\S+)\s*<<-?\s*['\"]?(\w+)['\"]?)\n")
_ENGINE = re.compile(
    r"\bvllm(?:\.entrypoints|\s+serve)|\bsglang(?:\.launch_server|\s+serve)|\btrtllm-(?:serve|bench)", re.MULTILINE
)


@dataclass(slots=True)
class Command:
    """One engine that is started."""

    engine: str
    model: str
    line: int
    found: dict[str, Argument] = field(default_factory=dict)
    """Arguments by name, with underscores."""
    bench: bool = False
    """Whether it is a benchmark of the engine, with its requests."""


def is_engine(text: str) -> bool:
    """Whether a text starts an engine."""
    return _ENGINE.search(text) is not None


def commands(text: str, file: str, folder: Path, given: Mapping[str, str]) -> list[Command]:
    """The engines that a text starts; `given` sets arguments and variables. InputError where there is none."""
    text, written = _written(text.replace("\r\n", "\n"))
    variables = {name: value for name, value in given.items() if re.search(rf"\$\{{?{re.escape(name)}\b", text)}
    script = Script(text, file, variables)
    found = [one for call in script.calls if (one := _command(list(words_of(call.fields)), script)) is not None]
    if not found:
        hint = "write `vllm serve MODEL`, `python -m sglang.launch_server --model-path MODEL` or `trtllm-serve MODEL`"
        raise InputError(Problem("no command of vLLM, SGLang or TensorRT-LLM was found", file, hint=hint))
    for one in found:
        _extra(one, folder, written, file)
        for name, value in given.items():
            if name not in variables:
                own = _normal(name)
                one.found[own] = Argument(own, tuple(value.split()))
    return found


def _written(text: str) -> tuple[str, dict[str, str]]:
    """A script without the files that it writes from its own text, and these by name."""
    files: dict[str, str] = {}
    while (match := _HEREDOC.search(text)) is not None:
        end, name = match[1] or match[4], (match[2] or match[3]).strip("'\"")
        rest = re.compile(rf"^\s*{re.escape(end)}\s*$", re.MULTILINE).search(text, match.end())
        if rest is None:
            break
        files[name] = text[match.end() : rest.start()]
        blank = "\n" * text.count("\n", match.start(), rest.end())
        text = text[: match.start()] + blank + text[rest.end() :]
    return text, files


def _command(words: list[Field], script: Script) -> Command | None:
    """The engine that a command starts; None where it starts none."""
    texts = [word.text for word in words]
    engine, first = _engine(texts)
    if not engine:
        return None
    command = Command(engine, "", words[0].line, bench="trtllm-bench" in texts[first - 1])
    name, line, values, doubt = "", 0, list[str](), ""

    def finish() -> None:
        if name:
            command.found[name] = Argument(name, tuple(values), line, doubt)

    for word in words[first:]:
        flag, equals, value = word.text.partition("=")
        why = script.why(word.text)
        if _FLAG.fullmatch(flag) and not _number(flag):
            finish()
            name, line, values, doubt = _normal(flag), word.line, [value] if equals else [], why
        elif name and (not values or _list(name)) and not (command.bench and word.text in ("throughput", "latency")):
            values, doubt = [*values, word.text], doubt or why
        elif not command.model and word.text not in ("throughput", "latency", "serve"):
            command.model = word.text
    finish()
    model = next((command.found[key] for key in ("model", "model_path") if key in command.found), None)
    if not command.model and model is not None and model.values:
        command.model = model.values[0]
    return command


def _engine(texts: list[str]) -> tuple[str, int]:
    """(engine, place of its first argument) of the words of a command; ("", 0) of another one."""
    for place, text in enumerate(texts):
        program, after = text.rpartition("/")[2], texts[place + 1] if place + 1 < len(texts) else ""
        if program == "vllm" and after == "serve":
            return VLLM, place + 2
        if text.startswith("vllm.entrypoints"):
            return VLLM, place + 1
        if program == "sglang" and after == "serve":
            return SGLANG, place + 2
        if text == "sglang.launch_server":
            return SGLANG, place + 1
        if program in ("trtllm-serve", "trtllm-bench"):
            return TENSORRT, place + 1
    return "", 0


def _list(name: str) -> bool:
    """Whether an argument takes several words."""
    return name in LISTS


def _number(text: str) -> bool:
    return re.fullmatch(r"-\d[\d.]*", text) is not None


def _normal(flag: str) -> str:
    name = flag.lstrip("-").replace("-", "_")
    return SHORT.get(name, name)


def _extra(command: Command, folder: Path, written: Mapping[str, str], file: str) -> None:
    """Add what the YAML of extra options says, as arguments with dotted names."""
    named = next((command.found[name] for name in EXTRA if name in command.found), None)
    if named is None or not named.values or command.engine == VLLM:
        return
    name = named.values[0]
    text = written.get(name)
    if text is None:
        path = Path(name) if Path(name).is_absolute() else folder / name
        try:
            text = file_text(path, str(path), "YAML file of extra options")
        except InputError:
            hint = "put the file beside the script, or give what it says: --set enable_attention_dp=true"
            raise InputError(Problem(f"`{name[:80]}` is not there", file, named.line or None, hint=hint)) from None
    waiting = [("", compose(text, name))]
    while waiting:
        above, node = waiting.pop()
        for key, child in node.value.items() if isinstance(node.value, dict) else ():
            own = f"{above}{key}".replace("-", "_")
            if isinstance(child.value, dict):
                waiting.append((f"{own}.", child))
            elif isinstance(child.value, list):
                if _list(own):
                    command.found[own] = Argument(own, tuple(str(one.value) for one in child.value), named.line)
            elif child.value is not None:
                word = str(child.value).lower() if isinstance(child.value, bool) else str(child.value)
                command.found[own] = Argument(own, (word,), named.line)
