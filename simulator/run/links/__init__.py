"""What links of the fabric carry in a run: who sends, who meets whom, what was carried."""
