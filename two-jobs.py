# two-jobs.py
import simulator as sim


def shown(title, result):
    """A line for each job, then where they met."""
    print(title)
    for job in result.jobs:
        alone, beside = job.alone["step_time_s"], job.result.metrics["step_time_s"]
        print(f"  {job.name}: {alone:.3f} s alone, {beside:.3f} s beside the other: {job.slowdown:.2f}")
    links = sum(met.links for met in result.meetings)
    print(f"  they met on {links} links, for longest on {result.meetings[0].link}")


both = sim.run("jobs/two-jobs-one-spine")
shown("as it stands", both)
