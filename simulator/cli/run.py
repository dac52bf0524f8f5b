"""Simulate a scenario and show what it takes, what holds it back and how far it is from published figures.

A workflow (a file with `stages`) is run too and gets its own page, as from `clustersim workflow`.

Overrides change values of the scenario: key.path=value sets one that is there, +key.path=value adds one, ~key.path
takes one away.
"""

import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, cast

from simulator.cli import console
from simulator.cli.options import offer_quiet, offer_reports
from simulator.errors import InfeasibleError, InputError, Problem

if TYPE_CHECKING:
    from simulator.results import Result
    from simulator.run.long.kept import Kept
    from simulator.specs.resolve import Loaded
    from simulator.specs.scenario import AnyScenario, Scenario
    from simulator.specs.workflow import Workflow

SUMMARY = "simulate a scenario"
EXAMPLES = (
    "scenarios/quickstart.yaml",
    "scenarios/quickstart.yaml training.parallel.tp=4 training.micro_batch=2",
    "scenarios/quickstart.yaml --json - --quiet | jq .metrics.mfu",
    "scenarios/quickstart.yaml --sensitivities   # what to change?",
    "scenarios/serving/quickstart.yaml --detail requests.json",
    "scenarios/jobs/training-beside-serving.yaml --job service",
    "ppo-70b iterations=5   # a workflow",
    "scenarios/quickstart.yaml --trace step.json.gz   # open it at https://ui.perfetto.dev",
)

