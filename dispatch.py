# dispatch.py
from simulator.collectives import Routing, cost_of, library_of, token_bytes
from simulator.fabric import build
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.hardware import Cluster

machine = load_spec(Cluster, "h800-cluster")
library, algorithm = library_of("deepep", load_spec(CollectiveProfile, machine.collectives))
routing = Routing(experts=256, top_k=8, groups=8, group_limit=4)
size = 4096 * 8 * token_bytes(7168, "fp8")
cost = cost_of("dispatch", [range(64)], size, build(machine), library, algorithm, routing)
print(f"{cost.slowest / 1e9:.2f} ms, {cost.algorithms[0]}")
