"""The figures that results have: their names, what they measure and how they are compared.

Nothing is computed here, so that a scenario's published figures are checked without what computes ours.
"""

from typing import Any, Literal, NamedTuple

PERCENTILES = (90, 95, 99)
"""Percentiles of latencies that are reported beside the median."""


class Metric(NamedTuple):
    """How a figure is read, printed and compared."""

    label: str
    """Words for a page."""
    dimension: str
    """One of `units.DIMENSIONS`."""
    sense: Literal["time", "rate", "size"]
    """`time`: less is faster; `rate`: more is faster; `size`: neither, a difference is just a difference."""
    scale: float = 1.0
    """Base units in one of the figure: 0.001 where it counts milliseconds."""


def _latency(name: str, words: str) -> dict[str, Metric]:
    """The keys of `vllm bench serve` for one latency, in milliseconds."""
    kinds = {"mean": "mean", "median": "median", "std": "standard deviation of"}
    kinds |= {f"p{p}": f"P{p}" for p in PERCENTILES}
    return {f"{kind}_{name}_ms": Metric(f"{word} {words}", "time", "time", 1e-3) for kind, word in kinds.items()}


SERVING: dict[str, Metric] = {
    "duration": Metric("time from the first arrival to the last token", "time", "time"),
    "completed": Metric("requests that finished", "count", "size"),
    "failed": Metric("requests that were rejected or failed", "count", "size"),
    "unfinished": Metric("requests still in flight at the end", "count", "size"),
    "total_input_tokens": Metric("tokens of the prompts", "count", "size"),
    "total_output_tokens": Metric("tokens that came out", "count", "size"),
    "request_throughput": Metric("requests/s", "rate", "rate"),
    "request_goodput": Metric("requests/s within all objectives", "rate", "rate"),
    "output_throughput": Metric("output tokens/s", "rate", "rate"),
    "total_token_throughput": Metric("prompt and output tokens/s", "rate", "rate"),
    "output_throughput_per_device": Metric("output tokens/s per device", "rate", "rate"),
    "max_output_tokens_per_s": Metric("most output tokens in a second", "rate", "rate"),
    "max_concurrent_requests": Metric("most requests at once", "count", "size"),
    **_latency("ttft", "TTFT"),
    **_latency("tpot", "TPOT"),
    **_latency("itl", "ITL"),
    **_latency("e2el", "E2E latency"),
    "slo_attainment": Metric("requests within all objectives", "fraction", "rate"),
    "ttft_attainment": Metric("requests within the TTFT objective", "fraction", "rate"),
    "tpot_attainment": Metric("requests within the TPOT objective", "fraction", "rate"),
    "e2el_attainment": Metric("requests within the E2E objective", "fraction", "rate"),
    "mean_queue_ms": Metric("mean time in the queue", "time", "time", 1e-3),
    "p99_queue_ms": Metric("P99 time in the queue", "time", "time", 1e-3),
    "prefix_cache_hit_rate": Metric("prompt tokens that a prefix cache held", "fraction", "rate"),
    "tier_hit_rate": Metric("prompt tokens that came from tiers of the cache", "fraction", "rate"),
    "tier_bytes_read": Metric("bytes loaded from tiers of the cache", "bytes", "size"),
    "tier_bytes_written": Metric("bytes written to tiers of the cache", "bytes", "size"),
    "mean_tier_load_ms": Metric("mean wait of a request for its load", "time", "time", 1e-3),
    "p99_tier_load_ms": Metric("P99 wait of a request for its load", "time", "time", 1e-3),
    "adapter_hit_rate": Metric("requests whose adapter was on the devices", "fraction", "rate"),
    "adapter_bytes_read": Metric("bytes of adapters that were loaded", "bytes", "size"),
    "finetuning_throughput": Metric("tokens/s that were trained beside", "rate", "rate"),
    "asked_again_share": Metric("requests that were asked of another model again", "fraction", "size"),
    "discarded_tokens": Metric("tokens of answers that were thrown away", "count", "size"),
    "expected_accuracy": Metric("answers that are right, by the table", "fraction", "rate"),
    "mean_adapter_load_ms": Metric("mean wait of a request for a missing adapter", "time", "time", 1e-3),
    "total_images": Metric("images of requests", "count", "size"),
    "total_image_tokens": Metric("tokens of prompts that are images", "count", "size"),
    "image_encoding_s": Metric("time in which replicas encode images", "time", "time"),
    "total_encoder_rows": Metric("rows that encoders before a decoder read", "count", "size"),
    "encoding_s": Metric("time in which encoders before a decoder work", "time", "time"),
    "preemptions": Metric("preemptions", "count", "size"),
    "mean_batch": Metric("sequences that decode at once", "count", "size"),
    "tokens_per_step": Metric("tokens that a sequence gets from an iteration", "count", "rate"),
    "mean_kv_usage": Metric("mean use of the cache blocks while working", "fraction", "size"),
    "max_kv_usage": Metric("largest use of the cache blocks", "fraction", "size"),
    "utilisation": Metric("share of time in which replicas work", "fraction", "size"),
    "replica_hours": Metric("hours in which replicas had their devices", "count", "size"),
    "mean_replicas": Metric("replicas that take requests, on average", "count", "size"),
    "max_replicas": Metric("most replicas at once", "count", "size"),
    "min_replicas": Metric("fewest replicas at once", "count", "size"),
    "availability": Metric("share of their time in which replicas are not down", "fraction", "rate"),
    "replica_failures": Metric("failures of replicas", "count", "size"),
    "link_failures": Metric("failures of links", "count", "size"),
    "retries": Metric("times that requests were tried again", "count", "size"),
}
"""The figures that only serving runs have: those of `vllm bench serve` and ours."""

