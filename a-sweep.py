# a-sweep.py
from concurrent.futures import ThreadPoolExecutor

from simulator.study.sweep.sweep import sweep

axes = {"training.parallel.tp": [2, 4], "training.micro_batch": [1, 2]}
with ThreadPoolExecutor(2) as pool:
    table = sweep("quickstart", axes, where=["peak_memory_bytes < 70 GB"], executor=pool)
print(table.best("mfu")[0].name)
table.to_csv("table.csv")
