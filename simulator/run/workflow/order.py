"""What a workflow's stages wait for: names that are there, and no circle within an iteration."""

from collections.abc import Iterator, Sequence

from simulator.errors import InputError, Problem, nearest
from simulator.specs.workflow import AnyStage, HandOverStage, ServingStage, TrainingStage, Workflow


def check(workflow: Workflow) -> None:
    """InputError for stages and pools that are not there, for what needs devices and has none, and for a circle."""
    problems = list(_problems(workflow))
    if problems:
        raise InputError(*problems)
    if circle := circle_of(workflow.stages):
        chain = " -> ".join(circle)
        hint = "a stage cannot wait for itself: take one of them away, or write `{stage: ..., lag: 1}`"
        raise InputError(Problem(f"stages wait for each other in a circle: {chain}", path="stages", hint=hint))


def _problems(workflow: Workflow) -> Iterator[Problem]:
    names = [stage.name for stage in workflow.stages]
    for i, stage in enumerate(workflow.stages):
        for wait in stage.waits:
            if wait.stage not in names:
                yield Problem(
                    f"there is no stage `{wait.stage}`", path=f"stages.{i}.after", hint=nearest(wait.stage, names)
                )
        for pool in stage.pools:
            if pool not in workflow.pools:
                hint = nearest(pool, workflow.pools) or "list it under `pools`"
                yield Problem(f"there is no pool `{pool}`", path=f"stages.{i}.on", hint=hint)
        if isinstance(stage, TrainingStage | ServingStage) and not stage.pools:
            hint = f"name a pool: {', '.join(workflow.pools) or 'list some under `pools`'}"
            yield Problem(f"stage `{stage.name}` has no devices", path=f"stages.{i}.on", hint=hint)
        if isinstance(stage, HandOverStage):
            yield from _ends(workflow, i, stage)


def _ends(workflow: Workflow, number: int, stage: HandOverStage) -> Iterator[Problem]:
    by_name = {one.name: one for one in workflow.stages}
    for key in ("of", "to"):
        name = getattr(stage.hands_over, key)
        path, wanted = (
            f"stages.{number}.hands_over.{key}",
            TrainingStage if key == "of" else TrainingStage | ServingStage,
        )
        if name not in by_name:
            yield Problem(f"there is no stage `{name}`", path=path, hint=nearest(name, by_name))
        elif not isinstance(by_name[name], wanted):
            what = "trains" if key == "of" else "trains or generates"
            yield Problem(f"`{name}` has no weights: it is no stage that {what}", path=path, hint="name another stage")


def circle_of(stages: Sequence[AnyStage]) -> list[str]:
    """Names of stages that wait for each other within an iteration, the first one again at the end; none where there
    is no circle."""
    before = {stage.name: [wait.stage for wait in stage.waits if not wait.lag] for stage in stages}
    done: set[str] = set()
    for first in before:
        path: list[str] = []
        left = [(first, iter(before[first]))] if first not in done else []
        path += [name for name, _ in left]
        while left:
            name, rest = left[-1]
            following = next(rest, None)
            if following is None:
                done.add(name)
                left.pop()
                path.pop()
            elif following in path:
                return [*path[path.index(following) :], following][::-1]
            elif following not in done:
                left.append((following, iter(before[following])))
                path.append(following)
    return []
