"""Coefficients of profiles and stacks, fitted on measurements."""
