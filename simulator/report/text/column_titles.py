"""Figures as heads of narrow columns, in tables whose title says the rest."""

import re

_SHORT = {
    "tokens_per_step": "tokens/step",
    "step_time_s": "step",
    "step_time_max_s": "longest step",
    "tokens_per_s": "tokens/s",
    "tokens_per_s_per_device": "tokens/s dev.",
    "tokens_per_day": "tokens/day",
    "samples_per_s": "sequences/s",
    "model_flops_per_device": "FLOP/s dev.",
    "mfu": "MFU",
    "mfu_causal": "MFU causal",
    "hardware_flops_per_device": "hw FLOP/s dev.",
    "hfu": "HFU",
    "bubble_fraction": "bubble",
    "straggler_fraction": "late peers",
    "padding_fraction": "padding",
    "microbatch_imbalance": "microbatches",
    "rank_imbalance": "ranks",
    "exposed_communication_s": "exposed",
    "total_input_tokens": "tokens in",
    "total_output_tokens": "tokens out",
    "request_throughput": "requests/s",
    "request_goodput": "goodput",
    "output_throughput": "tokens/s",
    "total_token_throughput": "all tokens/s",
    "output_throughput_per_device": "tokens/s dev.",
    "max_output_tokens_per_s": "max tokens/s",
    "max_concurrent_requests": "max requests",
    "slo_attainment": "SLO met",
    "ttft_attainment": "TTFT met",
    "tpot_attainment": "TPOT met",
    "e2el_attainment": "E2E met",
    "prefix_cache_hit_rate": "prefix hits",
    "tier_hit_rate": "tier hits",
    "tier_bytes_read": "tiers read",
    "tier_bytes_written": "tiers written",
    "mean_tier_load_ms": "tier load",
    "p99_tier_load_ms": "P99 tier load",
    "adapter_hit_rate": "adapter hits",
    "adapter_bytes_read": "adapters read",
    "mean_adapter_load_ms": "adapter load",
    "finetuning_throughput": "trained tok/s",
    "asked_again_share": "asked again",
    "discarded_tokens": "tokens wasted",
    "expected_accuracy": "accuracy",
    "total_images": "images",
    "total_encoder_rows": "encoder rows",
    "total_image_tokens": "image tokens",
    "image_encoding_s": "encoding",
    "mean_batch": "batch",
    "mean_kv_usage": "mean cache",
    "max_kv_usage": "cache",
    "peak_memory_bytes": "memory",
    "energy_j": "energy",
    "cost_usd": "cost",
    "cost_per_day_usd": "cost/day",
    "energy_j_per_million_tokens": "energy/Mtok",
    "cost_usd_per_million_tokens": "cost/Mtok",
    "run_time_s": "run",
    "replica_failures": "failures",
    "link_failures": "link failures",
    "goodput_tokens_per_s": "useful tok/s",
    "effective_time_ratio": "effective",
    "effective_time_ratio_p10": "effective P10",
    "effective_time_ratio_p90": "effective P90",
    "checkpoint_fraction": "checkpoints",
    "data_fraction": "samples",
    "evaluation_fraction": "evaluations",
    "detection_fraction": "detection",
    "restart_fraction": "restarts",
    "waiting_fraction": "waiting",
    "lost_work_fraction": "lost work",
    "fewer_nodes_fraction": "fewer nodes",
    "checkpoint_bytes": "saved bytes",
    "checkpoint_stall_s": "save stall",
    "checkpoint_write_s": "save write",
    "checkpoint_load_s": "save load",
    "checkpoint_interval_s": "save interval",
    "advised_interval_s": "advised",
    "run_energy_j": "run energy",
    "run_cost_usd": "run costs",
    "makespan_s": "until done",
    "worst_slowdown": "worst slowdown",
    "mean_slowdown": "mean slowdown",
    "shared_link_s": "link full",
}
_PARTS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2E", "time": "", "s": "", "ms": ""}
_PERCENTILE = re.compile(r"p\d+")


def short(metric: str) -> str:
    """A metric in one or two words: `cost/Mtok`, `P99 TTFT`; of latencies `TTFT` is the mean."""
    job, colon, own = metric.rpartition(": ")
    if colon:
        return f"{job}: {short(own)}"
    if metric in _SHORT:
        return _SHORT[metric]
    words = [_PARTS.get(word, word) for word in metric.split("_")]
    shown = [word.upper() if _PERCENTILE.fullmatch(word) else word for word in words if word]
    return " ".join(shown[1:] if shown[0] == "mean" and shown[-1].isupper() else shown)
