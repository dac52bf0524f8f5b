"""Many runs: validation against published measurements; later comparisons, sweeps, plans and regression checks."""
