"""Sound files of other programs: arguments, configurations and networks that somebody could have, to import.

What an import writes is read again: a scenario is explained, a cluster is drawn.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from simulator.interop.engines.names import ALSO, LEFT_OUT, NAMES
from simulator.interop.huggingface.translate import FAMILIES
from simulator.interop.megatron.translate import ATTENTION, CONTEXT, KNOWN, NORMS, POSITIONS, RECIPES, TOKENIZERS
from simulator.interop.torchtitan.translate import CONTEXT as ROTATED
from simulator.interop.torchtitan.translate import FLAVORS, SCHEDULES
from tests.fuzz.drawing import some
from tests.fuzz.harness import Answer, Input, answered
from tests.fuzz.mutations import spoil

DAMAGED = 0.1
"""Share of files with bytes changed."""
_SIZES = (*("1", "2", "4", "8", "16", "64", "128", "1024", "4096") * 3, "0", "-1", "3", "auto", "")
_SHARES = ("0.9", "0.5", "1", "0", "0.85")
_SERVED = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-32B",
    "deepseek-ai/DeepSeek-R1",
    "openai/gpt-oss-120b",
    "x/y",
)


def imported(random: Random) -> Input:
    """A file, and perhaps what is said beside it."""
    name, text, more = random.choice(_MADE)(random)
    data = bytearray(text.encode())
    if random.random() < DAMAGED:
        spoil(data, random)
    cluster = random.choice(("dgx-h100", "dgx-h100", "dgx-a100", "dgx-b200", "mi300x-cluster"))
    words = ["import", name, "--cluster", cluster, *more, "--out", "o.yaml"]
    words += ["--nodes", random.choice(("1", "2", "8"))] if random.random() < 0.3 else []

    def check(answer: Answer) -> str | None:
        if answer.code:
            return "said something on standard output" if answer.out else None
        written = Path("o.yaml").read_text(encoding="utf-8")
        network = "\nversion:" not in f"\n{written}"
        again = answered(["network", "o.yaml", "--json", "-"] if network else ["explain", "o.yaml"])
        return f"what it wrote is refused: {again.err[-400:]}" if again.code else None

    return Input(words, {name: bytes(data)}, check)


_Made = tuple[str, str, list[str]]


def _engine(random: Random) -> _Made:
    """A command line of an engine that serves."""
    engine = random.choice(tuple(NAMES))
    begin = {
        "vllm": "vllm serve {}",
        "sglang": "python3 -m sglang.launch_server --model-path {}",
    }.get(engine, random.choice(("trtllm-serve {}", "trtllm-bench --model {} throughput")))
    words = [begin.format(random.choice(_SERVED))]
    known = [name for names in NAMES[engine].values() for name in names]
    names = [*known, *known, *ALSO[engine], *ALSO[engine], *random.sample(tuple(LEFT_OUT), 3), "frobnicate"]
    for name in random.sample(names, random.choice((1, 2, 3, 5))):
        flag = f"--{name.replace('_', '-') if random.random() < 0.7 else name}"
        words.append(random.choice((flag, f"{flag} {_value(name, random)}", f"{flag}={_value(name, random)}")))
    return "start.sh", " ".join(words) + "\n", []


def _value(name: str, random: Random) -> str:
    """A value that an argument of such a name could have."""
    by_word: Mapping[str, tuple[str, ...]] = {
        "fraction": _SHARES,
        "utilization": _SHARES,
        "dtype": ("fp8", "fp8_e4m3", "auto", "bf16"),
        "quantization": ("fp8", "awq", "gptq", "modelopt", "w8a8_fp8", "nope"),
        "transfer": ('\'{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}\'', "{}", "prefill"),
        "mode": ("prefill", "decode", "null"),
        "enable": ("true", "false", "1", ""),
    }
    return random.choice(next((values for word, values in by_word.items() if word in name), _SIZES))


def _megatron(random: Random) -> _Made:
    """Arguments of Megatron-LM."""
    words = ["torchrun pretrain_gpt.py", "--num-layers", random.choice(("4", "8", "61"))]
    words += ["--hidden-size", random.choice(("1024", "7168"))]
    words += ["--num-attention-heads", "16", "--seq-length", "2048", "--vocab-size", "32000", "--micro-batch-size", "1"]
    words += ["--global-batch-size", random.choice(("8", "64", "100")), random.choice(("--bf16", "--fp16", ""))]
    given: Mapping[str, tuple[str, ...]] = {
        "tokenizer-type": tuple(TOKENIZERS),
        "position-embedding-type": tuple(POSITIONS),
        "normalization": tuple(NORMS),
        "attention-backend": tuple(ATTENTION),
        "cp-comm-type": tuple(CONTEXT),
        "fp8-recipe": tuple(RECIPES),
        "fp8-format": ("hybrid", "e4m3"),
        "recompute-granularity": ("full", "selective"),
        "recompute-method": ("uniform", "block"),
        "recompute-modules": ("core_attn", "mla_up_proj moe_act", "layernorm", "moe"),
        "tensor-model-parallel-size": ("1", "2", "8"),
        "pipeline-model-parallel-size": ("1", "2", "4"),
        "expert-model-parallel-size": ("1", "2", "8"),
        "num-experts": ("8", "64"),
        "moe-router-topk": ("1", "2", "8"),
        "moe-layer-freq": ("1", "2", "[0]*1+[1]*3", "([0]*3+[1]*58)"),
        "moe-ffn-hidden-size": ("512", "2048"),
        "moe-token-dispatcher-type": ("alltoall", "flex", "allgather"),
        "mtp-num-layers": ("0", "1", "2"),
        "window-size": ("128,0", "(1024, 0)", "x"),
        "num-layers-per-virtual-pipeline-stage": ("1", "2"),
        "kv-lora-rank": ("512",),
        "q-lora-rank": ("1536",),
        "cuda-graph-impl": ("local", "transformer_engine"),
        "cuda-graph-scope": ("full", "attn", "moe_router", "attn moe_router"),
        "optimizer": ("adam", "dist_muon", "muon", "sgd"),
        "lora-dim": ("8",),
    }
    plain = ("swiglu", "sequence-parallel", "multi-latent-attention", "use-distributed-optimizer", "tp-comm-overlap")
    plain += ("recompute-activations", "untie-embeddings-and-output-weights", "overlap-grad-reduce")
    for name in random.sample(tuple(given), random.choice((2, 4, 7))):
        words += [f"--{name}", random.choice(given[name])]
    for name in random.sample(sorted(KNOWN), random.choice((0, 1, 3))):
        words += [f"--{name.replace('_', '-')}", random.choice(_SIZES)]
    words += [f"--{name}" for name in plain if random.random() < 0.3]
    return "train.sh", " ".join(words) + "\n", []


def _titan(random: Random) -> _Made:
    """A job of torchtitan."""
    family = random.choice(tuple(FLAVORS))
    sections: dict[str, dict[str, Any]] = {
        "model": {"name": family, "flavor": random.choice((*FLAVORS[family], *FLAVORS[family], "9X"))},
        "training": {"local_batch_size": random.choice((1, 2)), "seq_len": random.choice((2048, 8192, 131072))},
        "parallelism": some(
            random,
            {
                "tensor_parallel_degree": (1, 2, 8),
                "pipeline_parallel_degree": (1, 2, 4),
                "context_parallel_degree": (1, 2),
                "expert_parallel_degree": (1, 2, 8),
                "expert_tensor_parallel_degree": (1, 2),
                "data_parallel_shard_degree": (-1, 1, 4),
                "data_parallel_replicate_degree": (1, 2, 3),
                "pipeline_parallel_schedule": (*SCHEDULES, "nope"),
                "pipeline_parallel_microbatch_size": (1, 2),
                "pipeline_parallel_layers_per_stage": (1, 2, 16),
                "context_parallel_rotate_method": tuple(ROTATED),
                "enable_async_tensor_parallel": (True,),
                "expert_parallel_comm_backend": ("standard", "deepep"),
            },
        ),
        "activation_checkpoint": some(
            random, {"mode": ("none", "full", "selective"), "selective_ac_option": ("op", "1", "2", "x")}, 0.6
        ),
        "optimizer": some(random, {"name": ("AdamW", "Muon", "Lion"), "early_step_in_backward": (True,)}),
        "compile": some(random, {"enable": (True, False)}),
        "quantize.linear.float8": some(random, {"recipe_name": ("rowwise", "tensorwise", "x")}, 0.3),
    }
    if random.random() < 0.3:
        sections["training"]["global_batch_size"] = random.choice((8, 64, 100))
    lines = [
        f"[{section}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in keys.items()) for section, keys in sections.items()
    ]
    return "job.toml", "\n".join(lines), []


def _toml(value: Any) -> str:
    return json.dumps(value)


def _deepspeed(random: Random) -> _Made:
    """A configuration of DeepSpeed."""
    zero: dict[str, Any] = {"stage": random.choice((0, 1, 2, 3))}
    zero |= some(
        random,
        {
            "offload_optimizer": (
                {"device": "cpu"},
                {"device": "nvme"},
                {"device": "none"},
                {"device": "cpu", "ratio": 0.3},
            ),
            "offload_param": ({"device": "cpu"}, {"device": "nvme"}),
            "overlap_comm": (True, False),
            "reduce_bucket_size": (5e8, 1, "auto", 0),
            "zero_hpz_partition_size": (8,),
        },
        0.3,
    )
    config = {"zero_optimization": zero, "train_micro_batch_size_per_gpu": 1} | some(
        random,
        {
            "train_batch_size": (16, 64, 64, "auto", 7),
            "train_micro_batch_size_per_gpu": (1, 2, "auto"),
            "gradient_accumulation_steps": (1, 4, "auto"),
            "bf16": ({"enabled": True}, {"enabled": "auto"}),
            "fp16": ({"enabled": True},),
            "optimizer": tuple({"type": name} for name in ("AdamW", "Lion", "SGD", "OneBitAdam", "Muon")),
            "communication_data_type": ("fp32", "bf16", "x"),
            "activation_checkpointing": ({"cpu_checkpointing": True},),
        },
        0.5,
    )
    told = ["--set", f"model={random.choice(('llama-2-7b', 'llama-3-8b', 'mixtral-8x7b'))}"]
    told += ["--set", f"sequence_length={random.choice(('2048', '4096', '8192', 'x'))}"]
    return "ds_config.json", json.dumps(config), told + (["--set", "recompute=full"] if random.random() < 0.3 else [])


def _config(random: Random) -> _Made:
    """A config.json of Hugging Face."""
    config: dict[str, Any] = {
        "model_type": random.choice(sorted(FAMILIES)),
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_attention_heads": 16,
        "num_hidden_layers": random.choice((4, 24)),
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    }
    config |= some(
        random, {"n_embd": (2048,), "n_layer": (24,), "n_head": (16,), "d_model": (1024,), "n_inner": (None,)}, 0.3
    )
    config |= some(random, _OPTIONAL, 0.25)
    if random.random() < 0.1:
        config.pop(random.choice(tuple(config)))
    return "config.json", json.dumps(config), []


_OPTIONAL: Mapping[str, tuple[Any, ...]] = {
    "num_key_value_heads": (1, 2, 8, 16, 3),
    "head_dim": (64, 128, 256),
    "tie_word_embeddings": (True, False),
    "sliding_window": (None, 128, 4096),
    "use_sliding_window": (True, False),
    "layer_types": (["full_attention"] * 4, ["sliding_attention", "full_attention"] * 12, ["linear_attention"], [1]),
    "num_experts": (8, 64),
    "num_local_experts": (8, 16),
    "n_routed_experts": (64, 256),
    "n_shared_experts": (0, 1, 2),
    "num_experts_per_tok": (1, 2, 8, 100),
    "moe_intermediate_size": (768, 2048),
    "first_k_dense_replace": (0, 1, 3, 99),
    "kv_lora_rank": (512,),
    "q_lora_rank": (None, 1536),
    "qk_rope_head_dim": (64,),
    "qk_nope_head_dim": (128,),
    "v_head_dim": (128,),
    "n_group": (1, 8),
    "topk_group": (1, 4),
    "num_nextn_predict_layers": (0, 1),
    "index_topk": (2048,),
    "state_size": (16, 128),
    "num_heads": (16, 128),
    "torch_dtype": ("bfloat16", "float16", "float32"),
    "hidden_act": ("silu", "gelu", "relu", "x"),
    "quantization_config": (
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        {"quant_method": "awq", "bits": 4, "group_size": 128},
        {"quant_method": "mxfp4"},
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}}},
        {"quant_method": "nope"},
    ),
    "vision_config": ({"hidden_size": 1024, "depth": 24}, {}),
    "hybrid_override_pattern": ("M-M*-", "M*ME", ""),
    "attn_layer_period": (4,),
    "full_attention_interval": (4, 1),
    "mlp_only_layers": ([], [0], [99]),
    "decoder_sparse_step": (1, 2, 0),
}


def _conf(random: Random) -> _Made:
    """Slurm's topology.conf of leaves, or of blocks."""
    size, count = random.choice((1, 4, 16)), random.choice((1, 2, 5))
    names = [f"n[{size * leaf}-{size * leaf + size - 1}]" if size > 1 else f"n{leaf}" for leaf in range(count)]
    if random.random() < 0.3:
        lines = [f"BlockName=b{leaf} Nodes={nodes}" for leaf, nodes in enumerate(names)]
        lines += random.choice(([f"BlockSizes={size}"], [f"BlockSizes={size},{2 * size}"], []))
        return "topology.conf", "\n".join(lines) + "\n", []
    lines = [f"SwitchName=leaf{leaf} Nodes={nodes}" for leaf, nodes in enumerate(names)]
    lines += random.choice(
        ([f"SwitchName=spine Switches=leaf[0-{count - 1}]"], ["SwitchName=spine Switches=leaf0"], [])
    )
    lines += random.choice(([], [], ["SwitchName=core Switches=spine"], ["SwitchName=leaf0 Nodes=x"], ["# end"]))
    return "topology.conf", "\n".join(lines) + "\n", []


