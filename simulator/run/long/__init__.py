"""Runs of weeks: failures, checkpoints and recovery as events on a clock, equal steps between them in closed form."""
