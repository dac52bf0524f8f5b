"""Matrices of bandwidths between nodes as files have them, for tests."""

from collections.abc import Sequence

Rows = Sequence[Sequence[float]]


def mpigraph(sent: Rows, received: Rows | None = None) -> str:
    """What mpiGraph prints: MiB/s that each node saw of its sends and, as rows of the receivers, of its receives."""
    many = range(len(sent))
    back = received if received is not None else [[sent[i][j] for i in many] for j in many]
    lines = ["START mpiGraph v1.5", "Procs\t2", "Send max\t14493.35", ""]
    for side, word, rows in (("Send", "to", sent), ("Recv", "from", back)):
        lines.append(side + "\t" + "".join(f"n{i}:{i}\t" for i in many))
        lines += [f"n{i}:{i} {word}\t" + "".join(f"{rate:.3f}\t" for rate in rows[i]) for i in many]
        lines.append("")
    return "\n".join(lines[:-1])


def table(unit: str, rows: Rows) -> str:
    """The same with commas, and nothing on the diagonal."""
    many = range(len(rows))
    lines = [",".join([unit, *(f"n{i}" for i in many)])]
    lines += [",".join([f"n{i}", *("" if i == j else f"{rows[i][j]:g}" for j in many)]) for i in many]
    return "\n".join(lines) + "\n"
