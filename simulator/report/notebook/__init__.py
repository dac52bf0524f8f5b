"""Results, comparisons and sweeps in notebooks: cards, plots by name, frames."""
