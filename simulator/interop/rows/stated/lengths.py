"""Lengths of prompts and answers of published serving rows: stated, in the words of a workload, or a benchmark's own.

A row states tokens, parts of them between which a benchmark draws, a workload by its name, or quantiles and means in
words (`ISL 2048 OSL 128`, `input p50 3500 p90 10000`). A dataset's name stands for its published lengths
(`serving.lengths` of the vocabulary), the name of a generator (`random`) for what it draws where nobody tells it more.
"""

import re
from collections.abc import Sequence
from math import expm1, log
from typing import TYPE_CHECKING

from simulator.interop.rows import conversations
from simulator.interop.rows import serving_names as names
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.pools import APART
from simulator.interop.rows.words import vocabulary
from simulator.specs.distribution import Distribution
from simulator.specs.model import Model
from simulator.specs.requests import Lengths

if TYPE_CHECKING:
    from simulator.interop.rows.serving import ServingRow

SHORT = (64, 256)
"""(prompt, answer) tokens of a single stream where a row does not say, as chat programs show their rate. A prompt of
this is also taken where a row states the answers alone: its figures are then about those."""
PROMPTS_ONLY = ("first_token_latency", "single_stream_prefill", "prefill_throughput")
"""Kinds whose answers are not waited for."""
LONGEST = 400
"""Characters of a workload that are read."""
LEAST = 8
"""Tokens from which on two numbers beside each other are lengths."""
P90 = 1.2816
"""Standard deviations from the median to the nine tenths of a normal distribution."""
_NUMBER = r"(\d[\d,.]{0,11}) ?(k\b)?"
_TOKENS = r"(?: ?(?:tokens?|toks?|len(?:gth)?s?))?"
_PROMPT = rf"(?:isl|input|in|prompts?|prefill|context|pp){_TOKENS}"
_ANSWER = rf"(?:osl|output|out|generat\w+|answers?|decode|tg){_TOKENS}"
_IS, _AND = r"(?: of)?[ :=~]*", r"[ ,;/+&x|-]*(?:and )?"
STATED = tuple(
    re.compile(words)
    for words in (
        rf"{_PROMPT}{_IS}{_NUMBER}{_TOKENS}{_AND}{_ANSWER}{_IS}{_NUMBER}",
        rf"{_NUMBER}{_TOKENS} ?{_PROMPT}{_AND}{_NUMBER}{_TOKENS} ?{_ANSWER}",
        rf"(?<![\w.]){_NUMBER} ?/ ?{_NUMBER}(?![\w./])",
    )
)
"""Words that state the tokens of a prompt and of an answer."""
_QUANTILE = rf"(?:p50|median)[ :=~]*{_NUMBER}[ ,;/]*(?:and )?p90[ :=~]*{_NUMBER}"
QUANTILES = re.compile(rf"{_PROMPT}[ :]*{_QUANTILE}.*?{_ANSWER}[ :]*{_QUANTILE}")
"""Words that state medians and nine tenths."""


def lengths(row: "ServingRow", model: Model, online: Sequence[str], assumed: list[str]) -> Lengths:
    """How long the requests of a row are; raises Refused where nothing tells. `online`: kinds with clients."""
    prompt, output = row.input_len, row.output_len
    mean, most = (row.metrics.get("mean_output_tokens") or 0.0) if output is None else 0.0, row.max_output_len or 0
    if row.kind in online and prompt is not None and 1 <= mean < most:
        assumed.append(f"answers end with the same chance at every token, {mean:,.0f} of them on average")
        return Lengths(prompt=_ranged(prompt, row), output=ended(mean, most))
    if row.kind == APART and mean >= 1:
        output = round(mean)
        assumed.append(f"answers of {output:,} tokens, the mean of those that came")
    if row.kind in online and output is None and row.max_output_len:
        raise Refused("answers end on their own and their length is not stated")
    if row.kind in PROMPTS_ONLY:
        output = 1
    if row.kind == "single_stream_decode" and output is None:
        prompt, output = SHORT[0] if prompt is None else prompt, SHORT[1]
        assumed.append(f"{prompt} tokens of prompt and {output} of answer")
    if row.kind == "single_stream_decode" and prompt is None:
        prompt = 1
        assumed.append("an empty prompt")
    spoken = row.kind in (*online, "offline_throughput") and bool(re.search("sharegpt", row.workload or "", re.I))
    if prompt is not None and output is not None and not spoken:
        return Lengths(prompt=_ranged(prompt, row), output=_ranged(output, row))
    if found := _in_words(row.workload, model, assumed):
        return found
    if prompt is None and output is not None and _named(row) is None:
        assumed.append(f"prompts of {SHORT[0]} tokens, which are not stated")
        return Lengths(prompt=Distribution(fixed=SHORT[0]), output=_ranged(output, row))
    return _named_lengths(row, model, assumed)


def ended(mean: float, most: int) -> Distribution:
    """Answers that end on their own, with the same chance at every token, or after `most`: exponential lengths m of
    which m (1 - exp(-most / m)) is `mean`, of at least 1 and less than `most`."""
    low, high = mean, mean * most / (most - mean)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if -middle * expm1(-most / middle) < mean else (low, middle)
    return Distribution(exponential=(low + high) / 2, low=1, high=most)


