"""Models with state-space layers or linear attention in published training rows: their profiles know the layers.

No key of a row says which layers carry a state and how wide it is, so the shipped profile of the row's model stands for
all of it, where its sizes are those that the row states; other rows are refused.
"""

import re
from typing import TYPE_CHECKING, Any

from simulator.interop.rows.accelerators import plain
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving_names import model as served_model
from simulator.specs.model import STATEFUL, Model

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row

_KINDS = re.compile(
    r"(?<!\w)(hybrids?|mamba ?[123]?|ssms?|state ?space( models?| duality)?|linear( attention)?"
    r"|(gated )?delta ?(net|rule)|gdn|kda|kimi delta( attention)?|lightning( attention)?"
    r"|gated linear attention|gla|retention|rwkv ?\d?)(?!\w)"
)
"""Words of layers that carry a state."""
_BESIDE = re.compile(
    r"(?<!\w)(layers?|blocks?|of|in|on|per|every|each|one|two|three|four|other|third|fourth|softmax|moe"
    r"|mlps?|to|ratio)(?!\w)"
)
"""Words of how many they are and what is beside them, of which the profile decides."""


def named(words: str | None) -> bool:
    """Whether words on attention name layers that carry a state."""
    return bool(_KINDS.search(plain(words or "")))


def beside(words: str | None) -> str:
    """The words on attention that say something else."""
    text = plain(words or "")
    return _BESIDE.sub(" ", _KINDS.sub(" ", text)) if named(words) else text


def shipped(row: "Row") -> Model | None:
    """The profile of a row's model where that has layers with a state; None for other rows.

    Refused where words name such layers and there is no profile of the row's sizes.
    """
    try:
        known: Model | None = served_model(row.model)
    except Refused:
        known = None
    if known is not None and _has_states(known) and _same_sizes(row, known):
        return known
    if named(row.attention):
        raise Refused(f"attention `{row.attention}` of a model without a profile of its layers and sizes")
    return None


def _has_states(known: Model) -> bool:
    kinds = {known.attention, *(layer.attention for layer in known.kinds)}
    return not kinds.isdisjoint(STATEFUL)


def _same_sizes(row: "Row", known: Model) -> bool:
    """Whether a profile has the sizes that a row states."""
    sizes = (known.hidden, known.layers, known.heads)
    experts = row.experts or known.experts or 1
    return sizes == (row.hidden, row.layers, row.heads) and experts == (known.experts or 1)


def stated(row: "Row") -> "Row":
    """The row with the experts of its profile where it leaves them out."""
    known = shipped(row)
    if known is None or known.experts is None:
        return row
    found = {"experts": known.experts, "topk": known.top_k}
    return row.model_copy(update={key: size for key, size in found.items() if getattr(row, key) is None})


def model(row: "Row", known: Model, modules: int, assumed: list[str]) -> Model:
    """The profile as a row's model, with the row's vocabulary and so many modules for multi-token prediction."""
    assumed.append("layers and their sizes as the model of this name has them")
    found: dict[str, Any] = known.model_dump(exclude_unset=True) | {"name": row.model, "mtp_layers": modules}
    longest = max(row.seq_len, known.max_sequence or 0)
    return Model.model_validate(found | {"vocabulary": row.vocab or known.vocabulary, "max_sequence": longest})
