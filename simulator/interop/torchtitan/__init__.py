"""Job files of torchtitan as scenarios."""
