"""Pipeline schedules by the words of published rows: the order, model chunks of a rank, what travels beside passes."""

import re
from math import ceil
from typing import TYPE_CHECKING

from simulator.interop.rows.accelerators import plain
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.training_names import predicting
from simulator.interop.rows.words import vocabulary

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row

_CHUNKS = re.compile(
    r"\W*v(?:pp|irtual(?: pipeline)?(?: size| stages)?)? ?=? ?(?P<size>\d+)$|\W*(?P<chunks>\d+) (?:model )?chunks$"
)
_OVERLAP = re.compile(
    r"(,? with)? overlap\w*( of)? (p2p|pp|a2a|moe|communication)( overlap)?|,? with (a2a|p2p|pp|moe) overlap"
)
_SENDS = re.compile(r"overlap\w*( of)? (p2p|pp|communication)|(p2p|pp) overlap")
_MOVED = re.compile(r",? ?(with )?layers? (redistribut\w+|balanc\w+)")
"""Words of layers that make room for the output layer on the last stage."""
_FULL_CHUNKS = re.compile(r"(?<![a-z])(deepseek ?v3|kimi ?k2)")
"""Models whose recipes of NVIDIA's frameworks fill every chunk but the last one."""
_RECIPES = re.compile(r"(?<![a-z])(nemo|megatron ?bridge)(?! ?(automodel|rl)(?![a-z]))")
_OWNERS = re.compile(r" (maxtext|megatron)$")
_FLAGGED = re.compile(
    r"(?<![a-z])(dual ?pipe ?v?|zero ?bubble( (h1|h2|v))?|zb ?(h1|h2|v|1p|2p)|v ?half|v ?min|chimera|hanayo)(?![a-z\d])"
)
_OFF = re.compile(r"(no|not|without|w o) (use |using )?[a-z]+ ?[a-z]*")


def stated(row: "Row") -> "Row":
    """The row with a schedule that only its flags name, and with the chunks that only the words of the schedule count.

    Raises Refused where those words and `vpp` differ.
    """
    words = row.schedule or (_flagged(row.flags, row.framework) if (row.pp or 1) > 1 else None)
    count = chunks(words)
    if count is not None and row.vpp not in (None, count):
        raise Refused(f"schedule `{words}` beside vpp {row.vpp}")
    return row.model_copy(update={"schedule": words, "vpp": row.vpp or count})


def _flagged(*texts: str | None) -> str | None:
    """The schedule that free words name, if any."""
    said = " ; ".join(_OFF.sub(" ", plain(text or "")) for text in texts)
    found = _FLAGGED.search(said)
    return found[0] if found else None


def chunks(words: str | None) -> int | None:
    """Model chunks of a rank by the words of a schedule: vpp 4, v=4, 4 chunks; None where they count none."""
    found = _CHUNKS.search(_alone(words))
    return int(found["size"] or found["chunks"]) if found else None


def overlaps_sends(words: str | None) -> bool:
    """Whether the words of a schedule say that what stages send travels beside their passes."""
    return bool(_SENDS.search(plain(words or "")))


def schedule(words: str | None, stages: int) -> str | None:
    """The schedule of a row, None where it is open or there is no pipeline; raises Refused for unknown ones."""
    text = re.sub(r"([a-z])(1f1b)", r"\1 \2", _alone(words))
    if stages == 1 and re.fullmatch(r"none|no pipeline|single stage|not applicable|n a", text):
        return None
    if not text or text in ("unknown", "not stated", "none", "n a", "default"):
        return None
    text = _CHUNKS.sub("", text)
    for known in vocabulary().training.pipelines:
        if re.fullmatch(known.words, text):
            return known.name
    raise Refused(f"schedule `{words}`")


def stages(row: "Row", chunks: int, assumed: list[str]) -> tuple[int, ...] | None:
    """Layers of each stage of a row; None where all have as many. Recipes of DeepSeek-V3 and Kimi-K2 give each chunk as
    many layers as the first has and the last one, with the module for multi-token prediction and the output layer,
    what is left (`_get_deepseek_v3_pipeline_layout` of NVIDIA-NeMo/Megatron-Bridge, and NeMo's of 2025)."""
    if _MOVED.search(plain(row.schedule or "")):
        return _redistributed(row, chunks, assumed)
    each = ceil(row.layers / chunks)
    if (
        row.layers % chunks
        and each * (chunks - 1) < row.layers
        and _FULL_CHUNKS.search(plain(row.model))
        and _RECIPES.search(plain(row.framework or ""))
    ):
        last = row.layers - each * (chunks - 1)
        assumed.append(f"{each} layers a chunk and {last} on the last one, as recipes of this model have them")
        return (*(each,) * (chunks - 1), last)
    return stage_layers(row.layers, chunks, assumed, predicting(row.flags))


def _redistributed(row: "Row", chunks: int, assumed: list[str]) -> tuple[int, ...] | None:
    """Layers by FLOPs, the output layer among them: the last stage keeps its mean share less that of the output layer,
    rounded up, and of the others the later ones hold more (`layers_last` of sail-sg/VocabularyParallelism,
    artifact/exp_one_host.csv)."""
    ffn = (row.ffn or 4 * row.hidden) * (3 if row.gated_ffn else 2)
    logits = (row.vocab or 0) / (4 * row.hidden + ffn + 2 * row.seq_len)
    last = max(ceil((row.layers + logits) / chunks - logits), 0)
    each, more = divmod(row.layers - last, chunks - 1)
    assumed.append(f"{last} layers on the last stage, by FLOPs, and the others even")
    return (*(each + (i >= chunks - 1 - more) for i in range(chunks - 1)), last)


def stage_layers(layers: int, chunks: int, assumed: list[str], modules: int = 0) -> tuple[int, ...] | None:
    """Even stages; a remainder goes to chunks after the first, so that first and last (embedding, head) hold fewer.
    Modules for multi-token prediction count as layers of the last."""
    if modules and chunks > 1:
        all_of = stage_layers(layers + modules, chunks, assumed) or ((layers + modules) // chunks,) * chunks
        return (*all_of[:-1], all_of[-1] - modules)
    short = layers % chunks
    if not short:
        return None
    assumed.append(f"{layers} layers over {chunks} chunks: the remainder in the middle")
    first = (chunks - short) // 2 + (chunks - short) % 2
    return tuple(layers // chunks + (first <= i < first + short) for i in range(chunks))


def _alone(words: str | None) -> str:
    """Words of an order and its chunks, without what overlaps and whose it is."""
    return _OWNERS.sub("", _MOVED.sub("", _OVERLAP.sub("", plain(words or "")))).strip(" .")
