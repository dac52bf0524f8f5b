"""The fastest layout of a training on a cluster, and the cheapest cluster that trains so many tokens in time."""
