"""Schedules by the arguments of forks of Megatron-LM, github.com/sail-sg: zero bubble, and the vocabulary over all
stages."""

from simulator.interop.arguments import Arguments

IN_A_V = {"zb": "zb-v", "half": "v-half", "min": "v-min"}
"""Schedules of two chunks a rank by `--zero-bubble-v-schedule-mem-setup`."""
SPLITS = "num_seq_splits"
NAMES = (
    "zero_bubble_v_schedule",
    "zero_bubble_v_schedule_mem_setup",
    "enable_zero_bubble",
    "enable_vocab_parallel",
    "disable_backward_fusion",
    "use_interlaced_schedule",
    SPLITS,
)


def asked_for(arguments: Arguments) -> str | None:
    """The schedule that is asked for, None for Megatron's own: `--enable-zero-bubble` alone keeps what 1F1B does, and
    `--enable-vocab-parallel` sums once. A V with the vocabulary over all stages is unknown, as its argument then is."""
    setup = arguments.choice(IN_A_V, "zero_bubble_v_schedule_mem_setup")
    if arguments.on("zero_bubble_v_schedule"):
        return setup or "zb-v"
    if arguments.on("enable_vocab_parallel"):
        twice, interlaced = arguments.on("disable_backward_fusion"), arguments.on("use_interlaced_schedule")
        return "interlaced" if interlaced else "vocab-1" if twice else "vocab-2"
    if arguments.on("enable_zero_bubble"):
        return "zb-h1"
    return "seq1f1b" if slices(arguments) else None


def slices(arguments: Arguments) -> int | None:
    """Slices of a sequence (`--num-seq-splits`, 1 by default), None where it is not cut."""
    many = arguments.whole(SPLITS) or 1
    return many if many > 1 else None
