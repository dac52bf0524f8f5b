"""What policies see and answer: nothing of it can be changed, and nothing is taken that is not there."""

from collections.abc import Iterator
from dataclasses import FrozenInstanceError

import pytest

from simulator.errors import InputError
from simulator.serving.policies import POLICIES, Decision, Policy, View
from simulator.serving.policies.vllm_v1 import VllmV1
from tests.replicas import Setting, asked, run, system

ROWS = [(0, 40, 60), (0, 30, 60), (0, 300, 5)]


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Names that a test adds are gone after it."""
    monkeypatch.setattr(POLICIES, "_things", dict(POLICIES._things))
    yield


@pytest.mark.usefixtures("named")
def test_a_view_shows_the_batch_at_each_moment() -> None:
    seen = []

    @POLICIES.add("looks")
    class Looks(VllmV1):
        def decide(self, view: View) -> Decision:
            decision = super().decide(view)
            seen.append((view.now, list(view.waiting), list(view.partial), view.decodes, view.free_blocks, decision))
            return decision

    run(asked(ROWS), Setting("looks", budget=64, blocks=200))
    (_, waiting, partial, decodes, free, decision), second, third = seen[:3]
    assert (waiting, partial, decodes, free) == ([0, 1, 2], [], 0, 200)
    assert decision == Decision([(0, 40), (1, 24)], True)
    assert second[1:4] == ([2], [1], 1) and second[5].prompts == [(1, 6), (2, 57)]
    assert third[1:4] == ([], [2], 2)
    assert [one[0] for one in seen] == sorted({one[0] for one in seen})


def test_a_view_is_read_only() -> None:
    view = system(asked(ROWS)).replicas[0].batches[0].view
    with pytest.raises(FrozenInstanceError):
        view.block_size = 1  # type: ignore[misc]
    for name in ("now", "free_blocks", "decodes"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(view, name, 1)
    for requests in (view.waiting, view.partial, view.decoding):
        assert not any(hasattr(requests, name) for name in ("append", "popleft", "add", "remove", "__setitem__"))


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize(
    ("decision", "blocks"),
    [([(0, 41)], 200), ([(0, 0)], 200), ([(2, 300)], 60), ([(0, 1), (1, 1), (2, 1)], 200)],
    ids=["more than the prompt", "nothing", "more blocks", "more slots"],
)
def test_a_policy_that_gives_away_more_than_there_is(decision: list[tuple[int, int]], blocks: int) -> None:
    @POLICIES.add("greedy")
    class Greedy(Policy):
        def decide(self, view: View) -> Decision:
            return Decision(decision)

    with pytest.raises(InputError, match="Greedy gives away more tokens, blocks or slots than there are"):
        run(asked([(0, 40, 2), (0, 30, 2), (0, 200, 2)]), Setting("greedy", blocks=blocks, most=2))
