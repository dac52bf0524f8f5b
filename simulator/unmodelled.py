"""Words of the field that the simulator does not model, or calls otherwise, and what there is instead.

Consulted before a misspelling is suspected: for keys, values, options, and names of models, stacks, schedules and
policies. A word is looked up without case, spaces, `-` and `_`; a name that ends in `*` stands for all that begin so.
"""

_SPECULATIVE = (
    "speculative decoding is `serving.speculation`: `kind` (mtp, eagle, medusa, draft-model, n-gram, parallel), "
    "`draft_length`, and `acceptance` or `tokens_per_step`, which are assumptions"
)
_ADAPTERS = (
    "low-rank adapters (LoRA) are `serving.adapters` when serving (`count`, `rank`, `targets`, `slots`), and "
    "`training.lora` in training"
)
_COMPRESSED = (
    "attention to compressed tokens or to blocks of them is not modelled; `deepseek-v3.2` and `glm-5`, whose indexer "
    "chooses single tokens, are"
)
_STATE = (
    "of models with state-space layers `mamba-1.4b`, `mamba-2-1.3b`, `jamba-1.5-large` and those of `nemotron-3` and "
    "`nemotron-h` are known; others are described by `attention` and `linear`"
)
_SCALING = (
    "replicas come and go by `serving.fleet.autoscaling`: `rule`, `target`, `min`, `max`; `clustersim plan` finds how "
    "many a load needs"
)
_SCHEDULE = (
    "it has another name here or none: zero bubble is `zb-h1` (with `vpp` PyTorch's InterleavedZeroBubble), `zb-h2`, "
    "`zb-v`, `v-half`, `v-min`, both directions `dualpipev`, waves `hanayo`, LoopedBFS `breadth-first`, the "
    "vocabulary over all stages `vocab-1`, `vocab-2`, `interlaced`; or write the path of a CSV file with the passes of "
    "each device, as scenarios/training/zero-bubble-csv.yaml does"
)
_CONTEXT = (
    "context parallelism is `training.parallel.cp` in training; when serving decodes share cached tokens over the "
    "devices of `tp` by `serving.parallel.dcp`, and prompts are not spread: write `tp`, `pp` or `ep`"
)
_REPLICAS = (
    "data parallelism is `serving.replicas` when serving (with `serving.parallel.dp` its attention ranks, which share "
    "experts), and `training.parallel.dp` in training"
)
_FINE_TUNING = (
    "reinforcement learning is a workflow of stages that train and serve: `clustersim workflow ppo-70b`, or the file "
    "of `grpo-7b-split` as a beginning"
)
_FORMATS = (
    "it is a recipe of training (`training.precision`); block-scaled formats that are served have no table of their "
    "own: write `fp8`, or `fp4` (on B200 measured with NVFP4)"
)
_BLOCKS = "this block-scaled format is not modelled; write `fp8`, or `fp4` (on B200 measured with NVFP4)"
_OPTIMIZERS = (
    "`training.optimizer` knows `adam`, `adam-8bit`, `lion`, `sgd`, `sgd-momentum`, `adafactor`, `muon`; near to "
    "others is the one that keeps as many numbers a parameter"
)
_EXTENDS = "`extends` stands in files only; to take another one write its name: `cluster=clusters/dgx-a100`"

