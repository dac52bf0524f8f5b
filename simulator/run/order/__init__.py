"""Which nodes the ranks of a training should lie on where pairs of nodes are unequal."""
