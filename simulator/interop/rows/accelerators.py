"""Accelerators by the words of published rows: chip, form and memory, each as whole words, in any order and spelling.

A row names a chip in its own way (`H100-80GB`, `NVIDIA H100 80GB HBM3`, `H100 SXM5`). What a row says must all agree
with the device that is found: another form (PCIe, NVL), another memory or a second chip is refused, never ignored.
"""

import re

from simulator.interop.rows.words import vocabulary

_FORMS = {"sxm": r"sxm\d?|hgx|dgx|oam|nvswitch|nvlink\w*|hbm3", "pcie": r"pcie|pci e", "nvl": r"nvl(?! ?\d\d)"}
"""Forms by their words. Of the cards that come in several forms those with HBM3 are modules (the PCIe ones: HBM2e)."""
_OTHER = (
    r"mobile|laptop|(?<!blackwell )max q|(?<!4070 ti )super|mig|1g|2g|3g|4g|7g|mi250x(?! gcd)"
    r"|h100 (64gb|96gb(?! hbm2e))|simulated"
)
"""Words that name something else than the cards of the table."""


LONGEST = 400
"""Characters of a text that are read."""
_DIES, _DIE = ("ascend-910c",), re.compile(r"\b(?:per|one|single) die\b", re.IGNORECASE)
"""Packages whose dies are devices of their own, and words of rows that count these."""
_BOARD = re.compile(r"pi (cm)?\d")
"""Boards whose one lane and slow cores hold back the card in them."""


def plain(words: str) -> str:
    """Small letters, with single spaces where words were joined."""
    apart = re.sub(r"[^a-z0-9.+=%]+", " ", words.lower())
    return re.sub(r"(?<![\w.])(\d+) ?(g|gb|gib)\b", r"\1gb", apart).strip()


def card(words: str, link: str = "") -> tuple[str | None, bool]:
    """(profile of the accelerator that the words name, whether its form or memory had to be assumed).

    `link` are words of how cards are joined, which may say the form. None where no card, or more than one, is named.
    """
    words, link = words[:LONGEST], link[:LONGEST]
    if _BOARD.match(plain(words)):
        return None, False
    inner = re.search(r"\(([^()]*)\)", words)  # the card in a host: (RTX 4090)
    if inner and _chips(plain(inner[1])):
        words = inner[1]
    text = re.sub(r"^\d+ ?x ?", "", plain(_of_instance(words) or words))
    chips, forms = _chips(text), _forms(text) or _forms(plain(link))
    if len(chips) != 1 or re.search(rf"\b({_OTHER})\b", text):
        return None, False
    sizes = {int(size) for size in re.findall(r"(?<![\w.])(\d+)gb\b", text)}
    kinds = [card for card in vocabulary().cards if card.chip in chips]
    known = [card for card in kinds if forms <= set(card.forms) and sizes <= set(card.memory)]
    known = [card for card in known if card.usual] or known
    if not known:
        return None, False
    usual = [card for card in kinds if not card.rare]
    open_form = len({card.forms for card in usual}) > 1 and not forms
    open_size = len({card.memory for card in usual if card.forms == known[0].forms}) > 1 and not sizes
    return known[0].name, open_form or open_size


def kinds(words: str) -> tuple[str, ...]:
    """Profiles of the accelerators that the words may mean: one, or all of the chip where they leave its form or memory
    open; none where no card, or more than one, is named."""
    name, is_open = card(words)
    if name is None or not is_open:
        return (name,) if name else ()
    chips = {card.chip for card in vocabulary().cards if card.name == name}
    return tuple(dict.fromkeys(card.name for card in vocabulary().cards if card.chip in chips))


def of_die(name: str, words: str) -> str:
    """The profile of one of the dies of a package where words say that a device is that; the package's else."""
    return f"{name}-die" if name in _DIES and _DIE.search(words[:LONGEST]) else name


def profile(words: str, link: str | None) -> str:
    """The profile that the words name, without what was assumed; empty where no card, or more than one, is named."""
    return card(words, link or "")[0] or ""


def _of_instance(words: str) -> str | None:
    """Words of the card in the cloud instance that a text names (`p5.48xlarge`); None where it names none."""
    text = re.sub(r"[^a-z0-9.]+", " ", words.lower())
    found = (one for one in vocabulary().instances if re.search(rf"(?<![\w.])({one.words})(?![\w.])", text))
    known = next(found, None)
    return known.name if known else None


def _chips(text: str) -> set[str]:
    return {card.chip for card in vocabulary().cards if re.search(rf"(?<![\w.])({card.chip})(?![\w.])", text)}


def _forms(text: str) -> set[str]:
    return {form for form, words in _FORMS.items() if re.search(rf"\b({words})\b", text)}
