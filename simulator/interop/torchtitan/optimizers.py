"""The optimizer by torchtitan's `[optimizer]` section."""

from simulator.errors import nearest
from simulator.interop.draft import Draft, printable

NAMES = {"Adam": "adam", "AdamW": "adamw", "Muon": "muon", "Lion": "lion", "SGD": "sgd"}
"""Ours by torchtitan's names."""


def optimizer(draft: Draft, name: object, early: bool, note: str, line: int | None) -> None:
    """Write the optimizer that a job names, or the usual one where it works `early`, inside the backward pass."""
    if name is None and not early:
        return
    name = name or "AdamW"
    if name not in NAMES:
        shown = printable(str(name)[:40])
        draft.wrong(f"optimizer.name `{shown}` is not known", nearest(str(name), NAMES), line)
        return
    draft.put("training.optimizer.name", NAMES[str(name)], note)
    draft.put("training.optimizer.in_backward", early or None, "optimizer.early_step_in_backward")
