"""What is known of pipeline schedules before any is run: formulas, when to use which, and bubbles as published."""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple


class Sizes(NamedTuple):
    """What formulas are made of."""

    p: int
    v: int
    m: int


class Known(NamedTuple):
    """Idle time of a step and most activations of a device at F = I = W = 1 on a device, and when to use it."""

    idle: str
    idle_of: Callable[[Sizes], Fraction] | None
    kept: str
    kept_of: Callable[[Sizes], Fraction] | None
    use: str
    own: bool = False
    """Whether the formula counts what is idle between the first and the last pass."""


def _of(numerator: int, denominator: int = 1) -> Fraction:
    return Fraction(numerator, denominator)


KNOWN: dict[str, Known] = {
    "gpipe": Known(
        "(p-1)(F+B)/v",
        lambda s: _of(3 * (s.p - 1), s.v),
        "m",
        lambda s: _of(s.m),
        "To compare with, or with few microbatches: every one of them is kept at once.",
    ),
    "1f1b": Known(
        "(p-1)(F+B)",
        lambda s: _of(3 * (s.p - 1)),
        "min(m, p)",
        lambda s: _of(min(s.m, s.p)),
        "The plain choice for many microbatches: the least memory of those with whole backward passes.",
    ),
    "interleaved-1f1b": Known(
        "(p-1)(F+B)/v",
        lambda s: _of(3 * (s.p - 1), s.v),
        "p + (p-1)/v",
        lambda s: s.p + _of(s.p - 1, s.v),
        "A v-th of the bubble for v times as many sends and more memory; m is a multiple of p.",
    ),
    "zb-h1": Known(
        "(p-1)(F+I-W)/v",
        lambda s: _of(s.p - 1, s.v),
        "p",
        lambda s: _of(s.p),
        "A third of the bubble of 1F1B in its memory, wherever a backward pass can be cut in two.",
    ),
    "zb-h2": Known(
        "(p-1)(F+I-2W)",
        lambda s: _of(0),
        "2p-1",
        lambda s: _of(2 * s.p - 1),
        "No own bubble, for nearly twice the activations, if the optimizer waits for no other device.",
        own=True,
    ),
    "zb-v": Known(
        "0",
        lambda s: _of(0),
        "p",
        lambda s: _of(s.p),
        "No bubble in the memory of 1F1B where F, I and W are about equal, for twice as many sends.",
        own=True,
    ),
    "v-half": Known(
        "(3p-7)/v, p even",
        lambda s: _of(3 * s.p - 7, s.v),
        "(p+2)//2",
        lambda s: _of((s.p + 2) // 2),
        "Half of the activations of 1F1B and less bubble, for twice as many sends.",
    ),
    "v-min": Known(
        "(4p-5)/v; (4p-7)/v if 3 divides p",
        lambda s: _of(4 * s.p - 5, s.v),
        "(p+4)//3",
        lambda s: _of((s.p + 4) // 3),
        "A third of the activations with about the bubble of 1F1B, if F, I and W are about equal.",
    ),
    "dualpipe": Known(
        "(p/2-1)(F+B+I-2W)",
        lambda s: _of((s.p // 2 - 1) * 2),
        "p+1",
        lambda s: _of(s.p + 1),
        "Pairs of passes that hide each other's exchanges of experts; two copies of the weights.",
    ),
    "dualpipev": Known(
        "(p-1)(F+B+I-2W)/v",
        lambda s: _of(2 * (s.p - 1), s.v),
        "p + 1/v",
        lambda s: s.p + _of(1, s.v),
        "As DualPipe, on a V of two chunks a device in place of a second copy of the weights.",
    ),
    "chimera": Known(
        "(p-2)(m/p+1)F, B = 2F",
        lambda s: (s.p - 2) * (_of(s.m, s.p) + 1),
        "p",
        lambda s: _of(s.p),
        "Two pipelines in opposite directions: two copies of the weights, whose gradients are summed.",
    ),
    "vocab-1": Known(
        "",
        None,
        "p+2",
        lambda s: _of(min(s.m, s.p + 2)),
        "As `vocab-2`, for less work and one more microbatch kept.",
    ),
    "vocab-2": Known(
        "",
        None,
        "p+1",
        lambda s: _of(min(s.m, s.p + 1)),
        "A large vocabulary, which the last stage would hold all others up with: work and parameters on all devices.",
    ),
    "interlaced": Known(
        "",
        None,
        "3p/2",
        lambda s: _of(min(s.m, 3 * s.p // 2)),
        "To compare `vocab-1` with: devices stop for every sum.",
    ),
    "hanayo": Known(
        "",
        None,
        "",
        None,
        "Waves to and fro over the devices, for about p microbatches a step; with more, others idle less.",
    ),
    "breadth-first": Known(
        "(p-1)(F+B)/v",
        lambda s: _of(3 * (s.p - 1), s.v),
        "m",
        lambda s: _of(s.m),
        "With sharded weights, which are then gathered once for all microbatches of a chunk.",
    ),
    "seq1f1b": Known(
        "(p-1)(F+B)/k, k = 4",
        lambda s: _of(3 * (s.p - 1), 4),
        "(p+k-1)/k",
        lambda s: _of(s.p + 3, 4),
        "Long sequences: k slices of each divide bubble and activations, for k times as many sends of a k-th.",
    ),
    "skippipe": Known(
        "",
        None,
        "",
        None,
        "Partial pipelines, where a model can do without some of its stages for a microbatch; `--paths` says which.",
    ),
    "forward-only": Known(
        "(p-1)F/k, k = 1",
        lambda s: _of(s.p - 1),
        "0",
        lambda s: _of(0),
        "Inference; with `--slices k` the chunks of a prompt follow each other through the pipeline.",
    ),
    "pipedream-2bw": Known(
        "0",
        lambda s: _of(0),
        "p",
        lambda s: _of(s.p),
        "If training bears gradients that are one update late: two versions of the weights in place of any bubble.",
    ),
    "auto": Known(
        "", None, "", None, "When costs are uneven or memory is bounded and none of the named ones is made for that."
    ),
}
KNOWN["depth-first"] = KNOWN["interleaved-1f1b"]._replace(use="Another name of the interleaved order.")
"""Formulas and advice by name; a schedule without is drawn all the same."""


class Measured(NamedTuple):
    """A row of tables 5 and 9 of arXiv:2401.10241."""

    model: str
    p: int
    m: int
    costs: tuple[str, str, str, str]
    """T_F, T_B (the input's half), T_W, T_comm, relative to T_F."""
    bubbles: dict[str, float]
    """Published rates by our names."""


def _measured(row: str) -> Measured:
    model, p, m, f, b, w, comm, plain, h1, h2 = row.split()
    bubbles = {"1f1b": float(plain), "zb-h1": float(h1), "zb-h2": float(h2)}
    return Measured(model, int(p), int(m), (f, b, w, comm), bubbles)


MEASURED = [
    _measured(row)
    for row in (
        "1.5B 8 24 1 0.9765 0.5041 0.0324 .2431 .1585 .1083",
        "1.5B 8 32 1 0.9769 0.5040 0.0338 .1985 .1242 .0837",
        "1.5B 8 64 1 0.9758 0.5026 0.0411 .1240 .0674 .0444",
        "6.2B 8 24 1 0.9908 0.6705 0.0177 .2347 .1323 .0698",
        "6.2B 8 32 1 0.9875 0.6553 0.0194 .1898 .1045 .0559",
        "6.2B 8 64 1 0.9895 0.6477 0.0179 .1091 .0554 .0294",
        "14.6B 16 48 1 0.9913 0.7167 0.0332 .2552 .1397 .0672",
        "14.6B 16 64 1 0.9953 0.7165 0.0335 .2082 .1088 .0516",
        "14.6B 16 128 1 0.9985 0.7160 0.0334 .1251 .0576 .0266",
        "28.3B 32 96 1 0.9797 0.7405 0.0392 .2646 .1421 .0641",
        "28.3B 32 128 1 0.9804 0.7401 0.0392 .2168 .1106 .0490",
        "28.3B 32 256 1 0.9852 0.7400 0.0442 .1352 .0594 .0257",
    )
]
"""Costs measured on A100 and the bubbles that the authors count from them; ZB-1p found the order of ZB-H1 each time."""
