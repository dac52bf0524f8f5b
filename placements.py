# placements.py
import simulator as sim


def everyone(placement):
    """The same placement for all three."""
    return {f"jobs.{i}.placement": placement for i in range(3)}


def named(*nodes):
    """The nodes of each."""
    return {f"jobs.{i}.placement": {"nodes": listed} for i, listed in enumerate(nodes)}


first_half = list(range(8))
placements = {
    "packed": everyone("packed"),
    "spread": everyone("spread"),
    "random, seed 0": {"seed": 0},
    "random, seed 1": {"seed": 1},
    "two nodes swapped": named(first_half, [8, 9, 10, 12], [11, 13, 14, 15]),
    "pairs of racks": named([0, 1, 4, 5, 8, 9, 12, 13], [2, 3, 6, 7], [10, 11, 14, 15]),
}
slowdowns = {}
for title, change in placements.items():
    jobs = sim.run("jobs/placement", change).jobs
    slowdowns[title] = [round(job.slowdown, 2) for job in jobs]
    print(
        f"{title:20}", *(f"{job.name} {job.alone['step_time_s']:.2f} s x {job.slowdown:.2f}" for job in jobs), sep="  "
    )
