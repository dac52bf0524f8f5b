"""Simulate a workflow: stages that depend on each other and share devices, iteration after iteration.

FILE names a cluster, pools of its devices and stages that train, generate, hand weights over or take a known time;
`on` says which pools a stage has to itself, `after` what it waits for. Reinforcement learning with its rollouts and
models is one (workloads/workflows has some), distillation and evaluation beside training are others. Exit code 4 if a
stage does not fit its devices.
"""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.options import offer_quiet

if TYPE_CHECKING:
    from simulator.specs.workflow import Workflow

SUMMARY = "simulate stages that depend on each other (RLHF, distillation)"
EXAMPLES = (
    "ppo-70b",
    "grpo-7b-split --html workflow.html",
    "ppo-70b stages.0.enough=0.8 iterations=5 --json -",
)
INFEASIBLE = 4


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `workflow`."""
    parser.add_argument("file", metavar="FILE", help="workflow: a file, or a name of workloads/workflows")
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="values to change, as iterations=5")
    parser.add_argument(
        "--json", metavar="FILE", help="write figures, stages and runs; `-` prints them and nothing else"
    )
    parser.add_argument("--html", metavar="FILE", help="write a report as one file that any browser shows")
    offer_quiet(parser)


def execute(arguments: Namespace) -> int:
    """Load, simulate, report."""
    from simulator.specs.resolve import load_file
    from simulator.specs.workflow import Workflow

    return run(load_file(Workflow, arguments.file, arguments.overrides).spec, arguments)


def run(workflow: "Workflow", arguments: Namespace) -> int:
    """Simulate and report as `file`, `json`, `html` and `quiet` say."""
    from simulator.cli import outputs
    from simulator.cli.progress import progress
    from simulator.run.workflow.simulate import simulate_workflow

    outputs.check({"--json": arguments.json, "--html": arguments.html}, inputs=(arguments.file,))
    with progress(f"simulating {workflow.name}", arguments.quiet):
        found = simulate_workflow(workflow)
    if arguments.html:
        from simulator.report.workflow import html
        from simulator.results.writing import write

        write(arguments.html, html.page(found))
    if not outputs.as_json(found, arguments.json) and not arguments.quiet:
        from simulator.report.workflow.page import page

        console.write(page(found, width=console.width(), colour=console.coloured()))
    return 0 if found.feasible else INFEASIBLE
