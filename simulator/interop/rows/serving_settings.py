"""Settings of engines in published benchmarks, where the benchmark's scripts state them and its rows do not.

They are data, `workloads/measurements/serving-settings.yaml`, each with the script that it was read in.
"""

import re
from functools import cache
from typing import Literal, NamedTuple

from pydantic import Field

from simulator.specs.base import Count, Format, Fraction, Spec
from simulator.specs.catalog import data_root
from simulator.specs.resolve import load_file

FILE = "workloads/measurements/serving-settings.yaml"


class Case(NamedTuple):
    """What of a row decides about its settings."""

    source: str
    engine: str
    model: str
    device: str
    weights: str
    """Format of the weights, in the words of the row."""
    tp: int
    in_flight: int
    lengths: tuple[int, int]
    """Longest prompt and answer."""
    day: str
    """When it was measured; empty where that is not known."""
    drafts: bool = False
    """Whether tokens are drafted."""
    recipe: str = ""
    """What the benchmark calls the deployment."""
    role: str = ""
    """Of workers of prefill and decode apart; empty where they are not, or for what holds for both."""
    kind: str = "online_serving"
    """Kind of the row."""


class Told(Spec):
    """Settings of an engine; None: its default."""

    stack: str | None = None
    """Profile of the engine as the scripts run it."""
    tokens: Count | None = None
    """Most tokens of an iteration."""
    tokens_per_prompt: Count | None = None
    """The same over the longest prompt."""
    tokens_fitting: Count | None = None
    """The same is a prompt beside the tokens of each other request, drafted ones too, and `tokens_spare`, rounded up to
    64, but not less than this."""
    tokens_spare: Count | None = None
    """Tokens beyond them; 64 where left out."""
    of_rank: bool | None = None
    """Whether the other requests, and the most sequences, are those of an attention rank alone."""
    sequences: Count | None = None
    """Most sequences at once; as many as are in flight where left out."""
    context: Count | None = None
    """Most tokens of a prompt and its answer (`--max-model-len`)."""
    cuts_prompts: bool | None = None
    """Whether prompts are cut over several iterations (`--enable-chunked-prefill`)."""
    captures: bool | None = None
    """Whether decoding replays captured graphs."""
    memory_share: Fraction | None = None
    """Share of the memory that the engine may take."""
    free_share: Fraction | None = None
    """Share of what weights leave that the cache takes."""
    experts: str | None = None
    """Kernels of mixtures of experts."""
    expert_rows: Format | None = None
    """Format of the rows that they multiply."""
    experts_from_python: bool | None = None
    """Whether Python launches kernels of mixtures (Triton's) where the engine captures no graphs of prompts."""
    poll_interval: Count | None = None
    """Decode iterations between two looks for new requests."""
    stream_interval: Count | None = None
    """Tokens of an answer that leave in one packet."""
    wait_iterations: Count | None = None
    """Iterations that prompts wait for others."""
    wait_share: Fraction | None = None
    """Share of the tokens from which they do not."""
    balance_iterations: Count | None = None
    """Iterations of which one lets prompts join though not each attention rank has one."""
    balance_wait: Count | None = None
    """Iterations that they wait for more where each has one."""
    router: str | None = None
    """How prompts are dealt to attention ranks, where the scripts say it (SGLang's `load-balance-method`)."""
    kv: Format | None = None
    """Of keys and values, where the row does not say it."""
    cached_prompts: bool | None = None
    """Whether vLLM's V1 engine finds the prompts of a batch in its cache, where a benchmark that repeats them left
    them."""
    overlaps_verification: bool | None = None
    """Whether the next iteration is prepared before it is known what is accepted (SGLANG_ENABLE_SPEC_V2), so that
    `stack.verify_overhead` is not there."""

    def limits(self, in_flight: int, prompt: int, rows: int = 1, ranks: int = 1) -> tuple[int | None, int]:
        """(most tokens of an iteration or the default, most sequences) for requests in flight, a longest prompt, the
        rows of a request that an iteration verifies, and ranks that have requests of their own."""
        if self.of_rank:
            in_flight = max(in_flight // ranks, 1)
        tokens = self.tokens
        if tokens is None and self.tokens_per_prompt is not None:
            tokens = self.tokens_per_prompt * prompt
        if tokens is None and self.tokens_fitting is not None:
            beside = rows * in_flight + (self.tokens_spare or 64)
            tokens = max(-(-(beside + prompt) // 64) * 64, self.tokens_fitting)
        return tokens, self.sequences or in_flight


class Setting(Told):
    """What scripts of a benchmark say for the rows that an entry fits."""

    source: str
    """Word of the rows' source."""
    engine: str
    """Word of the engine's name."""
    model: str = ""
    """Pattern of the model's name."""
    device: str = ""
    """Pattern of the accelerator's name."""
    weights: str = ""
    """Word of the format of the weights."""
    tp_below: Count | None = None
    """Tensor-parallel sizes below this alone."""
    in_flight_from: Count = 1
    """From so many requests in flight on."""
    lengths: tuple[Count, Count] | None = None
    """Longest prompt and answer."""
    day_from: str = ""
    """Measurements from this day on, of those whose day is known."""
    drafts: bool | None = None
    """Rows that draft tokens alone, or those that do not."""
    recipe: str = ""
    """Pattern of the recipe's name."""
    kind: str = ""
    """Pattern of the kind of the row."""
    role: Literal["", "prefill", "decode"] = ""
    """Workers of this role alone: `tokens` and `sequences` are then those of a worker, which its attention ranks
    share. Entries without a role hold for pools in what `OF_ALL` lists."""
    found_in: str = Field(alias="from")
    """Scripts that say so."""

    def fits(self, case: Case) -> bool:
        """Whether it is about a row."""
        words = (self.source, self.engine, self.model, self.device, self.weights)
        return (
            all(re.search(word, text.lower()) for word, text in zip(words, case[:5], strict=True))
            and (self.tp_below is None or case.tp < self.tp_below)
            and case.in_flight >= self.in_flight_from
            and self.lengths in (None, case.lengths)
            and self.drafts in (None, case.drafts)
            and (not self.recipe or re.search(self.recipe, case.recipe.lower()) is not None)
            and re.search(self.kind, case.kind) is not None
            and self.role in ("", case.role)
            and not (self.day_from and case.day and case.day < self.day_from)
        )


class Settings(Spec):
    """The file."""

    settings: tuple[Setting, ...]
    """Later ones over earlier ones."""


@cache
def known() -> tuple[Setting, ...]:
    """All that is known."""
    return load_file(Settings, data_root() / FILE).spec.settings


OF_ALL = {
    *("stack", "captures", "experts", "expert_rows", "experts_from_python"),
    *("stream_interval", "kv", "overlaps_verification"),
}
"""Settings of engines and kernels, which workers of both roles share; limits are those of each role."""


def settings(case: Case, apart: bool = False) -> Told | None:
    """What a benchmark's scripts say of a row, of prefill and decode `apart` or not; None where they say nothing."""
    fitting = [
        one.model_dump(include=OF_ALL if apart and not one.role else set(Told.model_fields), exclude_none=True)
        for one in known()
        if one.fits(case)
    ]
    return Told.model_validate({key: value for one in fitting for key, value in one.items()}) if fitting else None
