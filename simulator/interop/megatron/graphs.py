"""CUDA graphs by Megatron's arguments: what of each layer the host launches as one."""

from simulator.interop.arguments import Arguments
from simulator.interop.draft import printable

IMPLEMENTATIONS = ("cuda_graph_impl", "enable_cuda_graph", "external_cuda_graph")
SCOPES = {"full": "all", "full_iteration": "all", "attn": "attention", "moe_router": "router"}
"""Words of `--cuda-graph-scope` that a scenario has."""
INSIDE = ("moe_preprocess",)
"""Words that belong to another scope here: what comes before rows are sent is the router's."""


def captured(arguments: Arguments) -> None:
    """Write what is captured: whole layers where no scope is said."""
    draft, note = arguments.draft, arguments.note
    words = (arguments.text("cuda_graph_scope") or "full").replace(",", " ").split()
    asked = arguments.text("cuda_graph_impl") not in (None, "none")
    if not asked and not arguments.on("enable_cuda_graph", "external_cuda_graph"):
        return
    found = tuple(dict.fromkeys(SCOPES[word] for word in words if word in SCOPES))
    draft.put("training.cuda_graphs", list(found), note("cuda_graph_scope", *IMPLEMENTATIONS))
    other = [word[:40] for word in words if word not in SCOPES and word not in INSIDE]
    if other:
        draft.left_out.append(f"--cuda-graph-scope {printable(' '.join(other))}: launched kernel by kernel here")