def _graph(random: Random) -> _Made:
    """A graph as networkx writes it."""
    nodes, switches = random.choice((1, 2, 3, 6)), random.choice((1, 1, 2, 4))
    listed = [{"id": f"h{n}", "kind": random.choice(("node", "host"))} for n in range(nodes)]
    listed += [{"id": f"s{n}"} for n in range(switches)]
    links: list[dict[str, Any]] = [{"source": f"h{n}", "target": f"s{n % switches}"} for n in range(nodes)]
    cable = {"bandwidth": "400 Gbit/s"} if random.random() < 0.9 else {}
    links += [{"source": f"s{n}", "target": f"s{n + 1}"} | cable for n in range(switches - 1)]
    rest = {"bandwidth": ("200 Gbit/s", "0 GB/s", 5, "x"), "latency": ("1 us", "0 s"), "count": (1, 2, 0)}
    links = [link | some(random, rest, 0.2) for link in links if random.random() < 0.97]
    graph = {"directed": random.random() < 0.1, "nodes": listed, "links": links}
    return "graph.json", json.dumps(graph), ["--format", "networkx"]


def _astra(random: Random) -> _Made:
    """ASTRA-sim's network of one to four dimensions."""
    dimensions = random.choice((1, 1, 2, 2, 3, 4))
    kinds = ("Ring", "Switch", "FullyConnected", "Mesh2D", "Torus2D")
    drawn = {
        "topology": [random.choices(kinds, (6, 6, 6, 1, 1))[0] for _ in range(dimensions)],
        "npus_count": [random.choice((1, 2, 4, 8, 3, 16)) for _ in range(dimensions)],
        "bandwidth": [random.choices((25, 50.0, 450, 0.5, 0), (9, 9, 9, 9, 1))[0] for _ in range(dimensions)],
        "latency": [random.choice((500, 700.5, 0, 1)) for _ in range(dimensions)],
    }
    if random.random() < 0.1:
        drawn[random.choice(tuple(drawn))].append(4)
    lines = [f"{key}: [{', '.join(map(str, values))}]" for key, values in drawn.items() if random.random() < 0.98]
    return "net.yml", "\n".join(lines) + "\n", ["--format", "astra-sim"] if random.random() < 0.5 else []


_MADE: tuple[Callable[[Random], _Made], ...] = (_engine, _megatron, _titan, _deepspeed, _config, _conf, _graph, _astra)