UNMODELLED: dict[str, str] = {
    **dict.fromkeys(("speculative*", "draft", "draftmodel", "numspeculativetokens", "eagle*", "medusa*"), _SPECULATIVE),
    **dict.fromkeys(("lora*", "qlora*", "adapters", "peft*", "enablelora", "maxloras"), _ADAPTERS),
    **dict.fromkeys(("deepseekv4*", "minimaxm3*", "nsa", "csa", "hca"), _COMPRESSED),
    **dict.fromkeys(("mamba*", "jamba*", "zamba*", "rwkv*", "nemotronh*", "falconmamba*"), _STATE),
    **dict.fromkeys(("autoscaling", "autoscale*", "minreplicas", "maxreplicas", "elastic*"), _SCALING),
    **dict.fromkeys(
        (
            "wave*",
            "bidirectional",
            "zerobubble*",
            "zb*",
            "interleavedzero*",
            "looped*",
            "vocabparallel*",
            "vocabularyparallel*",
        ),
        _SCHEDULE,
    ),
    **dict.fromkeys(("cp", "contextparallel*", "decodecontextparallelsize", "dcp"), _CONTEXT),
    **dict.fromkeys(("dp", "dataparallel", "dataparallelsize"), _REPLICAS),
    **dict.fromkeys(("rlhf", "ppo", "grpo", "dpo", "rollout*"), _FINE_TUNING),
    **dict.fromkeys(("mxfp8", "nvfp4"), _FORMATS),
    **dict.fromkeys(("mxfp4", "mxfp6"), _BLOCKS),
    **dict.fromkeys(
        ("sgd", "lion", "adafactor", "shampoo", "soap", "adam", "adamw", "muon", "dion", "lamb", "lars", "sophia*"),
        _OPTIMIZERS,
    ),
    "extends": _EXTENDS,
    **dict.fromkeys(
        ("t5*", "flant5*", "bart*", "whisper*"),
        "of models with an encoder and a decoder `t5-base`, `t5-11b`, `flan-t5-xxl`, `bart-large` and "
        "`whisper-large-v3` are known (`model.encoder_layers`), on one pipeline stage",
    ),
    **dict.fromkeys(
        ("vision*", "multimodal*", "images", "mmprocessor*", "vit*", "llava*"),
        "images of requests are `requests.images`, their encoder is `model.vision` (as `qwen2-vl-7b` has it); in "
        "training write their tokens as part of the sequence",
    ),
    **dict.fromkeys(
        ("checkpointing", "checkpointinterval", "saveinterval"),
        "checkpoints of a run are `training.run.checkpoints`; activation checkpointing is `training.recompute`",
    ),
    **dict.fromkeys(
        ("failures", "mtbf", "faults", "restart*"),
        "failures and restarts of a run that trains are `training.run.failures` and `training.run.recovery`; replicas "
        "that serve fail by `serving.fleet.failures`",
    ),
    **dict.fromkeys(
        ("beamsearch", "beams", "beamwidth", "bestof"), "an answer is one sequence; ask for more requests in its place"
    ),
    **dict.fromkeys(
        ("guideddecoding", "structuredoutput*", "grammar", "jsonmode"),
        "masks of a grammar are not modelled; their host time belongs into `stack.sequence_overhead`",
    ),
    **dict.fromkeys(
        ("continuous", "continuousbatching", "inflight", "inflightbatching"),
        "every policy but `static` batches continuously: `vllm-v1`, `orca`, `sarathi`, `guaranteed` (TensorRT-LLM)",
    ),
    **dict.fromkeys(
        ("chunkedprefill", "enablechunkedprefill"),
        "chunks of prompts are a matter of the policy: write `serving.batching.policy: sarathi`, or `vllm-v1`",
    ),
    **dict.fromkeys(
        ("sticky", "kvaware"),
        "routers that remember are `session`, `consistent-hash` and `cache-aware`; `prefix-aware` looks into caches",
    ),
    **dict.fromkeys(
        ("tenants", "fairness", "vtc"),
        "tenants are `requests.tenants`, a list of `{name, share}`; the policy `fair` is the virtual token counter",
    ),
    **dict.fromkeys(
        ("cpuoffloadgb",),
        "weights of a model that serves stay in the devices' memory; blocks of the cache may leave it, "
        "`serving.kv_cache.tiers`",
    ),
    **dict.fromkeys(
        ("kvoffload*", "kvconnector*", "kvtransferconfig", "lmcache*", "hicache*", "mooncakestore", "kvbm"),
        "blocks on hosts, disks, in stores are `serving.kv_cache.tiers`, such as `[{name: host, capacity: 500 GB}]`; "
        "`preemption: swap` moves preempted sequences",
    ),
    **dict.fromkeys(
        ("tenancy", "sharedcluster"), "several jobs share a cluster as a scenario with `jobs:`, a list of them"
    ),
    "turbomind": "LMDeploy's engine is the stack `lmdeploy`",
    **dict.fromkeys(
        ("lightllm*", "mlcllm*", "exllama*", "ktransformers", "ray*", "tritonserver"),
        "this engine is no stack of its own; `clustersim profiles stacks` lists those that there are",
    ),
    **dict.fromkeys(
        ("colossalai*", "alpa*", "paxml", "lightning", "accelerate"),
        "this framework is no stack of its own; the nearest are `fsdp`, `megatron-core`, `deepspeed` and `maxtext`",
    ),
}
"""What to say of each word."""


def unmodelled(name: str) -> str:
    """What to say of a name that is known and not modelled; empty of any other."""
    fused = "".join(letter for letter in name.rpartition("/")[2].casefold() if letter not in "-_ .")
    if fused in UNMODELLED:
        return UNMODELLED[fused]
    starts = (text for word, text in UNMODELLED.items() if word.endswith("*") and fused.startswith(word[:-1]))
    return next(starts, "")
