"""Arguments of serving engines by what they are to a scenario.

Names and what they imply are those of vLLM 0.8 to 0.11 (docs.vllm.ai, engine arguments), SGLang 0.4.6 to 0.5
(docs.sglang.ai, server arguments) and TensorRT-LLM 0.18 to 1.1 (trtllm-serve, trtllm-bench, LLM API arguments).
"""

from simulator.interop.engines.commands import SGLANG, TENSORRT, VLLM

_NO_EFFECT = """
host port model model_path served_model_name trust_remote_code tokenizer tokenizer_path tokenizer_mode download_dir
load_format api_key chat_template tool_call_parser enable_auto_tool_choice reasoning_parser disable_log_requests
disable_log_stats no_enable_log_requests uvicorn_log_level log_level log_level_http enable_metrics enable_request_id
show_time_cost response_role root_path ssl_keyfile ssl_certfile seed random_seed revision code_revision config_format
hf_overrides hf_config_path allowed_origins allowed_methods allowed_headers middleware dist_init_addr node_rank
nccl_port base_gpu_id master_addr master_port distributed_executor_backend data_parallel_address
data_parallel_rpc_port data_parallel_start_rank data_parallel_backend headless watchdog_timeout decode_log_interval
skip_tokenizer_init enable_p2p_check metadata_server_port server_role extra_llm_api_options config extra_engine_args
backend log_requests log_requests_level collect_detailed_expert_info otlp_traces_endpoint crash_dump_folder
disaggregation_bootstrap_port disaggregation_ib_device disaggregation_transfer_backend print_iter_log
enable_iter_perf_stats dataset report_json output_json iteration_log workspace streaming eos_id gpus_per_node
cluster_size num_postprocess_workers trtllm_serve_args weight_version preferred_sampling_params allow_credentials
file_storage_path stream_interval max_seq_len_to_capture
"""

NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    VLLM: {
        "tp": ("tensor_parallel_size",),
        "pp": ("pipeline_parallel_size",),
        "dp": ("data_parallel_size",),
        "dcp": ("decode_context_parallel_size",),
        "sequences": ("max_num_seqs",),
        "chunk": ("max_num_batched_tokens",),
        "steps": ("num_scheduler_steps",),
        "context": ("max_model_len",),
        "memory": ("gpu_memory_utilization",),
        "graphs": (
            "max_cudagraph_capture_size",
            "cudagraph_capture_sizes",
            "cuda_graph_sizes",
            "compilation_config.max_cudagraph_capture_size",
            "compilation_config.cudagraph_capture_sizes",
        ),
        "block": ("block_size",),
        "blocks": ("num_gpu_blocks_override",),
        "kv": ("kv_cache_dtype",),
        "quantization": ("quantization", "q"),
        "kept": ("enable_prefix_caching",),
        "unkept": ("no_enable_prefix_caching",),
        "halves": ("enable_dbo",),
        "role": ("kv_transfer_config",),
        "nodes": ("nnodes",),
    },
    SGLANG: {
        "tp": ("tp_size", "tensor_parallel_size"),
        "pp": ("pp_size", "pipeline_parallel_size"),
        "dp": ("dp_size", "data_parallel_size"),
        "ep": ("ep_size", "expert_parallel_size", "ep"),
        "sequences": ("max_running_requests",),
        "chunk": ("chunked_prefill_size",),
        "steps": ("num_continuous_decode_steps",),
        "context": ("context_length",),
        "memory": ("mem_fraction_static",),
        "graphs": ("cuda_graph_max_bs", "cuda_graph_bs"),
        "block": ("page_size",),
        "kv": ("kv_cache_dtype",),
        "quantization": ("quantization",),
        "unkept": ("disable_radix_cache",),
        "halves": ("enable_two_batch_overlap",),
        "role": ("disaggregation_mode",),
        "nodes": ("nnodes",),
    },
    TENSORRT: {
        "tp": ("tp_size", "tensor_parallel_size"),
        "pp": ("pp_size", "pipeline_parallel_size"),
        "ep": ("ep_size", "ep", "moe_expert_parallel_size"),
        "sequences": ("max_batch_size",),
        "chunk": ("max_num_tokens",),
        "context": ("max_seq_len",),
        "free": (
            "kv_cache_free_gpu_memory_fraction",
            "free_gpu_memory_fraction",
            "kv_cache_free_gpu_mem_fraction",
            "kv_cache_config.free_gpu_memory_fraction",
        ),
        "graphs": ("cuda_graph_config.max_batch_size", "cuda_graph_config.batch_sizes", "cuda_graph_batch_sizes"),
        "block": ("kv_cache_config.tokens_per_block", "tokens_per_block"),
        "kv": ("kv_cache_config.dtype",),
        "quantization": ("quantization",),
        "reuse": ("kv_cache_config.enable_block_reuse",),
        "nodes": (),
    },
}
"""Names that the value of a scenario may have, by engine, the usual one first."""

