"""Several models behind one address: the pool that each request goes to, and answers that are asked again of another.

A request has a difficulty class. A router sends it to a pool by the shares of that class; in a cascade an answer that
will not do is thrown away when it is complete and judged, and the next pool reads the prompt and answers from its
beginning. That is a second attempt of one request: the ledger has it once, arrived when it first came, and its latency
ends with the answer that reaches the client. All is drawn before anything runs, so that it does not depend on the order
of events. Model: docs/models/model-routing.md.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simulator import units
from simulator.errors import InputError, Problem, nearest
from simulator.random import stream
from simulator.serving.fleet.router import Choice, Router
from simulator.serving.replica.failing import start_again
from simulator.serving.replica.ledger import Ledger
from simulator.serving.replica.replica import Replica
from simulator.serving.workload.generate import Workload
from simulator.specs.distributions import Integers
from simulator.specs.model_routing import Difficulty, ModelRouting
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Serving

PATH = "serving.models"
LAST = -1
"""Nothing follows an answer."""
COLUMNS = ("request", "pool", "sent", "scheduled", "end", "prompt", "output", "kept")
"""Of an attempt: request and pool by number; ticks when it was sent, first worked on and judged; tokens; whether its
answer reached the client."""


@dataclass(slots=True, eq=False)
class ModelChoice:
    """Which pool has a request now, and what became of its answers."""

    ledger: Ledger
    homes: Sequence[int]
    """Pool of each replica."""
    kind: Integers
    """Difficulty class of each request."""
    target: list[int]
    """Pool that each request goes to next, or is at."""
    following: Sequence[int]
    """Pool after each in the cascade; LAST for none."""
    accepted: Sequence[Sequence[bool]]
    """By pool: whether its answer to each request would do; empty where all do."""
    factors: Sequence[tuple[float, float]]
    """On tokens of prompts and answers, by pool."""
    judge: int
    """Ticks of judging an answer that another one could follow."""
    asked: tuple[Sequence[int], Sequence[int]]
    """Tokens of prompts and answers as requests have them."""
    choices: list[Choice] = field(default_factory=list)
    """What the router knows of each pool."""
    judging: int = 0
    """Answers that are judged now."""
    rows: "array[int]" = field(default_factory=lambda: array("q"))
    """Attempts that are over, one after the other, as `COLUMNS`."""
    _sent: dict[int, int] = field(default_factory=dict)
    """When requests were asked again."""
    _open: list[list[Replica]] = field(default_factory=list)
    _version: int = -1

    def open(self, entrances: Sequence[Replica], request: int, version: int) -> Sequence[Replica]:
        """Replicas of a request's pool among those that take requests, of which `version` changes with them."""
        if version != self._version or not self._open:
            self._version = version
            self._open = [[one for one in entrances if self.homes[one.number] == pool] for pool in self.pools]
        return self._open[self.target[request]]

    @property
    def pools(self) -> range:
        """Pools by number."""
        return range(len(self.following))

    def choose(self, here: Sequence[Replica], request: int, router: Router, now: int, version: int) -> Replica:
        """One of the replicas of its pool."""
        if len(here) == 1:
            return here[0]
        own = self.choices[self.target[request]]
        own.now, own.version = now, version
        return here[router(here, request, own)]

    def judged(self, request: int) -> int:
        """Ticks until it is known what becomes of an answer."""
        return self.judge if self.following[self.target[request]] != LAST else 0

    def refused(self, request: int) -> bool:
        """Whether an answer will not do."""
        own = self.accepted[self.target[request]]
        return len(own) > 0 and not own[request]

    def note(self, request: int, now: int, kept: bool) -> None:
        """Write down an attempt that is over."""
        ledger = self.ledger
        sent = self._sent.pop(request, ledger.arrival[request])
        moments = sent, ledger.scheduled[request], now
        tokens = ledger.prompt[request], ledger.done[request]
        self.rows.extend((request, self.target[request], *moments, *tokens, int(kept)))

    def ask_again(self, request: int, now: int, in_flight: int) -> None:
        """The request as if nothing had been done for it, to be sent to the next pool."""
        ledger = self.ledger
        start_again(ledger, request)
        ledger.finish[request], ledger.status[request], ledger.replica[request] = -1, in_flight, -1
        self._sent[request] = now
        self.target[request] = self.following[self.target[request]]
        self.address(request)

    def address(self, request: int) -> None:
        """The tokens that a request has at its pool."""
        factors, ledger = self.factors[self.target[request]], self.ledger
        prompt, output = (
            max(round(tokens[request] * factor), 1) for tokens, factor in zip(self.asked, factors, strict=True)
        )
        ledger.prompt[request], ledger.output[request] = prompt, output
        ledger.remaining_tokens[request] = prompt


