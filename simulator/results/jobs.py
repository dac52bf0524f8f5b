"""One of several jobs of a Result, and what is said of several at once."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from simulator.errors import InputError, Problem, nearest
from simulator.results.result import Meeting, Result


def check_job(name: str, names: Iterable[str]) -> None:
    """InputError where none of the jobs has that name."""
    known = list(names)
    if not known:
        raise InputError(Problem(f"there is no job `{name}`: the scenario has no `jobs`", hint="leave it out"))
    if name not in known:
        raise InputError(Problem(f"there is no job `{name}`", hint=nearest(name, known)))


def of_job(result: Result, name: str) -> Result:
    """What one of several jobs did beside the others, as a Result of its kind; InputError where there is none."""
    check_job(name, [job.name for job in result.jobs])
    found = next(job.result for job in result.jobs if job.name == name)
    others = len(result.jobs) - 1
    beside = f", beside {others} other{'' if others == 1 else 's'}" if others else ""
    return replace(found, name=f"{result.name}: {name}{beside}")


def shared_by(lines: Mapping[str, Iterable[str]]) -> dict[tuple[str, ...], list[str]]:
    """Sentences of each of several jobs by those that have them, each once; those of most jobs first."""
    having: dict[str, list[str]] = {}
    for name, said in lines.items():
        for line in dict.fromkeys(said):
            having.setdefault(line, []).append(name)
    found: dict[tuple[str, ...], list[str]] = {}
    for line, names in having.items():
        found.setdefault(tuple(names), []).append(line)
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def of_all(result: Result, kind: str) -> tuple[str, ...]:
    """The `warnings` or `assumptions` of a run of several jobs that are of none of them alone."""
    own = {f"{job.name}: {line}" for job in result.jobs for line in getattr(job.result, kind)}
    return tuple(line for line in getattr(result, kind) if line not in own)


def at_once(meeting: Meeting) -> dict[str, float]:
    """Bytes per second that each job had of a link while several sent, on average."""
    seconds = meeting.together_s
    return {name: amount / seconds if seconds > 0 else 0.0 for name, amount in meeting.at_once.items()}
