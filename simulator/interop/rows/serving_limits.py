"""Limits of an iteration that engines take by default, where neither a row nor the scripts of its benchmark say any.

vLLM's V0 engine reads prompts whole unless it cuts them, and then takes as many tokens as the longest sequence may
have (vllm/config.py, `max_num_batched_tokens`). It cuts prompts of models with contexts over 32,768 from 0.5.4 on
(vllm/engine/arg_utils.py), but never under latent attention (`use_mla`: "not supported ... in V0"), and from December
2024 on no more on ROCm, where the kernel that it takes for them is slow (vllm-project/vllm pull request 11146).
"""

import re

from simulator.interop.rows import serving_names as names
from simulator.interop.rows.accelerators import card
from simulator.interop.rows.serving_settings import Told
from simulator.specs.model import Model

V0 = ("vllm-v0", "vllm-v0-rocm", "vllm-v0-blocks", "vllm-v0-blocks-rocm", "vllm-0.5", "vllm-0.2")
"""Stacks of that engine."""
V1 = ("vllm", "vllm-serve", "vllm-offline", "vllm-async")
"""Stacks whose default limits depend on the device and on whether a server asks."""
SGLANG = ("sglang", "sglang-blocks", "sglang-blocks-rocm")
"""Stacks of SGLang since 0.4, whose chunks depend on the device."""
LONG = 32_768
"""Contexts above which prompts are cut by default."""
CUT = 512
"""Tokens of such an iteration."""
LARGE = 70 * 2**30
"""Bytes of a device from which vLLM's V1 engine takes its larger limits, A100 apart (vllm/engine/arg_utils.py,
`get_batch_defaults`, 0.9 to 0.19)."""


def of_v0(
    stack: str, version: str | None, accelerator: str, model: Model, said: Told, stated: int | None = None
) -> tuple[str | None, int]:
    """(policy where it is not the stack's, most tokens of prompts in an iteration) of vLLM's V0 engine.

    `stated` is the longest sequence that a row gives its engine (`--max-model-len`).
    """
    context = said.context if stated is None else max(stated, 2048)
    context = context or max(model.max_sequence or 4096, 2048)
    if said.cuts_prompts is False or stack in ("vllm-0.5", "vllm-0.2") or context <= LONG or _latent(model):
        return None, context
    if (card(accelerator)[0] or "").startswith("mi") and not re.match(r"v?0\.6\.[0-4]\b", version or ""):
        return None, context
    return "vllm-v1", CUT


def _latent(model: Model) -> bool:
    return any(kind.attention == "mla" for kind in model.kinds)


def of_v1(accelerator: str, served: bool) -> tuple[int, int]:
    """(sequences, tokens of an iteration) of vLLM's V1 engine.

    Large devices: 1,024 sequences and 16,384 tokens offline, 8,192 served; others 256, and 8,192 or 2,048.
    """
    small = (card(accelerator)[0] or "").startswith("a100")
    if not small and names.cluster(accelerator).node.accelerator.memory.capacity.value >= LARGE:
        return 1024, 8192 if served else 16_384
    return 256, 2048 if served else 8192


CHUNKS: tuple[tuple[str, tuple[tuple[float, int], ...], int], ...] = (
    (r"v?0\.([0-3]\.|4\.[0-6]\b)", ((25.0, 2048),), 8192),
    (r"v?0\.(4\.|5\.[0-2]\b)", ((35.0, 2048), (160.0, 8192)), 16_384),
    ("", ((35.0, 2048), (60.0, 4096), (160.0, 8192)), 16_384),
)
"""Releases of SGLang, the tokens of a chunk (`chunked_prefill_size`) below so many GB of a device, and those of
larger devices (srt/server_args.py of 0.4.4, 0.4.9 and 0.5.5)."""


def of_sglang(accelerator: str, version: str | None) -> int:
    """Tokens of prompts in an iteration of SGLang; of a release that a row does not say, as of the latest."""
    memory = names.cluster(accelerator).node.accelerator.memory.capacity.value / 2**30
    below, largest = next(
        (below, most) for release, below, most in CHUNKS if not release or re.match(release, version or "")
    )
    return next((tokens for size, tokens in below if memory < size), largest)