def _ranged(length: int, row: "ServingRow") -> Distribution:
    """A length, or the uniform draws between the parts of it that a row states."""
    if row.length_range is None or row.length_range[0] == row.length_range[1] == 1:
        return Distribution(fixed=max(length, 1))
    low, high = (max(round(part * length), 1) for part in sorted(row.length_range))
    return Distribution(uniform=(low, high))


def _in_words(workload: str | None, model: Model, assumed: list[str]) -> Lengths | None:
    """Lengths that the words of a workload state; None where they state none."""
    text = " ".join((workload or "")[:LONGEST].lower().split())
    if found := QUANTILES.search(text):
        (first, most), (later, last) = (
            (_tokens(*found.group(i, i + 1)), _tokens(*found.group(i + 2, i + 3))) for i in (1, 5)
        )
        if 0 < first <= most and 0 < later <= last:
            assumed.append("lengths lognormal, of the stated medians and nine tenths")
            drawn = (
                Distribution(lognormal=(middle, log(high / middle) / P90), low=1)
                for middle, high in ((first, most), (later, last))
            )
            return _within(Lengths(prompt=next(drawn), output=next(drawn)), model)
    for words in STATED:
        if found := words.search(text):
            prompt, answer = _tokens(*found.group(1, 2)), _tokens(*found.group(3, 4))
            if min(prompt, answer) >= LEAST:
                assumed.append(f"{prompt:,.0f} tokens of prompt and {answer:,.0f} of answer, by the workload's name")
                return Lengths(prompt=Distribution(fixed=prompt), output=Distribution(fixed=answer))
    return None


def _tokens(number: str, thousands: str | None) -> float:
    """Tokens of a number with or without a `k`: 1,024 of them, as benchmarks mean it."""
    plain = number.replace(",", "").rstrip(".")
    return round(float(plain) * (1024 if thousands else 1)) if re.fullmatch(r"\d+(\.\d+)?", plain) else 0.0


def _named(row: "ServingRow") -> str | None:
    """The distribution of lengths that the words of a row name; None where they name none."""
    words, engine = f"{row.workload or ''} {row.source}".lower(), row.engine.lower()
    known = (
        one.name
        for one in vocabulary().serving.lengths
        if re.search(one.words, words) and re.search(one.engine, engine)
    )
    return next(known, None) if row.workload else None


def _named_lengths(row: "ServingRow", model: Model, assumed: list[str]) -> Lengths:
    """Lengths of a named workload; a median request takes the medians."""
    name = _named(row)
    if name is None:
        raise Refused("lengths of prompts and answers are not stated")
    drawn = names.lengths(name)
    if row.kind == "single_request_latency":
        medians = {"azure-code": (1500, 13), "azure-conversation": (1020, 129)}.get(name)
        if medians is None:
            raise Refused("the median lengths of the workload are not known")
        assumed.append(f"median lengths of the trace: {medians[0]} and {medians[1]} tokens (arXiv:2311.18677)")
        return Lengths(prompt=Distribution(fixed=medians[0]), output=Distribution(fixed=medians[1]))
    means = _stated_means(row)
    if means is None or drawn.prompt.fixed is not None:
        assumed.append(f"lengths drawn from `{name}`")
        return drawn if drawn.prompt.fixed is not None else _within(drawn, model)
    assumed.append(f"lengths lognormal, of the stated means {means[0]:.0f} and {means[1]:.0f}")
    prompt, answer = (
        conversations.cut_lognormal(*of) for of in zip(means, (conversations.PROMPT, conversations.ANSWER), strict=True)
    )
    return _within(Lengths(prompt=prompt, output=answer), model)


def _within(drawn: Lengths, model: Model) -> Lengths:
    """Lengths cut so that prompt and answer fit into the model's context."""
    context = model.max_sequence or 4096
    cut = {"prompt": context - context // 4, "output": context // 4}
    changed = {key: getattr(drawn, key) for key in cut}
    changed = {key: d.model_copy(update={"high": min(d.high or cut[key], cut[key])}) for key, d in changed.items()}
    return drawn.model_copy(update=changed)


def _stated_means(row: "ServingRow") -> tuple[float, float] | None:
    """Mean tokens of prompts and answers: stated, or from rates of one run that differ only in what they count."""
    if row.input_len and row.output_len:
        return row.input_len, row.output_len
    rates = [row.metrics.get(key) for key in ("requests_per_s", "total_tokens_per_s", "output_tokens_per_s")]
    if not all(rate and rate > 0 for rate in rates):
        return None
    requests, tokens, output = (float(rate or 0) for rate in rates)
    return ((tokens - output) / requests, output / requests) if tokens - output >= requests <= output else None


def fixed(found: Lengths) -> tuple[int, int] | None:
    """(prompt, answer) where all requests are alike."""
    if found.prompt.fixed is None or found.output.fixed is None:
        return None
    return round(found.prompt.fixed), round(found.output.fixed)
