"""Workflows: stages priced one by one on their devices, then played with their dependencies on shared pools."""
