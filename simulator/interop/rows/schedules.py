"""Pipeline schedules by the words of published rows: the order, model chunks of a rank, what travels beside passes."""

import re
from typing import TYPE_CHECKING

from simulator.interop.rows.accelerators import plain
from simulator.interop.rows.jsonl import Refused
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


def _alone(words: str | None) -> str:
    """Words of an order and its chunks, without what overlaps and whose it is."""
    return _OWNERS.sub("", _OVERLAP.sub("", plain(words or ""))).strip(" .")
