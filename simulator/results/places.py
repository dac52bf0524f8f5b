"""Where a job lies, in words."""

from collections.abc import Callable, Sequence

MOST = 12
"""Pieces of a list of nodes that are named."""


def place_in_words(devices: Sequence[int], node_of: Callable[[int], int]) -> str:
    """`16 devices of nodes 0 and 2`, of devices by number; `node_of` tells the node of one."""
    nodes = sorted({node_of(device) for device in devices})
    word = "node" if len(nodes) == 1 else "nodes"
    return f"{len(devices):,} device{'' if len(devices) == 1 else 's'} of {word} {listed(nodes)}"


def listed(numbers: Sequence[int]) -> str:
    """`0 to 3, 8` of ascending numbers."""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    pieces = ([f"{row[0]} to {row[-1]}"] if len(row) > 2 else list(map(str, row)) for row in rows)
    shown = [piece for row in pieces for piece in row]
    return ", ".join(shown if len(shown) <= MOST else [*shown[: MOST - 1], f"... {shown[-1]}"])