JOBS: dict[str, Metric] = {
    "makespan_s": Metric("time until all jobs are done", "time", "time"),
    "slowdown": Metric("slowdown against running alone", "count", "time"),
    "worst_slowdown": Metric("slowdown of the job that suffers most", "count", "time"),
    "mean_slowdown": Metric("slowdown of the jobs on average", "count", "time"),
    "shared_link_s": Metric("time in which the busiest link was full for several jobs", "time", "time"),
}
"""The figures of a run of several jobs; `slowdown` and those of each job stand behind its name and a colon."""


WORKFLOWS: dict[str, Metric] = {
    "iteration_s": Metric("time of an iteration", "time", "time"),
    "idle_fraction": Metric("share of the devices' time in which they wait", "fraction", "size"),
    "stage_s": Metric("time of a stage", "time", "time"),
    "moved_bytes": Metric("weights that move", "bytes", "size"),
    "weight_bytes": Metric("weights of the model", "bytes", "size"),
    "items": Metric("items of an iteration", "count", "size"),
    "rollouts": Metric("requests that were done", "count", "size"),
    "rollout_tokens": Metric("tokens that rollouts gave", "count", "size"),
    "carried": Metric("requests that go on after the last iteration", "count", "size"),
    "reread_tokens": Metric("tokens of stopped requests that were read again", "count", "size"),
}
"""The figures of a workflow; those of a stage stand behind its name and a colon."""


RUN: dict[str, Metric] = {
    "run_time_p10_s": Metric("10th percentile of the time of the run", "time", "time"),
    "run_time_p90_s": Metric("90th percentile of the time of the run", "time", "time"),
    "run_steps": Metric("steps of the run", "count", "rate"),
    "run_tokens": Metric("tokens of the run", "count", "rate"),
    "goodput_tokens_per_s": Metric("goodput: tokens/s of the whole run", "rate", "rate"),
    "effective_time_ratio": Metric("effective training time ratio", "fraction", "rate"),
    "effective_time_ratio_p10": Metric("10th percentile of the effective ratio", "fraction", "rate"),
    "effective_time_ratio_p90": Metric("90th percentile of the effective ratio", "fraction", "rate"),
    "checkpoint_fraction": Metric("waiting for checkpoints", "fraction", "size"),
    "data_fraction": Metric("waiting for samples", "fraction", "size"),
    "evaluation_fraction": Metric("evaluations", "fraction", "size"),
    "detection_fraction": Metric("failures not detected", "fraction", "size"),
    "restart_fraction": Metric("restarts", "fraction", "size"),
    "waiting_fraction": Metric("waiting for nodes", "fraction", "size"),
    "lost_work_fraction": Metric("lost work", "fraction", "size"),
    "slow_fraction": Metric("what is slow", "fraction", "size"),
    "fewer_nodes_fraction": Metric("fewer nodes", "fraction", "size"),
    "failures": Metric("failures", "count", "size"),
    "mtbf_s": Metric("mean time between failures", "time", "rate"),
    "checkpoint_bytes": Metric("bytes of a checkpoint", "bytes", "size"),
    "checkpoint_stall_s": Metric("steps wait for a checkpoint", "time", "time"),
    "checkpoint_write_s": Metric("a checkpoint is written", "time", "time"),
    "checkpoint_load_s": Metric("a checkpoint is read", "time", "time"),
    "checkpoint_interval_s": Metric("interval of checkpoints", "time", "size"),
    "advised_interval_s": Metric("advised interval of checkpoints", "time", "size"),
}
"""The figures of `training.run`, besides `run_time_s`, `run_energy_j` and `run_cost_usd`."""


