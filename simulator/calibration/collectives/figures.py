"""The figures of a collective profile by path, and between which values a fit searches them."""

from collections.abc import Iterator

from simulator.specs.base import Figure
from simulator.specs.libraries.collectives import CollectiveProfile, Scopes

BOUNDS = {
    "launch": (1e-6, 5e-4),
    "latency": (1e-7, 2e-4),
    "efficiency": (0.005, 1.0),
    "fraction": (0.01, 12.0),
    "bytes": (1e4, 3e9),
    "wait": (1e-7, 2e-4),
    "piece_bytes": (1e4, 3e9),
    "own_piece": (0.01, 1.5),
}
OWN = "own_piece"
TAKEN_OVER = ("as ", "not used", "kept")
"""How the sources of figures begin that are another figure's, or nobody's."""


def kind_of(path: str) -> str:
    """What a figure is: the last word of its path."""
    return path.rsplit(".", 1)[-1]


def _scopes(profile: CollectiveProfile) -> Iterator[tuple[str, Scopes]]:
    """Protocols by path, and what they say of trees apart."""
    for name, protocol in profile.protocols.items():
        yield name, protocol
        if protocol.trees is not None:
            yield f"{name}.trees", protocol.trees


def _figures(profile: CollectiveProfile) -> Iterator[tuple[str, Figure[float]]]:
    """Every figure of the protocols with its path."""
    if profile.own_piece is not None:
        yield OWN, profile.own_piece
    for name, protocol in _scopes(profile):
        for scope_name, scope in (("scale_up", protocol.scale_up), ("scale_out", protocol.scale_out)):
            figures = {"launch": scope.launch, "latency": scope.latency, "efficiency": scope.efficiency}
            if scope.fill is not None:
                figures |= {"fraction": scope.fill.fraction, "bytes": scope.fill.bytes}
            if scope.piece is not None:
                figures |= {"wait": scope.piece.wait, "piece_bytes": scope.piece.bytes}
            for key, figure in figures.items():
                yield f"{name}.{scope_name}.{key}", figure


def figures_of(profile: CollectiveProfile) -> tuple[dict[str, float], set[str]]:
    """All figures of the protocols by path, `fill` left out of it, and those that are measured."""
    values, measured = {OWN: 0.0}, set()
    for path, figure in _figures(profile):
        values[path] = float(figure.value) if path == OWN else max(float(figure.value), 1e-12)
        if figure.status == "measured":
            measured.add(path)
    return values, measured


def _taken_over(source: str) -> bool:
    return source.startswith(TAKEN_OVER) or "as on " in source


def counted(profile: CollectiveProfile) -> dict[str, float]:
    """Figures that a profile has from a library's source or by reckoning, not by a fit and not from another profile."""
    return {
        path: float(figure.value)
        for path, figure in _figures(profile)
        if figure.status != "measured" and figure.value > 0 and not _taken_over(figure.source or "")
    }
