"""Accelerators by the words of published rows: chip, form and memory, each as whole words, in any order and spelling.

A row names a chip in its own way (`H100-80GB`, `NVIDIA H100 80GB HBM3`, `H100 SXM5`). What a row says must all agree
with the device that is found: another form (PCIe, NVL), another memory or a second chip is refused, never ignored.
"""

import re
from typing import NamedTuple


class Card(NamedTuple):
    """One kind of card that rows name."""

    chip: str
    """Pattern of the chip's name as whole words of the text."""
    forms: tuple[str, ...]
    """Forms that it comes in, of `_FORMS`; the empty one where the name says enough."""
    memory: tuple[int, ...]
    """Sizes in GB that stand for it."""
    name: str
    """Name of its accelerator profile."""
    usual: bool = True
    """Whether it is meant where the row names neither form nor memory."""


CARDS = (
    Card(r"a100", ("", "sxm"), (80,), "a100-sxm-80gb"),
    Card(r"a100", ("", "sxm"), (40,), "a100-sxm-40gb", usual=False),
    Card(r"a100", ("pcie",), (80,), "a100-pcie-80gb"),
    Card(r"a800", ("", "sxm"), (80,), "a800-sxm"),
    Card(r"h100", ("", "sxm"), (80,), "h100-sxm"),
    Card(r"h100", ("pcie",), (80,), "h100-pcie"),
    Card(r"h800", ("", "sxm"), (80,), "h800-sxm"),
    Card(r"h200", ("", "sxm"), (141, 140, 144), "h200-sxm"),
    Card(r"gh200", ("", "sxm"), (96,), "gh200"),
    Card(r"gb200( nvl ?\d+)?", ("", "sxm"), (192, 186, 189, 185), "gb200"),
    Card(r"b200", ("", "sxm"), (192, 180, 183, 186), "b200"),
    Card(r"b300", ("", "sxm"), (288, 270, 268, 279), "b300"),
    Card(r"v100", ("", "sxm"), (32,), "v100-sxm-32gb"),
    Card(r"l40s", ("", "pcie"), (48,), "l40s"),
    Card(r"a40", ("", "pcie"), (48,), "a40"),
    Card(r"(rtx )?a6000", ("", "pcie"), (48,), "a6000"),
    Card(r"(rtx )?pro 6000", ("", "pcie"), (96,), "rtx-pro-6000"),
    Card(r"(rtx )?6000 ada", ("", "pcie"), (48,), "rtx-6000-ada"),
    Card(r"(rtx )?5000 ada", ("", "pcie"), (32,), "rtx-5000-ada"),
    Card(r"(rtx )?4000 ada", ("", "pcie"), (20,), "rtx-4000-ada"),
    Card(r"(rtx )?4090", ("", "pcie"), (24,), "rtx-4090"),
    Card(r"(rtx )?4070 ti", ("", "pcie"), (12,), "rtx-4070-ti"),
    Card(r"(rtx )?3090", ("", "pcie"), (24,), "rtx-3090"),
    Card(r"(rtx )?3080 ti", ("", "pcie"), (12,), "rtx-3080-ti"),
    Card(r"(rtx )?3070", ("", "pcie"), (8,), "rtx-3070"),
    Card(r"mi300x", ("", "sxm"), (192,), "mi300x"),
    Card(r"mi250x gcd", ("", "sxm"), (64,), "mi250x-gcd"),
    Card(r"arc pro b60", ("", "pcie"), (24,), "arc-b60"),
    Card(r"m2 ultra", ("",), (192, 128, 64), "m2-ultra"),
    Card(r"m1 max", ("",), (64, 32), "m1-max"),
    Card(r"m4", ("",), (16, 24, 32), "m4"),
    Card(r"kv260", ("",), (4,), "kv260-tellme"),
    Card(r"(tpu )?v4", ("",), (32,), "tpu-v4"),
    Card(r"(tpu )?v5e|tpu v5 ?lite", ("",), (16,), "tpu-v5e"),
    Card(r"(tpu )?v5p", ("",), (95, 96), "tpu-v5p"),
    Card(r"(tpu )?v6e|trillium", ("",), (32,), "tpu-v6e"),
    Card(r"gaudi ?2", ("",), (96,), "gaudi2"),
    Card(r"gaudi ?3", ("",), (128,), "gaudi3"),
)
"""Cards that rows name. Sizes beside the nominal ones are what tools show of them (186 GB of a GB200)."""

_FORMS = {"sxm": r"sxm\d?|hgx|dgx|oam|nvswitch|nvlink\w*|hbm3", "pcie": r"pcie|pci e", "nvl": r"nvl(?! ?\d\d)"}
"""Forms by their words. Of the cards that come in several forms those with HBM3 are modules (the PCIe ones: HBM2e)."""
_OTHER = (
    r"mobile|laptop|max q|4090 d|super|mig|1g|2g|3g|4g|7g|h20|h100 nvl|mi250x(?! gcd)|gb300|h100 (64|96)gb|simulated"
)
"""Words that name something else than the cards of the table."""


def plain(words: str) -> str:
    """Small letters, with single spaces where words were joined."""
    apart = re.sub(r"[^a-z0-9.+=%]+", " ", words.lower())
    return re.sub(r"(?<![\w.])(\d+) ?(g|gb|gib)\b", r"\1gb", apart).strip()


def card(words: str, link: str = "") -> tuple[str | None, bool]:
    """(profile of the accelerator that the words name, whether its form or memory had to be assumed).

    `link` are words of how cards are joined, which may say the form. None where no card, or more than one, is named.
    """
    inner = re.search(r"\(([^()]*)\)", words)  # the card in a host: (RTX 4090)
    if inner and _chips(plain(inner[1])):
        words = inner[1]
    text = re.sub(r"^\d+ ?x ?", "", plain(words))
    chips, forms = _chips(text), _forms(text) or _forms(plain(link))
    if len(chips) != 1 or re.search(rf"\b({_OTHER})\b", text):
        return None, False
    sizes = {int(size) for size in re.findall(r"(?<![\w.])(\d+)gb\b", text)}
    kinds = [card for card in CARDS if card.chip in chips]
    known = [card for card in kinds if forms <= set(card.forms) and sizes <= set(card.memory)]
    known = [card for card in known if card.usual] or known
    if not known:
        return None, False
    open_form = len({card.forms for card in kinds}) > 1 and not forms
    open_size = len({card.memory for card in kinds if card.forms == known[0].forms}) > 1 and not sizes
    return known[0].name, open_form or open_size


def _chips(text: str) -> set[str]:
    return {card.chip for card in CARDS if re.search(rf"(?<![\w.])({card.chip})(?![\w.])", text)}


def _forms(text: str) -> set[str]:
    return {form for form, words in _FORMS.items() if re.search(rf"\b({words})\b", text)}
