"""Where points of a network are drawn: in rows from the nodes up, else in groups on a circle, a torus as a grid."""

from collections import defaultdict
from dataclasses import replace
from math import acos, cos, pi, sin

from simulator.results.documents.network import Drawable, DrawnPoint

Place = tuple[float, float]

_ENDS = ("node", "device")
WIDTH = 1100.0
_MARGIN, _LEFT = 40.0, 110.0
_ROW = 150.0


def rows(document: Drawable) -> list[str]:
    """Kinds of points from the nodes up; empty where some are joined with their like."""
    points = document.points
    kinds = list(dict.fromkeys(point.kind for point in points))
    if any(points[join.start].kind == points[join.stop].kind for join in document.joins) or len(kinds) < 2:
        return []
    beside: dict[str, set[str]] = defaultdict(set)
    for join in document.joins:
        beside[points[join.start].kind].add(points[join.stop].kind)
    found = [kind for kind in kinds if kind in _ENDS]
    for kind in found:
        found += sorted(beside[kind] - set(found))
    return found if len(found) == len(kinds) else []


def layout(document: Drawable) -> tuple[list[Place], float]:
    """(x, y) of each point, and the height of the picture; its width is `WIDTH`."""
    order = rows(document)
    if order:
        return _in_rows(document.points, order), _ROW * (len(order) - 1) + 150
    if all(point.kind == "device" and point.numbers for point in document.points) and document.kind == "torus":
        return _on_grid(document.points)
    if document.kind == "multislice":
        return _side_by_side(document.points)
    return _on_circle(document), 1000.0


def _side_by_side(points: tuple[DrawnPoint, ...]) -> tuple[list[Place], float]:
    """Slices beside each other, each as a grid below where its cards meet, and what joins them above all."""
    devices = [point for point in points if point.kind == "device"]
    slices = max(point.numbers[0] for point in devices) + 1
    width, found = (WIDTH - 2 * _MARGIN) / slices, dict[DrawnPoint, Place]()
    deepest = 0.0
    for number in range(slices):
        own = [point for point in devices if point.numbers[0] == number]
        places, height = _on_grid(tuple(replace(point, numbers=point.numbers[1:]) for point in own))
        left, right = min(x for x, _ in places), max(x for x, _ in places)
        scale = min(0.86 * width / max(right - left, 1.0), 1.0)
        shift = (width - scale * (right - left)) / 2
        for point, (x, y) in zip(own, places, strict=True):
            found[point] = (_MARGIN + number * width + shift + scale * (x - left), 2 * _ROW + scale * y)
        deepest = max(deepest, 2 * _ROW + scale * height)
    for point in points:
        if point.kind == "slice":
            found[point] = (_MARGIN + (point.numbers[0] + 0.5) * width, 1.4 * _ROW)
        elif point.kind != "device":
            found[point] = (WIDTH / 2, 0.7 * _ROW)
    return [found[point] for point in points], deepest


def _in_rows(points: tuple[DrawnPoint, ...], order: list[str]) -> list[Place]:
    many = {kind: sum(point.kind == kind for point in points) for kind in order}
    seen: dict[str, int] = defaultdict(int)
    found = []
    for point in points:
        place = (seen[point.kind] + 0.5) / many[point.kind]
        seen[point.kind] += 1
        x = _LEFT + place * (WIDTH - _LEFT - _MARGIN)
        found.append((x, 80 + _ROW * (len(order) - 1 - order.index(point.kind))))
    return found


def _on_grid(points: tuple[DrawnPoint, ...]) -> tuple[list[Place], float]:
    """The last dimension to the right, the one before downwards, that before it into the depth, others side by side."""
    size = [max(point.numbers[d] for point in points) + 1 for d in range(len(points[0].numbers))]
    size = [1] * (3 - len(size)) + size
    depth = 0.42
    step = min(90.0, (WIDTH - 2 * _MARGIN) / (size[2] + depth * size[0] + 0.5))
    found = []
    for point in points:
        z, y, x = [0] * (3 - len(point.numbers)) + list(point.numbers)
        across, down = x + depth * (size[0] - 1 - z) + 0.5, y + depth * z + 0.5
        found.append((_MARGIN + step * across, 70 + step * down))
    left = (WIDTH - (max(x for x, _ in found) + min(x for x, _ in found))) / 2
    return [(x + left, y) for x, y in found], max(y for _, y in found) + 70


def _on_circle(document: Drawable) -> list[Place]:
    """Groups of switches around a circle, the switches of each around a smaller one, nodes outside of theirs."""
    points = document.points
    inner = [number for number, point in enumerate(points) if point.kind not in _ENDS or _alone(document)]
    groups: dict[int, list[int]] = defaultdict(list)
    for place, number in enumerate(inner):
        numbers = points[number].numbers
        groups[numbers[0] if len(numbers) > 1 else place].append(number)
    centre, radius = (WIDTH / 2, 515.0), 300.0
    small = min(95.0, 2.2 * radius / max(len(groups), 2)) if any(len(some) > 1 for some in groups.values()) else 0.0
    found: dict[int, Place] = {}
    for turn, some in enumerate(groups.values()):
        angle = 2 * pi * turn / len(groups) - pi / 2
        x, y = centre[0] + radius * cos(angle), centre[1] + radius * sin(angle)
        for number, one in enumerate(some):
            own = angle + 2 * pi * (number + 0.5) / len(some)
            found[one] = (x + small * cos(own), y + small * sin(own)) if len(some) > 1 else (x, y)
    homes: dict[int, list[int]] = defaultdict(list)
    for join in document.joins:
        if join.start not in found and join.stop in found:
            homes[join.stop].append(join.start)
    for switch, nodes in homes.items():
        x, y = found[switch]
        away = max(((x - centre[0]) ** 2 + (y - centre[1]) ** 2) ** 0.5, 1.0)
        angle, spread = _angle(x - centre[0], y - centre[1], away), min(0.9, 1.8 / len(nodes))
        for number, node in enumerate(nodes):
            own = angle + spread * (number - (len(nodes) - 1) / 2)
            found.setdefault(node, (x + 60 * cos(own), y + 60 * sin(own)))
    return [found.get(number, centre) for number in range(len(points))]


def _alone(document: Drawable) -> bool:
    return all(point.kind in _ENDS for point in document.points)


def _angle(x: float, y: float, away: float) -> float:
    return acos(max(-1.0, min(1.0, x / away))) * (1 if y >= 0 else -1)
