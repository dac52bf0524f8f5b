"""The speed table: CPU seconds and memory of whole processes, with the machine and the date.

    python -m benchmarks [WORDS ...] [--sweep] [--write]

Words pick the lines that contain one of them; all without. `--sweep` measures a sweep of 1,000 points instead.
`--write` puts what was measured into benchmarks/results.md, whose other lines stay as they are if they are of the same
machine. What CI asserts is not these seconds but the number of events.

Beside each line a fixed work is timed (`benchmarks/yardstick.py`): how many times slower than the reference the machine
is in these minutes. Targets are for the reference, and so are the seconds of the column before them.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from time import perf_counter

from benchmarks import yardstick
from benchmarks.collectives import CASES as COLLECTIVES

ONE_TRILLION = "scenarios/training/megatron-1t.yaml"
SERVING = "scenarios/serving/quickstart.yaml"
TWO_JOBS = "benchmarks/two_jobs.yaml"
RING = "benchmarks/ring_1m.yaml"
EXPERTS = "benchmarks/experts_131k.yaml"
THOUSAND = "benchmarks/fleet_1000.yaml"
TWENTY = "benchmarks/fleet_20.yaml"
FLEET = "scenarios/serving/deepseek-r1-fleet.yaml"
DEEPSEEK = "scenarios/papers/deepseek-v3/pretraining.yaml"
SHARDED = "scenarios/training/zero3-175b.yaml"
WEEKS = "scenarios/papers/llama-3/54-days.yaml"
PPO = "workloads/workflows/ppo-70b.yaml"
CASES: dict[str, tuple[float, list[str]]] = {
    "`clustersim --help`": (0.25, ["--help"]),
    "`clustersim explain` of the GPT-1T scenario": (0.25, ["explain", ONE_TRILLION]),
    "GPT-1T step, 3,072 devices, 64 stages x 512 microbatches": (1.5, ["run", ONE_TRILLION, "--quiet"]),
    "the same on 131,072 devices, fold: tiers": (
        5.0,
        [
            "run",
            ONE_TRILLION,
            "cluster.nodes=16384",
            "training.parallel.dp=256",
            "training.global_batch=131072",
            "--quiet",
        ],
    ),
    "the same on 1,048,576 devices, fold: tiers, in 700 MB": (
        6.0,
        [
            "run",
            ONE_TRILLION,
            "cluster.nodes=131072",
            "training.parallel.dp=2048",
            "training.global_batch=1048576",
            "fold=tiers",
            "--quiet",
        ],
    ),
    "1,024 ranks unfolded, 16 stages x 64 microbatches": (
        5.0,
        [
            "run",
            ONE_TRILLION,
            "model=models/gpt-145.6b",
            "cluster.nodes=128",
            "training.parallel.pp=16",
            "training.parallel.dp=8",
            "training.global_batch=512",
            "--no-fold",
            "--quiet",
        ],
    ),
    "ring attention on 512 ranks unfolded, 512 turns a layer, reductions after the passes": (
        5.0,
        ["run", RING, "--no-fold", "--quiet"],
    ),
    "671B mixture of experts, 2,048 devices, ep 64, pp 16, folded": (5.0, ["run", DEEPSEEK, "--quiet"]),
    "mixture of experts on 131,072 devices, cp 4, ep 32, pp 8, fold: tiers": (5.0, ["run", EXPERTS, "--quiet"]),
    "serving, 10,000 requests": (1.0, ["run", SERVING, "requests.count=10000", "--quiet"]),
    "serving, 100,000 requests": (4.5, ["run", SERVING, "requests.count=100000", "--quiet"]),
    "serving, 1,000,000 requests, in 700 MB": (35.0, ["run", SERVING, "requests.count=1000000", "--quiet"]),
    "serving, 1,000,000 requests, records: sample": (
        35.0,
        ["run", SERVING, "requests.count=1000000", "+records=sample", "--quiet"],
    ),
    "serving, 10,000,000 requests, records: sample, in 1,000 MB": (
        350.0,
        ["run", SERVING, "requests.count=10000000", "+records=sample", "--quiet"],
    ),
    "DeepSeek-R1 on 6 replicas of 384 devices, 20,000 requests": (
        15.0,
        ["run", FLEET, "requests.count=20000", "--quiet"],
    ),
    "serving, 1,000,000 requests on 1,000 replicas behind a router": (90.0, ["run", THOUSAND, "--quiet"]),
    "serving, 600,000 requests on 20 replicas that scale and fail": (60.0, ["run", TWENTY, "--quiet"]),
    "two jobs of 1,024 devices that meet on a fat tree of three levels": (10.0, ["run", TWO_JOBS, "--quiet"]),
    "the same with every node anywhere": (
        15.0,
        ["run", TWO_JOBS, "jobs.0.placement=random", "jobs.1.placement=random", "--quiet"],
    ),
    "`clustersim plan`: 10,317 layouts of DeepSeek-V3 on 2,048 H800, 2 processes, 2 minutes": (
        240.0,
        ["plan", DEEPSEEK, "--free", "all", "--no-cache", "--jobs", "2"],
    ),
    "`clustersim plan`: 10,134 layouts of GPT-175B on 512 A100, ZeRO of DeepSpeed, 2 processes, 2 minutes": (
        240.0,
        [
            "plan",
            SHARDED,
            "cluster.nodes=64",
            "training.global_batch=4096",
            "--free",
            "all",
            "--no-cache",
            "--jobs",
            "2",
        ],
    ),
    "a month of 16,384 devices with failures and checkpoints, 16 runs": (
        10.0,
        ["run", WEEKS, "training.run.days=30", "--quiet"],
    ),
    "an iteration of reinforcement learning, four models of 70B on 128 devices": (10.0, ["run", PPO, "--quiet"]),
    "`clustersim validate` of all training rows": (300.0, ["validate", "--quiet"]),
}
"""What is measured: the target in CPU seconds, and the arguments."""
COMMANDS = {what: (target, ["simulator", *command]) for what, (target, command) in CASES.items()}
COMMANDS |= {what: (target, ["benchmarks.collectives", name]) for name, (what, target) in COLLECTIVES.items()}
"""The same as modules with arguments, and collectives by themselves."""


SWEEP = [
    "sweep",
    "scenarios/training/frontier-175b.yaml",
    "training.parallel.tp=4,8",
    "training.parallel.pp=4,8,16",
    "training.micro_batch=1,2",
    "training.global_batch=5120,10240,20480",
    "training.recompute=selective,full",
    "training.parallel.zero=0,1",
    "cluster.node.nics.bandwidth=50 Gbit/s,100 Gbit/s,150 Gbit/s,200 Gbit/s,250 Gbit/s,300 Gbit/s,400 Gbit/s",
    "--random",
    "1000",
    "--no-cache",
    "--quiet",
    "--jobs",
    "2",
]
"""1,000 of 1,008 points of a step on 1,024 devices; to be done in 3 minutes on 2 cores."""
_SECTION = "\n## Sweep\n"


def measure(arguments: list[str]) -> tuple[float, float]:
    """(CPU seconds, peak memory in MB) of one process."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True);"
        "u = resource.getrusage(resource.RUSAGE_CHILDREN); print(u.ru_utime + u.ru_stime, u.ru_maxrss / 1e3)"
    )
    command = [sys.executable, "-c", code, sys.executable, "-m", *arguments]
    # As users run it: modules are compiled once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()
    return float(out[0]), float(out[1])


