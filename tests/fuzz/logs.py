"""Logs of nccl-tests to calibrate collectives with, sound or damaged, of any cluster and operation."""

from random import Random

from simulator.calibration.collectives.own import WORDS
from tests.fuzz.commands import CLUSTERS
from tests.fuzz.harness import Answer, Input
from tests.fuzz.mutations import spoil

TIMES = ("12.5", "0.01", "690", "99999999", "0", "-1", "nan", "1e3")

RELEASES = ("#", "#", "NCCL version 2.18.3+cuda12.1", "# nccl-library=22105", "NCCL version 99.0", "nccl-library=00000")


def logs(random: Random) -> Input:
    """A log of one operation, fitted or held against what ships."""
    named = random.choice((*WORDS, *WORDS, *WORDS, "nothing"))
    each, nodes = random.choice((1, 2, 4, 4, 8, 8, 8, 8, 16)), random.choice((1, 1, 2, 3))
    data = bytearray(_log(random, each, nodes).encode())
    for _ in range(random.choice((0, 0, 1, 2))):
        spoil(data, random)
    words = ["calibrate", "collectives", f"{named}_perf.log"]
    words += ["--cluster", random.choice(CLUSTERS)] if random.random() < 0.95 else []
    words += ["--as-is"] if random.random() < 0.7 else random.choice(([], ["--out", "o"]))
    return Input(words, {f"{named}_perf.log": bytes(data)}, _told)


def _log(random: Random, each: int, nodes: int) -> str:
    ranks = [f"#  Rank {i:2} Group  0 Pid  {i + 1} on node{i // each} device  {i % each}" for i in range(each * nodes)]
    rows = []
    for size in sorted(random.sample([2**power for power in range(3, 35)], random.choice((1, 3, 12)))):
        sound = f"{8 + size / random.choice((2e3, 2e5)):.2f}"
        time = sound if random.random() < 0.97 else random.choice(TIMES)
        rows.append(f"{size:12} {size // 4:12} float sum -1 {time} 1.0 1.0 0 {sound} 1.0 1.0 0")
    return "\n".join([random.choice(RELEASES), *ranks, *rows]) + "\n"


def _told(answer: Answer) -> str | None:
    return "reports no rows" if answer.code == 0 and "| rows |" not in answer.out else None
