"""The optimizer by torchtitan's `[optimizer]` section."""

from simulator.errors import nearest
from simulator.interop.draft import Draft, printable

NAMES = {"Adam": "adam", "AdamW": "adamw", "Muon": "muon", "Lion": "lion", "SGD": "sgd"}
"""Ours by torchtitan's names."""


def optimizer(draft: Draft, name: object, note: str, line: int | None) -> None:
    """Write the optimizer that a job names."""
    if name is None:
        return
    if name not in NAMES:
        shown = printable(str(name)[:40])
        draft.wrong(f"optimizer.name `{shown}` is not known", nearest(str(name), NAMES), line)
        return
    draft.put("training.optimizer", NAMES[str(name)], note)
