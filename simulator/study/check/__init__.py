"""Scenarios against the figures of their baselines."""
