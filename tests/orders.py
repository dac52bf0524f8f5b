"""Pipeline schedules as text: stage, kind, microbatch; `x+y` for passes side by side; a line a rank."""

from simulator.program.schedule import Schedule


def lines(schedule: Schedule) -> list[str]:
    """The order of each rank."""
    return [" ".join("+".join(map(str, action.passes())) for action in row) for row in schedule.actions()]
