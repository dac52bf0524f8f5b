"""Flags of speculation: what drafts and how long, in and out. What is accepted no flag says.

vLLM's `--speculative-config` (JSON, or dotted flags), SGLang's `--speculative-*`, the `speculative_config` of
TensorRT-LLM's extra options; names as in the engines' documentation (vLLM 0.8 to 0.11, SGLang 0.4.6 to 0.5,
TensorRT-LLM 0.18 to 1.1).
"""

import json
from typing import Any

from simulator.interop.arguments import Arguments
from simulator.interop.draft import printable
from simulator.interop.engines.commands import SGLANG, TENSORRT, VLLM
from simulator.interop.rows.speculation import FIRST, LATER, SOURCE
from simulator.specs.speculation import Speculation

KINDS = {
    VLLM: {
        **dict.fromkeys(("mtp", "deepseek_mtp", "ernie_mtp", "qwen3_next_mtp", "mimo_mtp", "glm4_moe_mtp"), "mtp"),
        **dict.fromkeys(("eagle", "eagle3"), "eagle"),
        "medusa": "medusa",
        **dict.fromkeys(("ngram", "[ngram]"), "n-gram"),
        "draft_model": "draft-model",
    },
    SGLANG: {"nextn": "mtp", "eagle": "eagle", "eagle3": "eagle", "standalone": "draft-model", "ngram": "n-gram"},
    TENSORRT: {
        "mtp": "mtp",
        "eagle": "eagle",
        "eagle3": "eagle",
        "medusa": "medusa",
        "ngram": "n-gram",
        "drafttarget": "draft-model",
    },
}
"""Kind of `serving.speculation` by the word of each engine, without case."""
_WHAT = {
    VLLM: ("speculative_config.method",),
    SGLANG: ("speculative_algorithm",),
    TENSORRT: ("speculative_config.decoding_type",),
}
_LENGTH = {
    VLLM: ("speculative_config.num_speculative_tokens", "num_speculative_tokens"),
    SGLANG: ("speculative_num_steps",),
    TENSORRT: ("speculative_config.num_nextn_predict_layers", "speculative_config.max_draft_len"),
}
_DRAFT = {
    VLLM: ("speculative_config.model", "speculative_model"),
    SGLANG: ("speculative_draft_model_path",),
    TENSORRT: ("speculative_config.speculative_model_dir", "speculative_config.speculative_model"),
}
_TREE, _WIDTH, _CONFIG = "speculative_num_draft_tokens", "speculative_eagle_topk", "speculative_config"
ACCEPTANCE = "acceptance"
"""Given with `--set`: the share of drafted tokens that is accepted."""
NAMES = frozenset(
    {
        _TREE,
        _WIDTH,
        _CONFIG,
        ACCEPTANCE,
        *(name for names in (_WHAT, _LENGTH, _DRAFT) for engine in names.values() for name in engine),
    }
)
"""All arguments that are read here."""
SPLIT = 2048
"""Longest JSON of a flag that is read."""


def speculation(own: Arguments, engine: str, modules: int) -> dict[str, Any] | None:
    """The `serving.speculation` of a command; None where nothing is drafted. Problems go to the draft.

    `modules` are those for multi-token prediction that the model comes with.
    """
    said = _config(own) if engine == VLLM else {}
    word = said.get("method") or own.text(*_WHAT[engine])
    drafts = said.get("model") or own.text(*_DRAFT[engine])
    length = _whole(own, said.get("num_speculative_tokens"), *_LENGTH[engine])
    if word is None and drafts is None and length is None:
        own.given(ACCEPTANCE)
        return None
    kind = _kind(own, engine, word, drafts, modules)
    if kind is None:
        return None
    found: dict[str, Any] = {"kind": kind, "draft_length": length or (5 if kind == "n-gram" else 1)}
    tree, width = own.whole(_TREE, most=1024), own.whole(_WIDTH, most=64)
    if (width or 1) > 1 and tree is not None and tree > found["draft_length"] + 1:
        found |= {"tree": tree - 1, "width": width}
    return found | _acceptance(own, kind, int(found["draft_length"])) | ({"drafts": drafts} if drafts else {})


