"""From a schedule to a program: one file for each kind of traffic around and inside the passes of a pipeline."""
