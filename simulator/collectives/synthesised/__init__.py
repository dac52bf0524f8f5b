"""Plans from files: read, executed on small integer arrays, and turned into phases."""

from simulator.collectives.synthesised.plans import SUFFIX, plan_of, synthesised

__all__ = ["SUFFIX", "plan_of", "synthesised"]