_SERVING = "leave it out, or run a scenario with `serving:` and `requests:`"
_OF_SCENARIOS = (
    "trace",
    "kineto",
    "detail",
    "plots",
    "job",
    "save",
    "fold",
    "executor",
    "leap",
    "sensitivities",
    "resume",
)
"""Options that have no meaning for a workflow."""
_FILES = ("--json", "--trace", "--detail", "--html", "--save")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `run`."""
    parser.add_argument("file", metavar="FILE", help="scenario or workflow (YAML)")
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="changes of the scenario")
    parser.add_argument(
        "--json", metavar="FILE", help="write metrics, breakdown and provenance; `-` prints them and nothing else"
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="write a trace for Perfetto, compressed if the name ends with .gz"
    )
    parser.add_argument(
        "--kineto",
        metavar="FOLDER",
        help="of training: write rank-RANK.json of each kind of rank, as PyTorch's profiler",
    )
    parser.add_argument(
        "--detail", metavar="FILE", help="of serving: write single requests in the form of `vllm bench serve`"
    )
    offer_reports(parser)
    parser.add_argument(
        "--job", metavar="NAME", help="of several jobs: show and write what this one did beside the others"
    )
    parser.add_argument("--save", metavar="FILE", help="write the whole result, to be read again")
    fold = parser.add_mutually_exclusive_group()
    fold.add_argument(
        "--fold",
        choices=("auto", "exact", "tiers", "none"),
        help="of training: how equal ranks are merged (the scenario's if left out)",
    )
    fold.add_argument(
        "--no-fold", dest="fold", action="store_const", const="none", help="simulate every rank: --fold none"
    )
    parser.add_argument(
        "--executor",
        choices=("simpy", "max-plus"),
        help="of training: events (default), or the max-plus sweep where it is exact",
    )
    parser.add_argument(
        "--no-leap", dest="leap", action="store_const", const=False, help="of serving: run every iteration on its own"
    )
    parser.add_argument(
        "--resume", metavar="FILE", help="of `training.run`: keep what is simulated in FILE, and go on from it"
    )
    parser.add_argument(
        "--sensitivities", action="store_true", help="simulate again on slightly better machines: what to change?"
    )
    offer_quiet(parser)


def execute(arguments: Namespace) -> int:
    """Load, simulate, write, show."""
    from simulator.specs.resolve import load_run
    from simulator.specs.scenario import is_workflow

    loaded = load_run(arguments.file, arguments.overrides)
    if is_workflow(loaded.scenario):
        return _run_workflow(loaded.scenario, arguments)
    return _run_scenario(cast("Loaded[AnyScenario]", loaded), arguments)


def _run_workflow(workflow: "Workflow", arguments: Namespace) -> int:
    """A workflow as `clustersim workflow` runs it; InputError for options that only scenarios have."""
    from simulator.cli import workflow as command

    unset = {"sensitivities": False}
    given = [name for name in _OF_SCENARIOS if getattr(arguments, name) is not unset.get(name)]
    if given:
        option = "--no-leap" if given[0] == "leap" else f"--{given[0]}"
        message = f"{option} has no meaning for a workflow"
        raise InputError(Problem(message, hint="leave it out; --json FILE and --html FILE write what a workflow did"))
    return command.run(workflow, arguments)


def _run_scenario(loaded: "Loaded[AnyScenario]", arguments: Namespace) -> int:
    """A scenario: simulate, write, show."""
    from simulator.cli import outputs

    files = {name: getattr(arguments, name.strip("-")) for name in _FILES}
    outputs.check(files, inputs=(arguments.file,), folders={"--plots": arguments.plots, "--kineto": arguments.kineto})
    _check_kind(loaded.scenario, arguments)
    from simulator.cli.progress import progress
    from simulator.results.jobs import of_job
    from simulator.results.result import overridden
    from simulator.run.dispatch import simulate

    begin = perf_counter()
    with progress(f"simulating {loaded.scenario.name}", arguments.quiet), loaded.placed():
        chosen = {"fold": arguments.fold, "executor": arguments.executor, "leap": arguments.leap}
        result = simulate(loaded.scenario, **chosen, kept=_kept(loaded.scenario, arguments))
        if arguments.sensitivities:
            result = _with_sensitivities(result, cast("Scenario", loaded.scenario), arguments)
    elapsed_s = perf_counter() - begin
    if arguments.job is not None:
        result = of_job(result, arguments.job)
    result = overridden(result, arguments.overrides)
    with progress("writing", arguments.quiet):
        _write(result, arguments)
    _show(result, arguments, elapsed_s)
    return 0 if result.feasible else InfeasibleError.exit_code


def _kept(scenario: "AnyScenario", arguments: Namespace) -> "Kept | None":
    """What is kept of a run of weeks; InputError for a scenario without one."""
    if (path := arguments.resume) is None:
        return None
    from simulator.cli import outputs
    from simulator.run.long.kept import Kept
    from simulator.study.fingerprint import key

    outputs.check_named("--resume", path)
    if getattr(getattr(scenario, "training", None), "run", None) is None:
        message = "--resume goes on with a run of weeks, and this scenario has no `training.run`"
        raise InputError(Problem(message, hint="leave it out; `sweep` keeps what it has simulated by itself"))
    return Kept(path, f"{key(scenario)} {arguments.fold} {arguments.executor}")


def _check_kind(scenario: "AnyScenario", arguments: Namespace) -> None:
    """InputError, before the work, for an option that has no meaning for this kind of scenario."""
    from simulator.results.jobs import check_job
    from simulator.run.kinds import kind_of

    kind = kind_of(scenario)
    if arguments.job is not None:
        jobs = kind.jobs(scenario)
        check_job(arguments.job, jobs)
        kind = jobs[arguments.job]
    if arguments.detail and not kind.requests:
        message = f"--detail writes single requests, and this scenario {kind.does}"
        served = [name for name, one in kind.jobs(scenario).items() if one.requests]
        instead = f"name a job that serves: --job {shlex.quote(served[0])}" if served else _SERVING
        raise InputError(Problem(message, hint=instead))
    if arguments.kineto and not (kind.better and arguments.job is None):
        message = f"--kineto writes traces of ranks that train, and this scenario {kind_of(scenario).does}"
        raise InputError(Problem(message, hint="--trace FILE draws any run"))
    if arguments.sensitivities and (not kind.better or arguments.job is not None):
        message = f"--sensitivities is for scenarios that train, and this one {kind_of(scenario).does}"
        raise InputError(Problem(message, hint="change the machine with overrides and run again"))


def _with_sensitivities(result: "Result", scenario: "Scenario", arguments: Namespace) -> "Result":
    """The result with what better parts of the machine would give."""
    from simulator.study.sensitivity import sensitivities

    return replace(result, sensitivities=sensitivities(scenario, fold=arguments.fold))


def _write(result: "Result", arguments: Namespace) -> None:
    """The files that were asked for; each appears whole or not at all."""
    from simulator.results import save

    if arguments.save:
        save(result, arguments.save)
    if arguments.trace:
        from simulator.report.export.trace import write_trace

        write_trace(result, arguments.trace)
    if arguments.kineto:
        _write_kineto(result, arguments.kineto)
    if arguments.detail and result.service is not None:  # there is none of a model that does not fit
        from simulator.report.export.vllm_form import write_vllm_form

        write_vllm_form(result, arguments.detail)
    if arguments.html:
        from simulator.report.result.html import document
        from simulator.results.writing import write

        write(arguments.html, document(result))
    if arguments.plots:
        from simulator.report.result.plots import save_plots

        save_plots(result, arguments.plots)


def _write_kineto(result: "Result", folder: str) -> None:
    """A trace of each kind of rank that trains."""
    from pathlib import Path

    from simulator.interop.executions import kineto
    from simulator.interop.executions.of_result import executions
    from simulator.results.writing import write

    world = sum(kind.ranks for kind in result.classes)
    for execution, times in executions(result):
        write(Path(folder) / execution.name, kineto.written(execution, times, world))


def _show(result: "Result", arguments: Namespace, elapsed_s: float) -> None:
    """The JSON form where it was asked for; the page, unless that was printed in its place."""
    from simulator.cli import outputs
    from simulator.results import to_json

    printed = arguments.json and outputs.as_json(to_json(result), arguments.json)
    if not printed and not arguments.quiet:
        from simulator.report.result.page import page

        console.write(page(result, width=console.width(), colour=console.coloured(), elapsed_s=elapsed_s))
