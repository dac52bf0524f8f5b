"""The optimizer by the arguments of Megatron (megatron/training/arguments.py, core 0.12 and later), and gradients."""

from simulator.interop.arguments import Arguments
from simulator.interop.draft import printable

NAMES = {
    "adam": "adam",
    "sgd": "sgd-momentum",
    "lion": "lion",
    "muon": "muon",
    "dist_muon": "muon",
}
"""Optimizers by `--optimizer`; that of SGD has a momentum by default."""
OWNED = "dist_muon"
"""Of which each matrix has one owner: Megatron's layer-wise distributed optimizer."""
MODES = {"blockwise": "blockwise", "duplicated": "duplicated", "distributed": "distributed"}
FORMATS = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}


def owned(arguments: Arguments) -> bool:
    """Whether whole matrices have owners over data parallelism, which spreads states as ZeRO-1 does."""
    return arguments.text("optimizer") == OWNED


def optimizer(arguments: Arguments) -> None:
    """Write the optimizer where one is named, or keeps its moments in fewer bits."""
    draft, note = arguments.draft, arguments.note
    name = arguments.choice(NAMES, "optimizer")
    moments = _moments(arguments)
    if name is None and moments is None:
        return
    draft.put("training.optimizer.name", name or "adam", note("optimizer") or "Megatron's default")
    draft.put("training.optimizer.moments", moments, note("exp_avg_dtype", "exp_avg_sq_dtype"))
    if name != "muon":
        return
    draft.put("training.optimizer.iterations", arguments.whole("muon_num_ns_steps"), note("muon_num_ns_steps"))
    draft.put("training.optimizer.tensor", arguments.choice(MODES, "muon_tp_mode"), note("muon_tp_mode"))
    if owned(arguments):
        draft.put("training.optimizer.whole", "owners", note("optimizer"))
    if arguments.on("muon_no_split_qkv"):
        draft.put("training.optimizer.fused", "all", note("muon_no_split_qkv"))


def _moments(arguments: Arguments) -> str | None:
    """The format of moments under a precision-aware optimizer; of two different ones the first moment's."""
    if not arguments.on("use_precision_aware_optimizer"):
        return None
    first, second = (arguments.choice(FORMATS, name) for name in ("exp_avg_dtype", "exp_avg_sq_dtype"))
    if (first or "fp32") != (second or "fp32"):
        words = printable(f"--exp-avg-sq-dtype {second or 'fp32'}")
        arguments.draft.left_out.append(f"{words}: both moments are kept as the first, in {first or 'fp32'}")
    return first or ("fp32" if second else None)


def gradients(arguments: Arguments, usual: str) -> None:
    """Write the format in which gradients are summed and kept; it is that of their reduction unless said."""
    given = arguments.choice(FORMATS, "main_grads_dtype") if arguments.on("use_precision_aware_optimizer") else None
    origin = arguments.note("main_grads_dtype") if given else ""
    names = ("grad_reduce_in_bf16", "accumulate_allreduce_grads_in_fp32")
    arguments.draft.put("training.gradient_precision", given or usual, origin or arguments.note(*names) or "as reduced")
