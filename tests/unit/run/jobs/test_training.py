"""A training beside others: what of it runs on links."""

import pytest

from tests import together


@pytest.mark.parametrize("pp", [1, 2])
def test_passes_are_cut_where_what_runs_in_them_can_meet_others(pp: int) -> None:
    """Also where collectives that run between passes ask at least as much of the link: on a host bus that two jobs
    share, the sums of tensor parallelism inside passes share it with the gradients of the other."""
    first = together.trains("a", placement={"devices": [0, 1, 2, 3]}, batch=4, sequence=512, tp=2, zero=2)
    second = together.trains("b", placement={"devices": [4, 5, 6, 7]}, batch=4, sequence=512, tp=2, pp=pp)
    ran = together.run(together.scenario(first, second, on=together.host_bus()))
    assert all(sender.whole for trainer in ran.trainers.values() for sender in trainer.traffic.senders)
    assert together.most_together(ran) <= 1 + together.FULL