def flags(told: Speculation, engine: str) -> list[str]:
    """The words of a command that draft so; of TensorRT-LLM the lines of its extra options."""
    word = next((word for word, kind in KINDS[engine].items() if kind == told.kind), None)
    if word is None or not told.longest:
        return []
    name = (told.model.name if told.model is not None else "").lower().replace(" ", "-")
    if engine == VLLM:
        config = {"method": word, "num_speculative_tokens": told.longest} | ({"model": name} if name else {})
        return ["--speculative-config", f"'{json.dumps(config, separators=(',', ':'))}'"]
    if engine == SGLANG:
        words = ["--speculative-algorithm", word.upper(), "--speculative-num-steps", str(told.longest)]
        words += ["--speculative-eagle-topk", str(told.width)]
        words += ["--speculative-num-draft-tokens", str(told.most_rows)]
        return words + (["--speculative-draft-model-path", name] if name else [])
    key = "num_nextn_predict_layers" if told.kind == "mtp" else "max_draft_len"
    written = {"mtp": "MTP", "eagle": "Eagle", "medusa": "Medusa", "ngram": "NGram", "drafttarget": "DraftTarget"}
    lines = ["speculative_config:", f"  decoding_type: {written[word]}", f"  {key}: {told.longest}"]
    return lines + ([f"  speculative_model_dir: {name}"] if name else [])


def _config(own: Arguments) -> dict[str, Any]:
    """vLLM's JSON."""
    argument = own.given(_CONFIG)
    if argument is None:
        return {}
    word = " ".join(argument.values)
    try:
        found = json.loads(word[:SPLIT])
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    hint = 'write --speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\''
    own.draft.wrong(f"--speculative-config holds no JSON object: `{printable(word[:60])}`", hint, argument.line)
    return {}


def _whole(own: Arguments, said: object, *names: str) -> int | None:
    """Tokens that are drafted."""
    length = own.whole(*names, most=64)
    if said is None:
        return length
    if isinstance(said, int) and not isinstance(said, bool) and 1 <= said <= 64:
        return said
    own.draft.wrong(f"num_speculative_tokens is a whole number from 1 to 64, not `{printable(str(said)[:40])}`")
    return None


def _kind(own: Arguments, engine: str, word: object, drafts: object, modules: int) -> str | None:
    """What drafts; SGLang runs a model's own module under the name of EAGLE where no other one is named."""
    if word is None:
        return "draft-model" if drafts else "mtp"
    kind = KINDS[engine].get(str(word).lower())
    if kind is None:
        known = ", ".join(KINDS[engine])
        own.draft.wrong(f"speculation by `{printable(str(word)[:40])}` is not simulated", f"known: {known}")
        return None
    return "mtp" if engine == SGLANG and kind == "eagle" and modules and not drafts else kind


def _acceptance(own: Arguments, kind: str, length: int) -> dict[str, Any]:
    """What is given by hand, else what was published of DeepSeek's module for modules of its kind."""
    word = own.text(ACCEPTANCE)
    if word is not None:
        try:
            return {"acceptance": float(word), "source": "--set acceptance"}
        except ValueError:
            own.draft.wrong(f"--set acceptance takes a share from 0 to 1, not `{printable(word[:40])}`")
            return {"acceptance": 0.0}
    if kind != "mtp":
        own.draft.wrong(
            f"no flag says how many tokens of `{kind}` are accepted", "give the share: --set acceptance=0.7"
        )
        return {"acceptance": 0.0}
    rates = [FIRST, *(LATER,) * (length - 1)]
    own.draft.assumed.append(
        f"serving.speculation.acceptance: {', '.join(f'{rate:g}' for rate in rates)} (published of DeepSeek's module;"
        " --set acceptance=0.7 gives another share)"
    )
    return {"acceptance": rates, "source": SOURCE}