def model_choice(scenario: ServingScenario, homes: Sequence[int], workload: Workload, ledger: Ledger) -> ModelChoice:
    """What sends requests to pools; `homes` are the pools of replicas. InputError for pools that do not exist."""
    serving, seed = scenario.serving, scenario.seed
    spec = serving.models
    assert spec is not None
    names = [pool.name for pool in serving.pools]
    check(scenario, names)
    kind = _kinds(spec, workload, seed)
    position = {name: number for number, name in enumerate(names)}
    following = [LAST] * len(names)
    for before, after in zip(spec.cascade, spec.cascade[1:], strict=False):
        following[position[before]] = position[after]
    count = len(workload)
    target = _first(spec, position, kind, stream(seed, "models sent").random(count))
    accepted = [
        _accepted(spec, name, kind, lambda name=name: stream(seed, f"answers of {name}").random(count))  # type: ignore[misc]
        for name in names
    ]
    pipelines = [spec.pipelines.get(name) for name in names]
    factors = [(1.0, 1.0) if one is None else (one.prompt, one.output) for one in pipelines]
    asked = workload.prompt.tolist(), workload.output.tolist()
    made = ModelChoice(ledger, homes, kind, target, following, accepted, factors, units.to_ticks(spec.judge), asked)
    if any(one != (1.0, 1.0) for one in factors):
        for request in range(count):
            made.address(request)
    return made


def equip(choice: ModelChoice, common: Choice) -> None:
    """Give each pool a memory of its own for the router; `common` knows conversations and prefixes."""
    choice.choices = [replace(common, outstanding=None, homes={}) for _ in choice.pools]


def _kinds(spec: ModelRouting, workload: Workload, seed: int) -> Integers:
    """Difficulty class of each request; all turns of a conversation have one."""
    bounds = np.cumsum([one.share for one in spec.classes[:-1]])
    count = len(workload)
    kind = np.searchsorted(bounds, stream(seed, "difficulties").random(count), side="right").astype(np.int64)
    if workload.session is not None:
        talks = workload.session >= 0
        kind[talks] = kind[workload.session[talks] % count]
    return kind


def _first(spec: ModelRouting, position: dict[str, int], kind: Integers, drawn: np.ndarray) -> list[int]:
    """Pool that each request is sent to first."""
    found = np.zeros(len(kind), np.int64)
    for number, one in enumerate(spec.classes):
        sent = one.sent or {spec.cascade[0]: 1.0}
        pools = np.array([position[name] for name in sent], np.int64)
        mine = kind == number
        bounds = np.cumsum(list(sent.values())[:-1])
        found[mine] = pools[np.searchsorted(bounds, drawn[mine], side="right")]
    return [int(pool) for pool in found]


def _accepted(spec: ModelRouting, name: str, kind: Integers, draw: Callable[[], np.ndarray]) -> list[bool]:
    """Whether the answer of a pool to each request would do; empty where all would."""
    shares = np.array([one.accepted.get(name, 1.0) for one in spec.classes])
    if (shares >= 1).all():
        return []
    return [bool(one) for one in draw() < shares[kind]]


def check(scenario: ServingScenario, names: Sequence[str]) -> None:
    """InputError for pools that are not there, and for what cannot stand beside several models."""
    serving, spec = scenario.serving, scenario.serving.models
    assert spec is not None
    for i, name in enumerate(spec.cascade):
        _known(name, names, f"{PATH}.cascade.{i}")
    for name in spec.pipelines:
        _known(name, names, f"{PATH}.pipelines.{name}")
    for i, one in enumerate(spec.classes):
        for key, table in _tables(one):
            for name in table:
                _known(name, names, f"{PATH}.classes.{i}.{key}.{name}")
    beside = _beside(serving) | {
        "prompts with images": scenario.requests.images is not None or scenario.model.vision is not None
    }
    if spec.pipelines:
        requests = scenario.requests
        beside |= {
            "prefixes of prompts whose tokens `pipelines` change": requests.shared_prefix is not None
            or requests.sessions is not None
            or requests.trace is not None,
            "retrieved chunks of prompts whose tokens `pipelines` change": requests.chunks is not None,
        }
    for what in (what for what, there in beside.items() if there):
        message = f"routing over models beside {what} is not simulated"
        raise InputError(Problem(message, path=PATH, hint="leave one of them out"))


def _tables(one: Difficulty) -> tuple[tuple[str, dict[str, float]], ...]:
    return ("sent", one.sent), ("accepted", one.accepted), ("accuracy", one.accuracy)


def _beside(serving: Serving) -> dict[str, bool]:
    return {
        "adapters": serving.adapters is not None,
        "training of an adapter": serving.finetuning is not None,
        "attention on other devices": serving.remote_attention is not None,
        "weights that are loaded in every iteration": serving.weights is not None,
    }


def _known(name: str, names: Sequence[str], path: str) -> None:
    if name not in names:
        listed = ", ".join(f"`{each}`" for each in names)
        hint = nearest(name, names) or f"there is {listed}"
        raise InputError(Problem(f"there is no pool `{name[:40]}`", path=path, hint=hint))
