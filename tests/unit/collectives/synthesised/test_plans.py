"""Plans of MSCCL: executed on small integer arrays, priced as phases, refused where they lose or double bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from simulator import collectives
from simulator.cli import main
from simulator.collectives.synthesised import plan_of
from simulator.errors import InputError
from simulator.fabric import build
from tests.machines import cluster, profile

Step = tuple[str, str, int, str, int]
"""(type, source buffer, chunk, target buffer, chunk)."""


def xml(coll: str, gpus: list[str], **more: object) -> str:
    known = {"name": "x", "proto": "Simple", "coll": coll, "inplace": 0, "ngpus": len(gpus), **more}
    head = " ".join(f'{key}="{value}"' for key, value in known.items())
    return f"<algo {head}>{''.join(gpus)}</algo>"


def gpu(number: int, chunks: tuple[int, int, int], *blocks: tuple[int, int, list[Step]]) -> str:
    i, o, s = chunks
    text = "".join(block(place, *one) for place, one in enumerate(blocks))
    return f'<gpu id="{number}" i_chunks="{i}" o_chunks="{o}" s_chunks="{s}">{text}</gpu>'


def block(place: int, send: int, receive: int, steps: list[Step]) -> str:
    text = "".join(
        f'<step s="{n}" type="{kind}" srcbuf="{a}" srcoff="{b}" dstbuf="{c}" dstoff="{d}" cnt="1" depid="-1"/>'
        for n, (kind, a, b, c, d) in enumerate(steps)
    )
    return f'<tb id="{place}" send="{send}" recv="{receive}" chan="0">{text}</tb>'


def ring_all_reduce(n: int) -> str:
    """Chunk c starts at rank c, is summed on its way round, and goes round once more; in place, one block a rank."""
    gpus = []
    for rank in range(n):
        steps: list[Step] = [("s", "i", rank, "i", rank)]
        for hop in range(1, n):
            chunk = (rank - hop) % n
            steps.append(("rrs" if hop < n - 1 else "rrcs", "i", chunk, "i", chunk))
        for hop in range(n - 1):
            chunk = (rank - hop) % n
            steps.append(("rcs" if hop < n - 2 else "r", "i", chunk, "i", chunk))
        gpus.append(gpu(rank, (n, n, 0), ((rank + 1) % n, (rank - 1) % n, steps)))
    return xml("allreduce", gpus, inplace=1)


def gather(n: int) -> str:
    """Every rank sends its chunk to every other, a block for each peer."""
    gpus = []
    for rank in range(n):
        blocks: list[tuple[int, int, list[Step]]] = [(-1, -1, [("cpy", "i", 0, "o", rank)])]
        for ahead in range(1, n):
            there, here = (rank + ahead) % n, (rank - ahead) % n
            blocks.append((there, -1, [("s", "i", 0, "o", rank)]))
            blocks.append((-1, here, [("r", "o", here, "o", here)]))
        gpus.append(gpu(rank, (1, n, 0), *blocks))
    return xml("allgather", gpus)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "plan.xml"
        path.write_text(text)
        return str(path)

    return write


def seconds(file: str, operation: str, n: int, size: float = 1e9) -> float:
    fabric = build(cluster())
    return collectives.cost_of(operation, [range(n)], size, fabric, profile(), file).slowest / 1e12


@pytest.mark.parametrize("n", [2, 3, 8])
def test_a_ring_from_a_file_costs_what_a_ring_does(n: int, written: Callable[[str], str]) -> None:
    """2 (n - 1) / n S / B + 2 (n - 1) steps, by theory and as the ring of this project."""
    found = seconds(written(ring_all_reduce(n)), "all_reduce", n)
    assert found == pytest.approx(2 * (n - 1) / n * 1e9 / 300e9 + 2 * (n - 1) * 1e-6)
    assert found == pytest.approx(seconds("ring", "all_reduce", n), rel=1e-9)


def test_a_gather_in_one_step(written: Callable[[str], str]) -> None:
    assert seconds(written(gather(4)), "all_gather", 4) == pytest.approx(3 / 4 * 1e9 / 300e9 + 1e-6)


def test_volume_and_levels(written: Callable[[str], str]) -> None:
    file = written(ring_all_reduce(4))
    plan = collectives.plan("all_reduce", [range(4)], 4e6, build(cluster()), profile(), file)
    phases = plan.phases(0)
    assert len(phases) == 6
    assert sum(phase.volume for phase in phases) == pytest.approx(2 * 3 * 4e6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace('type="rrs"', 'type="rcs"', 1), "holds chunk .* of GPU .* 0 times, not 1"),
        (lambda text: text.replace('type="r" ', 'type="rrc" '), "2 times, not 1"),
        (lambda text: text.replace('type="s"', 'type="nop"', 1), "waits for ever"),
        (lambda text: text.replace('type="r" ', 'type="nop" ', 1), "never receives"),
        (lambda text: text.replace('type="rrs"', 'type="rrx"', 1), "unknown type `rrx`"),
        (lambda text: text.replace('cnt="1"', 'cnt="2"', 1), "which has 4|takes 1 chunks of 2"),
        (lambda text: text.replace('ngpus="4"', 'ngpus="5"'), "says 5 GPUs"),
        (lambda text: text.replace("allreduce", "allreduces"), "unknown collective"),
        (lambda text: text.replace("</algo>", ""), "is no XML"),
        (lambda text: "<graph/>", "no plan of MSCCL"),
        (lambda text: text.replace('cnt="1"', 'cnt="many"', 1), "`cnt` is 'many'"),
    ],
)
def test_plans_that_lose_double_or_say_nonsense_are_refused(
    change: Callable[[str], str], words: str, written: Callable[[str], str]
) -> None:
    with pytest.raises(InputError, match=words):
        plan_of(written(change(ring_all_reduce(4))))


def test_entities_are_refused(written: Callable[[str], str]) -> None:
    evil = '<!DOCTYPE algo [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + ring_all_reduce(2).replace('"x"', '"&b;"')
    with pytest.raises(InputError, match="has a DOCTYPE"):
        plan_of(written(evil))


def test_the_command_takes_a_plan(written: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    file = written(ring_all_reduce(8))
    asked = ["collective", "dgx-h100", "--op", "all_reduce", "--ranks", "8"]
    assert main([*asked, "--size", "64MB", "--algorithm", file]) == 0
    assert "plan.xml/Simple" in capsys.readouterr().out
    assert main([*asked, "--sizes", "1M:4M", "--algorithm", file]) == 0
    assert main([*asked, "--size", "64MB", "--algorithm", file, "--op", "all_gather"]) == 2
    assert "cannot do all_gather" in capsys.readouterr().err
    assert main([*asked[:-1], "4", "--size", "64MB", "--algorithm", file]) == 2
    assert "the plan is for 8 GPUs, the group has 4" in capsys.readouterr().err
    small = written(ring_all_reduce(8).replace("<algo ", '<algo minBytes="0" maxBytes="65536" '))
    assert main([*asked, "--size", "64MB", "--algorithm", small]) == 2
    assert "the plan is for 0 to 65,536 bytes" in capsys.readouterr().err
    assert main([*asked, "--size", "64MB", "--algorithm", "no-such.xml"]) == 2
    assert "cannot be read" in capsys.readouterr().err
