# in-python.py
import simulator as sim

result = sim.run("scenarios/quickstart.yaml", {"training.micro_batch": 2})
print(result.metrics["mfu"], result.breakdown[0]["bubble"])
