# my_routers.py
from simulator.serving.fleet.router import ROUTERS


@ROUTERS.add("fewest-tokens-first")
def fewest_tokens_first(replicas, request, choice):
    return min(range(len(replicas)), key=lambda i: (replicas[i].tokens(choice.now), i))
