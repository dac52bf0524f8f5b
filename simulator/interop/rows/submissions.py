"""Layouts of MLPerf submissions that tables of their results leave out.

The logs of a submission say how many microbatches a rank accumulates; which axes its devices are on, what it computes
again and what overlaps stand in the shell script that set it up. Each entry names the script that it was read in, and
holds for rows of its round and framework on as many devices a model. No entry rests on published step times.
Everything taken from here is listed as assumed. Left out: attention in 8 bits (`FP8_DPA`, on one node), the exchange
of what adapters found in place of the rows that they read (`LORA_A2A`).
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.interop.rows.training_names import accumulated

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row

NVIDIA = "mlcommons/training_results_v4.0 NVIDIA/benchmarks/llama2_70b_lora/implementations/nemo"
LATER = "mlcommons/training_results_v4.1 NVIDIA/benchmarks/llama2_70b_lora/implementations/nemo"
DELL = "training_results_v4.1 Dell/benchmarks/llama2_70b_lora/implementations/nemo"
MANGOBOOST = "training_results_v5.0 MangoBoost/benchmarks/llama2_70b_lora/implementations"
CONFIGURATION = "conf/megatron_gpt_peft_tuning_config.yaml"
"""What the scripts of NVIDIA's submission share."""
DROPOUT = "lora dropout 0.1"
"""`adapter_dropout` of the configuration."""


@dataclass(frozen=True, slots=True)
class Submission:
    """Settings of a submission on so many devices a model."""

    script: str
    """Where it was read."""
    rounds: str
    """Words of the row's source."""
    framework: str
    """Words of its framework."""
    devices: int
    """Devices that share a model."""
    layout: tuple[int, int]
    """(tp, cp); there is one pipeline stage."""
    recompute: str = "none"
    flags: str = DROPOUT
    smallest: int = 1
    """Devices of the run at least, and at most."""
    largest: int = 1 << 30
    overlaps: bool = True
    """Whether tensor-parallel collectives run beside products."""
    graphs: bool = False
    """Whether layers are captured in CUDA graphs."""
    turned: bool = True
    """Whether frozen weights are kept in one order, as in the configuration that NVIDIA's scripts share."""


SUBMISSIONS = (
    Submission(f"{DELL}/config_XE8640_1x4x4xtp4pp1cp1_2.sh", "v4.1", "nemo", 4, (4, 1), largest=4, overlaps=False),
    Submission(f"{NVIDIA}/config_DGXH100_1x8x4xtp4pp1cp1.sh", "v4", "nemo", 4, (4, 1), smallest=5),
    Submission(f"{LATER}/config_*_16x8x1xtp4pp1cp2.sh", "v4.1", "nemo", 8, (4, 2), graphs=True),
    Submission(f"{NVIDIA}/config_DGXH100_128x8x1xtp4pp1cp2.sh", "v4", "nemo", 8, (4, 2)),
    *(
        Submission(
            f"{MANGOBOOST}/MI300X-LLMBoost-GPUBoost-{n}node/config_MI300X_{n}x8x1.sh",
            "v5.0",
            "llmboost",
            n,
            (1, n),
            "full, 21 layers (block)",
            turned=False,
        )
        for n in (1, 2, 4)
    ),
)
"""Submissions of Llama 2 70B with adapters, first match."""


def submission(row: "Row") -> Submission | None:
    """The submission of a row of MLPerf's fine-tuning that says none of its sizes; None for others."""
    count = accumulated(row.flags, row.notes)
    if not count or "mlperf" not in row.source or "lora" not in row.task or row.tp or row.pp or row.cp or row.dp:
        return None
    ranks = row.devices * count // row.global_batch
    return next((one for one in SUBMISSIONS if _fits(one, row, ranks)), None)


def _fits(one: Submission, row: "Row", ranks: int) -> bool:
    named = one.rounds in row.source and re.search(one.framework, (row.framework or "").lower())
    return bool(named) and one.devices == ranks and one.smallest <= row.devices <= one.largest


def stated(row: "Row", assumed: list[str]) -> tuple["Row", dict[str, Any]]:
    """The row with the sizes of its submission, and fields of its training that no key of a row says."""
    one = submission(row)
    if one is None:
        return row, {}
    tp, cp = one.layout
    assumed.append(f"tp {tp}, cp {cp}, recompute {one.recompute}, {one.flags} as in the submission ({one.script})")
    if one.turned:
        assumed.append(f"weights in one order, as in NVIDIA's submission ({CONFIGURATION})")
    flags = "; ".join(filter(None, (row.flags, one.flags)))
    found = {"tp": tp, "pp": 1, "cp": cp, "recompute": row.recompute or one.recompute, "flags": flags}
    more: dict[str, Any] = {} if one.overlaps else {"overlap_tensor": "none"}
    if one.graphs:
        assumed.append("graphs of layers, as in the submission (LAYER_CUDA_GRAPH=1)")
        more["cuda_graphs"] = ("all",)
    return row.model_copy(update=found), more | ({"turned_weights": True} if one.turned else {})
