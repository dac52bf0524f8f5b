"""Matrices of bandwidths between nodes: what is read of them, and what is refused with file and line."""

from pathlib import Path

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.specs import load_scenario
from simulator.specs.network import measured
from simulator.specs.network.measured import parsed, read_pairs
from tests.matrices import mpigraph, table

MIB = 2.0**20
RATES = [[0.0, 100.0, 50.0], [80.0, 0.0, 60.0], [70.0, 90.0, 0.0]]


def test_both_ends_of_a_pair_are_asked() -> None:
    received = np.array(RATES).T
    received[1, 0] = 90.0  # of node 0 by node 1
    found = parsed(mpigraph(RATES, received.tolist()), "m.out")
    assert found.names == ("n0", "n1", "n2") and found.both
    assert found.rates[0, 1] == 90 * MIB and found.rates[1, 0] == 80 * MIB and found.rates[2, 1] == 90 * MIB
    assert np.isinf(found.rates.diagonal()).all()


def test_one_matrix_is_enough() -> None:
    send, receive = mpigraph(RATES).split("\n\nRecv\t")
    only_received = "START mpiGraph v1.5\n\nRecv\t" + receive
    for text in (send, only_received):
        found = parsed(text, "m.out")
        assert not found.both and found.rates[0, 2] == 50 * MIB and found.rates[2, 0] == 70 * MIB


def test_tables_state_their_unit() -> None:
    found = parsed("# by hand\n" + table("GB/s", RATES), "m.csv")
    assert found.names == ("n0", "n1", "n2") and found.rates[0, 1] == 100e9
    assert parsed(table("Gbit/s", RATES), "m.csv").rates[2, 1] == pytest.approx(90e9 / 8)
    # Rows may stand in any order; the diagonal says nothing.
    assert parsed("GB/s,a:x,a:y\na:y,3,x\na:x,,7\n", "m.csv").rates.tolist() == [[np.inf, 7e9], [3e9, np.inf]]


WRONG = {
    "empty": ("nothing here\n", None, "holds no matrix"),
    "no unit": ("n,a,b\na,,1\nb,1,\n", 1, "no unit of bandwidth"),
    "not square": ("GB/s,a,b\na,,1\nb,1\n", 3, "has 1 figures of `b`, and there are 2 nodes"),
    "too wide": ("GB/s,a,b\na,,1,2\nb,1,\n", 2, "has 3 figures"),
    "a row missing": ("GB/s,a,b,c\na,,1,2\nb,1,,2\n", 1, "`c` has none"),
    "a row twice": ("GB/s,a,b\na,,1\na,,1\n", 3, "second row of `a`, after line 2"),
    "unknown name": ("GB/s,node0,node1\nnode0,,1\nnod1,1,\n", 3, "`nod1`, which is no column"),
    "a name twice": ("GB/s,a,a\na,,1\na,1,\n", 1, "has the node `a` twice"),
    "no name": ("GB/s,a,\na,,1\n", 1, "no name in column 2"),
    "one node": ("GB/s,a\na,\n", 1, "fewer than two nodes"),
    "negative": ("GB/s,a,b\na,,-1\nb,1,\n", 2, "has `-1` from `a` to `b`"),
    "zero": ("GB/s,a,b\na,,1\nb,0,\n", 3, "has `0` from `b` to `a`"),
    "NaN": ("GB/s,a,b\na,,nan\nb,1,\n", 2, "has `nan`"),
    "infinite": ("GB/s,a,b\na,,inf\nb,1,\n", 2, "has `inf`"),
    "no figure": ("GB/s,a,b\na,,fast\nb,1,\n", 2, "has `fast`"),
    "a gap": ("GB/s,a,b\na,,\nb,1,\n", 2, "has `nothing`"),
    "out of range": ("GB/s,a,b\na,,1e-12\nb,1,\n", 1, "bytes/s from `a` to `b`"),
    "a row too many": ("GB/s,a,b\na,,1\nb,1,\nc,1,1\n", 4, "a row of `c`, which is no column"),
    "digits with bars": ("GB/s,a,b\na,,1_000\nb,1,\n", 2, "has `1_000`"),
    "two runs": (2 * (mpigraph(RATES) + "\n\n"), 19, "second matrix of `Send`, after line 5"),
    "words between": (
        mpigraph(RATES).replace("n1:1 to", "WARNING: late\nn1:1 to"),
        7,
        "`WARNING:`, which is no column",
    ),
    "two tasks a node": (mpigraph([[0, 1], [1, 0]]).replace("n1", "n0"), 5, "has the node `n0` twice"),
    "a task missing": (mpigraph([[0, 1], [1, 0]]).replace("n1:1", "n1:2"), 5, "`n1:2` where task 1 is due"),
    "cut off": ("\n".join(mpigraph(RATES).splitlines()[:-2]), 10, "rows of 1: `n1:1` has none"),
    "other nodes": (mpigraph(RATES).replace("Recv\tn0:0", "Recv\tm0:0").replace("n0:0 from", "m0:0 from"), 10, "other"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_with_file_and_line(name: str) -> None:
    text, line, words = WRONG[name]
    with pytest.raises(InputError) as caught:
        parsed(text, "m.out")
    (problem,) = caught.value.problems
    assert words in problem.message and problem.file == "m.out" and problem.line == line and problem.hint


def test_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MOST_NODES", 2)
    with pytest.raises(InputError, match="up to 2 are modelled"):
        parsed(table("GB/s", RATES), "m.csv")


def test_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    for rate in (1.0, 22.5):
        path.write_text(table("GB/s", [[0, rate], [rate, 0]]))
        assert read_pairs(str(path)).rates[0, 1] == rate * 1e9
    with pytest.raises(InputError, match="there is no file"):
        read_pairs(str(tmp_path / "other.csv"))
    path.write_bytes(b"\0\1\2")
    with pytest.raises(InputError, match="no text"):
        read_pairs(str(path))


def test_a_misspelt_kind_alone_is_told() -> None:
    """Its keys are those of the kind that was meant: they were unknown, and the hint was to write them as they are."""
    network = "cluster.network={kind: pair, matrix: m.csv}"
    with pytest.raises(InputError) as caught:
        load_scenario("quickstart", [network])
    (line,) = str(caught.value).splitlines()
    assert "cluster.network.kind: `pair` is not accepted; did you mean `pairs`?" in line
