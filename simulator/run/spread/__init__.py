"""How far measured runs lie from simulated ones like them, as intervals that hold a stated share of unseen runs."""
