"""`python -m tests.fuzz --count 100000 --seed 1`: random inputs of every kind, and those that fail.

A batch of inputs runs in a process of its own, so that what one of them breaks ends only its batch.
An input is made again by its kind, seed and number: `--kind result --seed 1 --first 4711 --count 1`. Files and words of
those that fail are kept in a folder.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from subprocess import TimeoutExpired, run
from time import perf_counter

from tests.fuzz import harness
from tests.fuzz.kinds import KINDS

BATCH = 500
"""Inputs of one process: more leave too little of its memory to one."""
PATIENCE = 1800
"""Seconds after which a batch is given up."""


def main() -> int:
    """Run what was asked for; 1 where an input fails."""
    arguments = _arguments()
    if arguments.batch:
        return _batch(arguments)
    begin, failed, done = perf_counter(), 0, 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for kind, size, found in pool.map(lambda one: _spawned(one, arguments), _batches(arguments)):
            done, failed = done + size, failed + len(found)
            rate = done / (perf_counter() - begin)
            for line in found:
                print(line, flush=True)
            harness.say(f"{done:,} inputs, {failed} failed, {rate:.1f} a second, last: {kind}")
    print(f"{done:,} inputs, {failed} failed", flush=True)
    return 1 if failed else 0


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000, help="inputs, of all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=sorted(KINDS), help="inputs of one kind only")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each kind")
    parser.add_argument("--jobs", type=int, default=1, help="batches at a time")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="folder for inputs that fail")
    parser.add_argument("--batch", action="store_true", help="in this process, one line for each that fails")
    return parser.parse_args()


def _batches(arguments: Namespace) -> Iterator[tuple[str, int, int]]:
    """(kind, first number, size), the kinds in turn, each with its share of all inputs however few there are."""
    left = _parts({arguments.kind: 1} if arguments.kind else {kind: one for kind, (_, one) in KINDS.items()}, arguments)
    first = dict.fromkeys(left, arguments.first)
    while any(left.values()):
        for kind in (kind for kind, inputs in left.items() if inputs):
            size = min(BATCH, left[kind])
            yield kind, first[kind], size
            first[kind], left[kind] = first[kind] + size, left[kind] - size


def _parts(weights: dict[str, int], arguments: Namespace) -> dict[str, int]:
    """Inputs of each kind: the count, cut where the weights before a kind and with it say."""
    ends = [arguments.count * upto // sum(weights.values()) for upto in accumulate(weights.values())]
    return {kind: end - begin for kind, begin, end in zip(weights, [0, *ends], ends, strict=False)}


def _spawned(batch: tuple[str, int, int], arguments: Namespace) -> tuple[str, int, list[str]]:
    """(kind, size, lines of failures) of a batch in a process of its own."""
    kind, first, size = batch
    words = ["--kind", kind, "--first", str(first), "--count", str(size), "--seed", str(arguments.seed)]
    command = [sys.executable, "-m", "tests.fuzz", "--batch", *words, "--out", str(arguments.out)]
    try:
        done = run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except TimeoutExpired:
        return kind, size, [f"FAIL {kind} --first {first} --count {size}: given up after {PATIENCE:,} s"]
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAIL ")]
    if done.returncode not in (0, 1):
        said = " ".join(done.stderr.split())[-500:]
        lines.append(f"FAIL {kind} --first {first} --count {size}: the process ended with {done.returncode}: {said}")
    return kind, size, lines


def _batch(arguments: Namespace) -> int:
    generator, _ = KINDS[arguments.kind]
    numbers = range(arguments.first, arguments.first + arguments.count)
    failed = False
    with harness.empty_folder() as folder:
        kind, out = arguments.kind, arguments.out.absolute()
        for number, given, told in harness.run(generator, kind, arguments.seed, numbers, Path(folder), out):
            failed = True
            said = " ".join(told.encode("ascii", "backslashreplace").decode().split())
            words = " ".join(word[:60] for word in given.words[:6]).encode("ascii", "backslashreplace").decode()
            print(f"FAIL {kind} --seed {arguments.seed} --first {number} --count 1: `{words}`: {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