NO_EFFECT = frozenset(_NO_EFFECT.split())
"""Arguments that change no time that is simulated."""

LEFT_OUT = {
    "enforce_eager": "whether graphs are captured is the stack's",
    "disable_cuda_graph": "whether graphs are captured is the stack's",
    "cuda_graph_config.enable_padding": "how batches are padded is the stack's",
    "use_cuda_graph": "whether graphs are captured is the stack's",
    "compilation_config": "graphs and fused kernels are the stack's",
    "o": "graphs and fused kernels are the stack's",
    "attention_backend": "which attention kernel runs is the stack's",
    "prefill_attention_backend": "which attention kernel runs is the stack's",
    "decode_attention_backend": "which attention kernel runs is the stack's",
    "moe_runner_backend": "which kernels experts run is the stack's",
    "moe_config.backend": "which kernels experts run is the stack's",
    "moe_a2a_backend": "see serving.experts.dispatcher",
    "deepep_mode": "see serving.experts.dispatcher",
    "all2all_backend": "see serving.experts.dispatcher",
    "enable_eplb": "see serving.experts.routing",
    "num_redundant_experts": "see serving.experts.routing",
    "ep_num_redundant_experts": "see serving.experts.routing",
    "swap_space": "sequences that make room are computed again; see serving.kv_cache.preemption",
    "cpu_offload_gb": "see serving.weights",
    "scheduling_policy": "see serving.batching.policy",
    "schedule_policy": "see serving.batching.policy",
    "schedule_conservativeness": "how much is held back for answers is the policy's",
    "max_prefill_tokens": "the size of a chunk bounds the prompts of a step here",
    "enable_mixed_chunk": "see serving.batching.policy",
    "async_scheduling": "whether steps are planned ahead is the stack's",
    "disable_overlap_schedule": "whether steps are planned ahead is the stack's",
    "disable_overlap_scheduler": "whether steps are planned ahead is the stack's",
    "disable_custom_all_reduce": "which kernels sum over devices is the stack's",
    "dtype": "16 bits of either kind take the same time",
    "enable_lora": "see serving.adapters",
    "lora_paths": "see serving.adapters",
    "lora_modules": "see serving.adapters",
    "enable_torch_compile": "fused kernels are the stack's",
    "limit_mm_per_prompt": "images of requests are not read from here",
    "enable_chunked_prefill": "the stack's policy cuts prompts, or not",
    "moe_dense_tp_size": "dense layers are cut as attention is",
    "enable_dp_lm_head": "the output head is cut as attention is",
    "enable_chunked_context": "see serving.batching.policy",
    "attention_dp_config.enable_balance": "requests go to ranks by the router",
    "max_beam_width": "one sequence a request is simulated",
    "data_parallel_size_local": "ranks lie one after the other on the devices",
    "load_balance_method": "see serving.router",
    "warmup": "all requests are measured",
}
"""Arguments with an effect that is not read, and why."""

ALSO = {
    VLLM: ("enable_expert_parallel",),
    SGLANG: ("enable_dp_attention", "moe_dense_tp_size"),
    TENSORRT: ("enable_attention_dp", "concurrency", "num_requests", "tp", "pp"),
}
"""Arguments that are read beside those of `NAMES`."""
