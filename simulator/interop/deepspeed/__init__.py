"""Configurations of DeepSpeed as scenarios."""
