"""Published measurements simulated, and how wrong the simulation is."""
