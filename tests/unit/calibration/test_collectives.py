"""The closed form that a fit varies is the price of the simulator, and a fit finds the figures that made its rows."""

import numpy as np
import pandas as pd
import pytest

from simulator.calibration.collectives.fit import figures_of, fit
from simulator.calibration.collectives.model import Model, predicted
from simulator.calibration.collectives.rows import MB
from simulator.specs import load_spec
from simulator.specs.collectives import CollectiveProfile

PROFILE = load_spec(CollectiveProfile, "nccl-v100")


def rows() -> pd.DataFrame:
    """All-reduces of one DGX-1 as the profile prices them."""
    grid = [(ranks, size * MB) for ranks in (2, 4, 8) for size in (1, 4, 16, 64, 256, 1024)]
    table = pd.DataFrame(grid, columns=["ranks", "size"])
    table = table.assign(source="made", op="all_reduce", nodes=1, algorithm="auto", cluster="dgx-1-v100", part="fitted")
    return table.assign(seconds=predicted(table, PROFILE))


def test_the_closed_form_is_the_price() -> None:
    table = rows()
    values, _ = figures_of(PROFILE)
    assert Model(table, PROFILE).seconds(values) == pytest.approx(table.seconds.to_numpy(), rel=1e-6)


def test_a_fit_of_what_the_profile_made_stays_where_it_is() -> None:
    values, measured = figures_of(PROFILE)
    found = fit(rows(), PROFILE)
    assert set(found) == measured
    large = {path: value for path, value in found.items() if path.endswith("efficiency")}
    assert large == pytest.approx({path: values[path] for path in large}, rel=0.02)


@pytest.mark.parametrize("factor", [0.9, 1.25])
def test_a_fit_comes_nearer_to_another_machine(factor: float) -> None:
    table = rows().assign(seconds=lambda made: factor * made.seconds)
    model, (values, _) = Model(table, PROFILE), figures_of(PROFILE)
    fitted = values | fit(table, PROFILE)
    before, after = (abs(np.log(model.seconds(each) / table.seconds)).mean() for each in (values, fitted))
    assert after < 0.9 * before
