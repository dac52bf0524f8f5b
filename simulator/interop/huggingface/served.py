"""A Hugging Face `config.json` as a scenario that serves the model; all but the model is a start to go on from."""

from collections.abc import Mapping
from dataclasses import replace

from simulator.errors import InputError
from simulator.interop.draft import Draft
from simulator.interop.huggingface.translate import translate
from simulator.interop.machine import Machine
from simulator.specs.text.yaml_text import Node, compose, plain, scalar

LENGTHS = "azure-conversation"
"""Workload of the scenario."""


def draft_of(text: str, file: str, machine: Machine, given: Mapping[str, str], tp: int) -> Draft:
    """The scenario that serves the model of a config on `tp` devices.

    `given` sets keys of the config. Raises InputError where it is no config of a known architecture.
    """
    root = compose(text, file)
    entries = plain(root)
    if not isinstance(entries, dict):
        raise InputError(root.place.problem("the file holds no mapping", hint="name a config.json"))
    try:
        fields, keys = translate(entries | {key: scalar(word) for key, word in given.items()})
    except InputError as error:
        raise InputError(*(replace(p, file=file, line=_line(root, p.path)) for p in error.problems)) from None
    except ValueError as error:
        raise InputError(f"--set: {error}") from None
    draft = Draft(file, "config.json of Hugging Face")
    draft.put("version", 1)
    draft.put("name", f"{fields['name']}, served")
    draft.put("cluster.extends", machine.cluster, "--cluster")
    if machine.nodes is None:
        draft.assume("cluster.nodes", 1, "give --nodes for more")
    else:
        draft.put("cluster.nodes", machine.nodes, "--nodes")
    for name, value in fields.items():
        line = _line(root, keys.get(name, ""))
        note = f"{keys[name]}, line {line}" if line and name != "source" else ""
        if isinstance(value, Mapping):
            for inner, one in value.items():
                draft.put(f"model.{name}.{inner}", one, note)
        else:
            draft.put(f"model.{name}", value, note)
    draft.assume("stack", "vllm", "`clustersim profiles stacks` lists others")
    draft.assume("serving.parallel.tp", tp, "the fewest devices that hold the model and turn no request away")
    if fields.get("quantized"):
        draft.put("serving.precision.weights", str(fields["quantized"]), "quantization_config")
    draft.assume("requests.arrivals.poisson", "1 /s", "requests per second")
    draft.assume("requests.lengths", LENGTHS, "or others of workloads/requests, or `requests.trace`")
    draft.assume("requests.count", 200, "how many requests")
    return draft


def _line(root: Node, key: str) -> int | None:
    """Line of a dotted key of the config; None where it is not there."""
    node, line = root, None
    for part in key.split(".") if key else ():
        place = node.keys.get(part)
        child = node.children().get(part)
        if child is None or place is None:
            return line
        node, line = child, place.line
    return line
