"""Megatron's arguments of attention that does not see everything: windows, and scores without a value."""

import re

from simulator.interop.arguments import Arguments

SIZE, SKIPS = "window_size", "window_attn_skip_freq"
RUN = re.compile(r"\[([01])\](?:\*(\d+))?")
SINKS = {"vanilla": False, "off-by-one": False, "learnable": True}
"""Words of `--softmax-type`, and whether heads have a learned score that takes part in the softmax."""


def windows(arguments: Arguments, layers: int) -> None:
    """Write the window of attention and the layers that have one, where there are any."""
    draft, note = arguments.draft, arguments.note
    sinks = arguments.choice({word: word for word in SINKS}, "softmax_type")
    if sinks is not None and SINKS[sinks]:
        draft.put("model.attention_sinks", True, note("softmax_type"))
    words, skips = arguments.text(SIZE), (arguments.text(SKIPS) or "").replace(" ", "").strip("'\"")
    if words is None:
        return
    sides = re.fullmatch(r"[(\[]?\s*(-?\d{1,9})\s*[,\s]\s*(-?\d{1,9})\s*[)\]]?", words.strip("'\""))
    windowed = _windowed(skips, layers)
    if sides is None or int(sides[2]) > 0 or windowed is None:
        shown = SIZE if sides is None or windowed is not None else SKIPS
        message = f"--{shown.replace('_', '-')} `{arguments.text(shown)}` is not read"
        hint = "write tokens before and after, (127,0)" if shown == SIZE else "write every how many layers see all, 2"
        draft.wrong(message, hint, arguments.found[shown].line)
    elif int(sides[1]) >= 0 and windowed:
        draft.put("model.window", int(sides[1]) + 1, f"{note(SIZE)}: so many before a token, and itself")
        if windowed < layers:
            draft.put("model.windowed_layers", windowed, note(SKIPS))


def _windowed(skips: str, layers: int) -> int | None:
    """Layers with a window: all but every n-th, or those that a list names; None where it is neither."""
    if not skips:
        return layers
    if re.fullmatch(r"0*[1-9]\d{0,5}", skips):
        return layers - layers // int(skips)
    inside = skips[1:-1] if skips.startswith("(") else skips
    runs = [(kind == "1", int(times or 1)) for kind, times in RUN.findall(inside)]
    if RUN.sub("", inside).strip("+") or sum(times for _, times in runs) != layers:
        return None
    return sum(times for windowed, times in runs if windowed)
