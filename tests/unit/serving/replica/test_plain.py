"""Which replicas run their iterations in one go."""

from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import Any

import pytest

from simulator.serving.costs.iteration import StageCost
from simulator.serving.replica import plain
from simulator.serving.replica.plain import is_plain
from tests.replicas import Price, Setting, asked, check, run, system

BESIDE = {"counts", "full", "host"}
"""What may be there: counters of routers, what takes full logs away, and who launches on several stages."""


def test_whatever_else_a_replica_has_is_asked_for() -> None:
    """A new attribute of a replica that is None where it is not used must be in `is_plain`, or be named here."""
    replica = system(asked([(0, 20, 5)]), Setting()).replicas[0]
    assert is_plain(replica.batches[0])
    blocks = [(replica.blocks, name) for name in type(replica.blocks).__mro__[1].__slots__ if name != "computed"]
    stages = [(replica.stages, name) for name in type(replica.stages).__slots__]
    holders: list[tuple[Any, str]] = [*((replica, name) for name in vars(replica)), *blocks, *stages]
    empty = [(holder, name) for holder, name in holders if getattr(holder, name) is None and name not in BESIDE]
    assert len(empty) > 10
    for holder, name in empty:
        setattr(holder, name, object())
        assert not is_plain(replica.batches[0]), name
        setattr(holder, name, None)


def test_whatever_else_a_stage_costs_is_asked_for() -> None:
    """A new field of a stage's costs that is None or nothing where it is not used must be in `StageCost.plain`, or be
    named here: rows have their own price, who sends, meets or passes on is asked of the replica, and contexts beyond
    graphs wait for the host that launches."""
    elsewhere = {"sends", "common", "exchanges", "unfilled", "graphs", "queue", "graph_context"}
    usual = {field.name: field.default for field in fields(StageCost) if field.default is not MISSING}
    assert StageCost.plain.fget(SimpleNamespace(**usual))
    for name in usual.keys() - elsewhere:
        used = tuple(1 for _ in usual[name]) if isinstance(usual[name], tuple) else 1 if usual[name] == 0 else object()
        assert not StageCost.plain.fget(SimpleNamespace(**(usual | {name: used}))), name


@pytest.mark.parametrize(
    "setting",
    [
        Setting(policy="static"),
        Setting(policy="guaranteed"),
        Setting(stages=2),
        Setting(decoders=1),
        Setting(price=Price(beside=(5, 0))),
        Setting(ahead=True),
    ],
)
def test_replicas_with_more_go_the_long_way(setting: Setting) -> None:
    assert not any(is_plain(batch) for one in system(asked([(0, 20, 5)]), setting).replicas for batch in one.batches)


def test_a_long_run_without_others_comes_back_to_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that progress is reported although nothing else is due: one answer, an iteration at a time."""
    workload = asked([(0, 20, 50)])
    whole = run(workload, Setting(), fast_forward=False)
    monkeypatch.setattr(plain, "IN_A_ROW", 8)
    pieces = run(workload, Setting(), fast_forward=False)
    assert len(pieces.log()) == 50
    assert pieces.log().tolist() == whole.log().tolist() and pieces.agenda.events == whole.agenda.events
    check(pieces)