class Known(dict[str, Metric]):
    """Figures by name; those of one of several jobs are called `job: name`."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.rpartition(": ")[2])

    def __missing__(self, name: str) -> Metric:
        job, colon, own = name.rpartition(": ")
        if not colon or own not in self:
            raise KeyError(name)
        return self[own]._replace(label=f"{job}: {self[own].label}")

    def get(self, name: str, otherwise: Any = None) -> Any:
        """As of a dictionary."""
        return self[name] if name in self else otherwise  # noqa: SIM401 (this is `get`)


METRICS: dict[str, Metric] = Known(
    {
        "step_time_s": Metric("step time", "time", "time"),
        "step_time_p50_s": Metric("median of step times", "time", "time"),
        "step_time_p90_s": Metric("90th percentile of step times", "time", "time"),
        "step_time_p95_s": Metric("95th percentile of step times", "time", "time"),
        "step_time_p99_s": Metric("99th percentile of step times", "time", "time"),
        "step_time_max_s": Metric("longest step", "time", "time"),
        "tokens_per_s": Metric("tokens per second", "rate", "rate"),
        "tokens_per_s_per_device": Metric("tokens per second and device", "rate", "rate"),
        "tokens_per_day": Metric("tokens per day", "count", "rate"),
        "samples_per_s": Metric("sequences per second", "rate", "rate"),
        "model_flops_per_device": Metric("model FLOP/s per device", "flop_rate", "rate"),
        "mfu": Metric("model FLOP utilisation (MFU)", "fraction", "rate"),
        "mfu_causal": Metric("MFU with the causal half of attention", "fraction", "rate"),
        "hardware_flops_per_device": Metric("hardware FLOP/s per device", "flop_rate", "rate"),
        "hfu": Metric("hardware FLOP utilisation (HFU)", "fraction", "rate"),
        "bubble_fraction": Metric("pipeline bubble", "fraction", "size"),
        "exposed_communication_s": Metric("exposed communication", "time", "time"),
        "exposed_outer_s": Metric("waiting for other workers of local steps, a step", "time", "time"),
        "outer_exchange_s": Metric("exchange of a fragment between workers", "time", "time"),
        "outer_bytes": Metric("bytes that a worker sends others in a round", "bytes", "size"),
        "compute_share": Metric("share of the time in which a worker trains", "fraction", "rate"),
        "straggler_fraction": Metric("waiting for slower data-parallel peers", "fraction", "size"),
        "padding_fraction": Metric("padding among the tokens worked on", "fraction", "size"),
        "microbatch_imbalance": Metric("work of the largest microbatch over the mean", "count", "size"),
        "rank_imbalance": Metric("work of the busiest data-parallel rank over the mean", "count", "size"),
        **SERVING,
        "peak_memory_bytes": Metric("peak memory", "bytes", "size"),
        "energy_j": Metric("energy of a step", "energy", "size"),
        "cost_usd": Metric("cost of a step", "money", "size"),
        "cost_per_day_usd": Metric("cost of a day", "money", "size"),
        "energy_j_per_million_tokens": Metric("energy per million output tokens", "energy", "size"),
        "cost_usd_per_million_tokens": Metric("cost per million output tokens", "money", "size"),
        "run_time_s": Metric("time of the run", "time", "time"),
        "run_energy_j": Metric("energy of the run", "energy", "size"),
        "run_cost_usd": Metric("cost of the run", "money", "size"),
        **RUN,
        **JOBS,
        **WORKFLOWS,
    }
)
"""The figures of training steps and serving runs, by their names in the JSON form and in its order."""
