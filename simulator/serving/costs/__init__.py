"""The transformer as serving runs it, and the duration of an iteration: operators, curves, compiled costs."""
