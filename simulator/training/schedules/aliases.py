"""Names of schedules in other programs, taken wherever one of ours is; letters may be small or large.

PyTorch's pipelining (torch.distributed.pipelining) and torchtitan, Megatron-LM (megatron/core/pipeline_parallel), and
DeepSpeed (deepspeed/runtime/pipe/schedule.py), whose configurations name no schedule: its engine trains by
`TrainSchedule`. DeepSeek-V3 (arXiv:2412.19437, Table 2) compares with `1F1B` and `ZB1P`.
"""

from simulator.training.schedules.base import SCHEDULES

PYTORCH = {
    "GPipe": "gpipe",
    "1F1B": "1f1b",
    "Interleaved1F1B": "interleaved-1f1b",
    "LoopedBFS": "breadth-first",
    "InterleavedZeroBubble": "zb-h1",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipev",
}
"""Names in configurations; classes have `Schedule` before."""
MEGATRON = {
    "forward_backward_pipelining_without_interleaving": "1f1b",
    "forward_backward_pipelining_with_interleaving": "interleaved-1f1b",
}
DEEPSPEED = {"TrainSchedule": "1f1b", "InferenceSchedule": "forward-only"}
DEEPSEEK = {"ZB1P": "zb-h1"}
_OTHERS = {
    name.casefold(): own
    for names in (PYTORCH, {f"Schedule{name}": own for name, own in PYTORCH.items()}, MEGATRON, DEEPSPEED, DEEPSEEK)
    for name, own in names.items()
}


def own_name(name: str) -> str:
    """The registered name of a schedule that is written in other letters or that another program calls so; any other
    name as it is."""
    if SCHEDULES.has(name):
        return name
    small = name.casefold()
    return _OTHERS.get(small) or (small if SCHEDULES.has(small) else name)