def machine() -> str:
    """One line that says where the figures were measured."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in facts if "model name" in line]
    return f"{os.cpu_count()} cores of {names[0] if names else platform.machine()}, CPython {platform.python_version()}"


def sweep() -> str:
    """A line for the sweep: wall-clock and CPU seconds on two processes, and the largest of them."""
    begin = perf_counter()
    seconds, megabytes = measure(["simulator", *SWEEP])
    wall = perf_counter() - begin
    each = seconds / 1000
    return (
        f"1,000 points of GPT-175B on 1,024 devices, 2 processes: {wall:.0f} s (target 180 s), {seconds:.0f} CPU s,"
        f" {each:.3f} CPU s a point, {megabytes:.0f} MB.\n"
    )


def cases(words: Sequence[str]) -> dict[str, str]:
    """Lines of the table by what they measure, best of three for the short ones."""
    lines, before = {}, yardstick.seconds()
    for what, (target, command) in COMMANDS.items():
        if words and not any(word in what for word in words):
            continue
        runs = [measure(command) for _ in range(1 if target > 10 else 3)]
        after = yardstick.seconds()
        lines[what] = line(what, *min(runs), target, yardstick.slowness((before + after) / 2))
        before = after
        print(lines[what], file=sys.stderr, flush=True)
    return lines


def line(what: str, seconds: float, megabytes: float, target: float, slowness: float) -> str:
    """A line of the table: CPU seconds here, how many times slower than the reference the machine was, CPU seconds of
    the reference, memory, and the target for it."""
    times = f"{slowness:.2f} | {seconds / slowness:.2f}"
    return f"| {what} | {seconds:.2f} | {times} | {megabytes:.0f} MB | {target:g} s | {date.today()} |"


def table(lines: Mapping[str, str], page: str) -> str:
    """The table of a page with new lines in place of old ones, which stay where they are of this machine."""
    head = f"Measured on {machine()}."
    before = page.splitlines() if head in page else []
    known = {row.split(" | ")[0].removeprefix("| "): _whole(row) for row in before if row.startswith("| ")} | dict(
        lines
    )
    rows = [known[what] for what in COMMANDS if what in known]
    return "\n".join([head, "", *_NOTE, "", _TITLES, "| --- " * _TITLES.count(" | ") + "| --- |", *rows]) + "\n"


def _whole(row: str) -> str:
    """A line of the table, one from before there was a yardstick with dashes in its columns."""
    cells = row.split(" | ")
    return row if len(cells) > _TITLES.count(" | ") else " | ".join([*cells[:2], "-", "-", *cells[2:]])


_TITLES = "| what | CPU s | times slower | CPU s of the reference | memory | target | day |"
_NOTE = (
    f"The reference is the machine for which the targets were set: the GPT-1T step of 9105c80a takes"
    f" {yardstick.STEP_REFERENCE_S} CPU s there. Where it took",
    f"{yardstick.STEP_HERE_S} s the yardstick (`benchmarks/yardstick.py`, a fixed work of Python and numpy) took"
    f" {yardstick.YARDSTICK_HERE_S} s in the same minutes, so it takes {yardstick.REFERENCE_S:.3f} s",
    "on the reference. It is timed before and after each line: so many times slower is the machine in these minutes.",
)


def main() -> None:
    """Measure and print; with `--write` put it into its section of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    path = Path(__file__).with_name("results.md")
    first, _, second = path.read_text().partition(_SECTION)
    if arguments.sweep:
        text = second = f"\nMeasured on {machine()}, {date.today()}.\n\n{sweep()}"
    else:
        text = first = f"# Speed\n\n{table(cases(arguments.words), first)}"
    print(text)
    if arguments.write:
        path.write_text(first + (_SECTION + second if second else ""))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
