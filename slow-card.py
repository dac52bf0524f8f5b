# slow-card.py
import simulator as sim

job = sim.run("jobs/slow-card").jobs[0]
print(*(f"{ticks / 1e12:.2f}" for ticks in job.result.step_times), "s")
print(f"mean {job.slowdown:.2f} of the step alone")
