"""Megatron's arguments of mixtures of experts: their shape, their mesh, and the dispatcher of rows."""

import re

from simulator.interop.arguments import Arguments

COUNT = ("num_experts", "num_moe_experts")
DISPATCHERS = {"alltoall": "alltoall", "allgather": "allgather", "flex": "deepep", "alltoall_seq": "alltoall"}
"""Words of `--moe-token-dispatcher-type`; `flex` calls a library that merges copies, DeepEP by default."""
BACKEND = "moe_flex_dispatcher_backend"
BESIDE = {
    "overlap_moe_expert_parallel_comm": "overlap_experts",
    "moe_shared_expert_overlap": "overlap_shared_experts",
}
"""What exchanges run beside: the passes of another microbatch, shared experts."""
RUN = re.compile(r"\[([01])\](?:\*(\d+))?")


def mixture(arguments: Arguments, layers: int) -> None:
    """Write the shape of the experts, where there are any."""
    draft, note = arguments.draft, arguments.note
    said = any(name in arguments.found and arguments.on(name) for name in COUNT)
    count = (arguments.whole(*COUNT) or 0) if said else 0
    if count < 2:
        arguments.taken.update((*COUNT, "expert_model_parallel_size", "expert_tensor_parallel_size"))
        return
    draft.put("model.experts", count, note(*COUNT))
    top_k = arguments.whole("moe_router_topk")
    draft.put("model.top_k", top_k or 2, note("moe_router_topk") if top_k else "Megatron's default")
    draft.put("model.expert_ffn", arguments.whole("moe_ffn_hidden_size"), note("moe_ffn_hidden_size"))
    shared = "moe_shared_expert_intermediate_size"
    draft.put("model.shared_ffn", arguments.whole(shared), note(shared))
    groups, limit = arguments.whole("moe_router_num_groups"), arguments.whole("moe_router_group_topk")
    draft.put("model.expert_groups", groups, note("moe_router_num_groups"))
    draft.put("model.expert_group_limit", limit, note("moe_router_group_topk"))
    _pattern(arguments, layers)


def _pattern(arguments: Arguments, layers: int) -> None:
    """Which layers have experts: every n-th from the first on, or those that a list names."""
    name = "moe_layer_freq"
    said = (arguments.text(name) or "1").replace(" ", "").strip("'\"")
    if said.isdigit() and int(said) > 0:
        dense = int(said) - 1
        runs = [("moe", 1), ("dense", dense)] if dense else []
    else:
        inside = said[1:-1] if said.startswith("(") else said
        runs = [("moe" if kind == "1" else "dense", int(times or 1)) for kind, times in RUN.findall(inside)]
        if RUN.sub("", inside).strip("+") or sum(times for _, times in runs) != layers:
            argument = arguments.found[name]
            hint = "write it as Megatron's documents do: ([0]*3+[1]*58)"
            arguments.draft.wrong(f"--moe-layer-freq does not name {layers} layers", hint, argument.line)
            return
    if {kind for kind, _ in runs} == {"moe", "dense"}:
        pattern: list[dict[str, str | int | bool]] = [{"repeat": times, "mlp": kind} for kind, times in runs]
        arguments.draft.put("model.pattern", pattern, arguments.note(name))


def mesh(arguments: Arguments, tp: int) -> None:
    """Write the mesh of the experts."""
    draft, note = arguments.draft, arguments.note
    if "model.experts" not in draft.settings:
        return
    ep, etp = arguments.whole("expert_model_parallel_size"), arguments.whole("expert_tensor_parallel_size")
    draft.put("training.parallel.ep", ep or 1, note("expert_model_parallel_size") or "default")
    draft.put("training.parallel.etp", etp or tp, note("expert_tensor_parallel_size") or "as tp, Megatron's default")


def sending(arguments: Arguments) -> None:
    """Write how rows come to the experts."""
    draft, note = arguments.draft, arguments.note
    if "model.experts" not in draft.settings:
        return
    said = arguments.text("moe_token_dispatcher_type") is not None
    sends = arguments.choice(DISPATCHERS, "moe_token_dispatcher_type") if said else "allgather"
    draft.put("training.dispatcher", sends, note("moe_token_dispatcher_type") or "Megatron's default")
    backend, eager = arguments.text(BACKEND), arguments.on("moe_enable_deepep")
    if sends != "deepep" and (backend or eager):
        draft.left_out.append("--moe-enable-deepep, --moe-flex-dispatcher-backend: only the flex dispatcher calls them")
    elif sends == "deepep" and backend not in (None, "deepep"):
        draft.left_out.append(f"--moe-flex-dispatcher-backend {backend[:40]}: its exchange is priced as DeepEP's")
    for name, key in BESIDE.items():
        draft.put(f"training.{key}", arguments.on(name) or None, note(name))
    capacity, padded = arguments.text("moe_expert_capacity_factor"), arguments.on("moe_pad_expert_input_to_capacity")
    if capacity is not None:
        draft.put("training.routing.capacity", float(capacity), note("moe_expert_capacity_factor"))
        draft.put("training.routing.padded", padded, note("moe_pad_expert_input_to_capacity") or "default")
