# beside-serving.py
import simulator as sim


def caches_ms(service):
    """Milliseconds that each cache was on its way."""
    moved = service.result.service.transfers
    return (moved.end - moved.start) / 1e9


results = {}
for title, nodes in {"in two racks": [2, 6], "in one rack": [2, 3]}.items():
    result = results[title] = sim.run("jobs/training-beside-serving", {"jobs.1.placement.nodes": nodes})
    training, service = result.jobs
    print(f"service {title}: training {training.slowdown:.3f}, service {service.slowdown:.3f}")
    print(
        f"  a cache moves for {caches_ms(service).mean():.1f} ms, {sum(met.links for met in result.meetings)} links shared"
    )
    for name in ("mean_ttft_ms", "mean_tpot_ms", "p99_e2el_ms"):
        print(f"  {name}: {service.alone[name]:.2f} alone, {service.result.metrics[name]:.2f} beside the training")
