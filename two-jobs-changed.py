# two-jobs-changed.py
import simulator as sim

changes = {
    "each in a rack of its own": {"jobs.0.placement": "packed", "jobs.1.placement": "packed"},
    "oversubscription 2 instead of 4": {"cluster.network.levels.0.oversubscription": 2},
    "oversubscription 8 instead of 4": {"cluster.network.levels.0.oversubscription": 8},
    "gathered once a step (zero: 2)": {
        "+jobs.0.training.parallel": {"zero": 2},
        "+jobs.1.training.parallel": {"zero": 2},
    },
    "the second starts 0.2 s later": {"+jobs.1.start": "0.2 s"},
}
slowdowns = {}
for title, change in changes.items():
    jobs = sim.run("jobs/two-jobs-one-spine", change).jobs
    slowdowns[title] = [job.slowdown for job in jobs]
    times = [f"{job.alone['step_time_s']:.3f} s x {job.slowdown:.2f}" for job in jobs]
    print(f"{title}: {', '.join(times)}")
