"""Trace files: recognised by content, read to columns, refused with file and line."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.interop.traces import FORMATS, columns, read, source

Write = Callable[[str | bytes], Path]

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Put a text into a file of the working folder."""
    monkeypatch.chdir(tmp_path)

    def put(content: str | bytes) -> Path:
        Path("trace").write_bytes(content if isinstance(content, bytes) else content.encode())
        return Path("trace")

    return put


def mooncake(time: Any = 0, prompt: Any = 600, output: Any = 5, hashes: Any = (1, 2)) -> str:
    """A line of a Mooncake trace."""
    record = {"timestamp": time, "input_length": prompt, "output_length": output, "hash_ids": hashes}
    return json.dumps(record) + "\n"


def conversation(*turns: tuple[str, str]) -> dict[str, Any]:
    """A conversation of ShareGPT."""
    return {"id": "x", "conversations": [{"from": who, "value": text} for who, text in turns]}


def vllm(**keys: Any) -> str:
    """A result of `vllm bench serve`."""
    return json.dumps({"date": "20260101", "num_prompts": 2, **keys})


SHAREGPT = [
    conversation(("system", "be kind"), ("human", "12345678"), ("gpt", "123456789"), ("human", "more")),
    conversation(("human", "never answered")),
    {"conversations": [{"role": "user", "num_tokens": 70}, {"role": "assistant", "num_tokens": 30}]},
]

GOOD: dict[str, tuple[str, str, list[float] | None, list[int], list[int]]] = {
    "Azure": (
        AZURE + "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109",
        "azure",
        [0, 4.314579],
        [374, 396],
        [44, 109],
    ),
    "Azure across midnight and zones": (
        AZURE + "2024-05-10 23:59:59.5+00:00,3,4\n2024-05-11T02:00:01Z,5,6\n2024-05-11 04:00:02+02:00,7,8\n",
        "azure",
        [0, 7201.5, 7202.5],
        [3, 5, 7],
        [4, 6, 8],
    ),
    "BurstGPT": (
        BURST + "5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,0,1087,API log\n"
        "118,ChatGPT,417,276,693,API log\n",
        "burstgpt",
        [0, 113],
        [472, 417],
        [18, 276],
    ),
    "Mooncake": (mooncake() + "\n" + mooncake(27482, 1024, 7), "mooncake", [0, 27.482], [600, 1024], [5, 7]),
    "LLMServingSim": (
        '{"request_id": "a", "input_toks": 9, "output_toks": 3, "arrival_time": 1777142838.25}\n'
        '{"request_id": "b", "input_toks": 8, "output_toks": 2, "arrival_time": 1777142839.5}\n',
        "llmservingsim",
        [0, 1.25],
        [9, 8],
        [3, 2],
    ),
    "LLMServingSim in nanoseconds": (
        '{"input_toks": 9, "output_toks": 3, "arrival_time_ns": 5}\n{"input_toks": 8, "output_toks": 2,'
        ' "arrival_time_ns": 2500000005}',
        "llmservingsim",
        [0, 2.5],
        [9, 8],
        [3, 2],
    ),
    "ShareGPT": (json.dumps(SHAREGPT, indent=1), "sharegpt", None, [2, 70], [3, 30]),
    "ShareGPT a line": ("\n".join(map(json.dumps, SHAREGPT)), "sharegpt", None, [2, 70], [3, 30]),
    "vLLM": (vllm(input_lens=[9, 8], output_lens=[3, 2]), "vllm", None, [9, 8], [3, 2]),
    "vLLM with times": (
        vllm(input_lens=[9, 8, 4], output_lens=[3, 0, 2], start_times=[7.5, 8, 9]),
        "vllm",
        [0, 1.5],
        [9, 4],
        [3, 2],
    ),
    "vLLM, indented": (
        json.dumps({"input_lens": [9], "output_lens": [3]}, indent=2),
        "vllm",
        None,
        [9],
        [3],
    ),
    "plain": ("arrival_s,prompt,output\n0.5,9,3\n2,8,2\n", "plain", [0, 1.5], [9, 8], [3, 2]),
    "plain without times, quoted, with a byte order mark": ('\ufeffOutput, "prompt"\n3,"9"\n', "plain", None, [9], [3]),
}


@pytest.mark.parametrize(("text", "kind", "times", "prompt", "output"), GOOD.values(), ids=GOOD)
def test_a_trace_is_recognised_and_read(
    write: Write, text: str, kind: str, times: list[float] | None, prompt: list[int], output: list[int]
) -> None:
    trace = read(write(text))
    assert trace.format == kind
    assert (None if trace.arrival_s is None else trace.arrival_s.tolist()) == (times and pytest.approx(times, abs=1e-9))
    assert trace.prompt.tolist() == prompt
    assert trace.output.tolist() == output
    assert trace.prompt.dtype == trace.output.dtype == np.int64


def test_every_format_has_a_good_example() -> None:
    assert {kind for _, kind, *_ in GOOD.values()} == set(FORMATS.names())


def test_failed_requests_are_left_out_and_counted(write: Write) -> None:
    trace = read(write(GOOD["BurstGPT"][0]))
    assert trace.warnings == ("trace: 1 of 3 requests are empty or failed; they were left out",)


def test_hashes_of_mooncake_are_kept(write: Write) -> None:
    trace = read(write(mooncake() + mooncake(1, 1024, 7, [1, 9])))
    assert (trace.hashes, trace.hash_block) == (((1, 2), (1, 9)), 512)


def test_sessions_of_newer_burstgpt_files_are_numbered(write: Write) -> None:
    header = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    trace = read(write(header + "1,s7,2,GPT,3,4,7,x\n2,,2,GPT,3,4,7,x\n3,s9,2,GPT,3,4,7,x\n4,s7,2,GPT,3,4,7,x\n"))
    assert trace.session is not None
    assert trace.session.tolist() == [0, -1, 1, 0]


def test_plain_files_may_have_sessions_and_priorities(write: Write) -> None:
    trace = read(write("session,priority,prompt,output,arrival_s\na,1,9,3,7\nb,0,8,2,5\na,2,7,1,6\n"))
    assert trace.session is not None
    assert trace.priority is not None
    assert trace.session.tolist() == [1, 0, 0]
    assert trace.priority.tolist() == [0, 2, 1]
    assert trace.prompt.tolist() == [8, 7, 9]
    assert trace.warnings == ("trace: requests were not in the order of time; they were sorted",)


def test_estimated_lengths_are_an_assumption(write: Write) -> None:
    trace = read(write(json.dumps(SHAREGPT)))
    assert "1 conversations are estimated: a token is 4 characters" in trace.assumptions[1]
    assert len(read(write(json.dumps(SHAREGPT[2:]))).assumptions) == 1


def test_a_list_longer_than_the_window_is_read_item_by_item(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps([conversation(("human", "x" * 4 * size), ("gpt", "yyyy")) for size in range(1, 200)], indent=2)
    monkeypatch.setattr("simulator.interop.traces.window._CHUNK", 37)
    assert read(write(text)).prompt.tolist() == list(range(1, 200))
    with pytest.raises(InputError, match=r"trace:\d+: is no JSON"):
        read(write(text[:-400]))


BAD: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "trace: is empty"),
    "space": (" \n\t\n", "trace: is empty"),
    "another text": ("to be or not to be\n", "trace: is no trace of a known kind; known are Azure"),
    "other JSON": ('{"a": 1}\n', "is no trace of a known kind"),
    "bytes": (b"\x00\x01\x02", "trace: is no text"),
    "no UTF-8": (AZURE.encode() + b"2023-11-16 18:15:46,\xff,4\n", "trace:2:21: byte 0xff is no text in UTF-8"),
    "only a header": (AZURE, "trace: holds no request"),
    "only failures": (BURST + "5,GPT,4,0,4,x\n", "holds no request: all 1 that it has are empty"),
    "a missing column": (
        "TIMESTAMP,ContextTokens\n1,2\n",
        "trace:1: the column `GeneratedTokens` is missing; its columns are `TIMESTAMP`, `ContextTokens`",
    ),
    "too few cells": (AZURE + "2023-11-16 18:15:46,4\n", "trace:2: has 2 cells where the header has 3"),
    "too many cells": ("prompt,output\n1,2\n\n1,2,3\n", "trace:4: has 3 cells where the header has 2"),
    "a negative length": ("prompt,output\n5,-3\n", "trace:2: output: `-3` is no number of tokens; write a whole"),
    "half a token": ("prompt,output\n5.5,3\n", "trace:2: prompt: `5.5` is no number of tokens"),
    "a text": ("prompt,output\nfive,3\n", "trace:2: prompt: `five` is no number of tokens"),
    "nothing in a cell": ("prompt,output\n,3\n", "trace:2: prompt: `` is no number of tokens"),
    "far too many tokens": (f"prompt,output\n{'9' * 50},3\n", "trace:2: prompt: `9999999999999"),
    "underscores": ("prompt,output\n1_0,3\n", "`1_0` is no number of tokens"),
    "other digits": ("prompt,output\n٣,3\n", "`٣` is no number of tokens"),
    "a NaN time": ("prompt,output,arrival_s\n5,3,nan\n", "trace:2: arrival_s: `nan` is no time"),
    "an infinite time": ("prompt,output,arrival_s\n5,3,inf\n", "trace:2: arrival_s: `inf` is no time"),
    "a negative time": ("prompt,output,arrival_s\n5,3,-1\n", "trace:2: arrival_s: `-1` is no time"),
    "a text for a time": (BURST + "noon,GPT,4,5,9,x\n", "trace:2: Timestamp: `noon` is no time"),
    "a bad priority": ("prompt,output,priority\n5,3,high\n", "trace:2: priority: `high` is no number"),
    "an odd date": (AZURE + "16/11/2023 18:15,4,5\n", "trace:2: TIMESTAMP: `16/11/2023 18:15` is no date; write, for"),
    "an impossible date": (AZURE + "2023-02-30 18:15:46,4,5\n", "trace:2: TIMESTAMP: `2023-02-30 18:15:46` is no date"),
    "dates that go back": (
        AZURE + "2023-11-16 18:15:46,4,5\n2023-11-16 18:15:45.9,4,5\n",
        "trace:3: goes back in time",
    ),
    "times that go back": (mooncake(5) + mooncake(4), "trace:2: goes back in time"),
    "an open quote": ('prompt,output\n"5,3\n5,3\n', "is no CSV: unexpected end of data"),
    "a quote inside": ('prompt,output\n"5"6,3\n', "trace:2: is no CSV"),
    "broken JSON": (mooncake() + '{"timestamp": 1, "input_le', "trace:2: is no JSON"),
    "JSON of another kind": (mooncake() + "[1, 2]\n", "trace:2: is no JSON object"),
    "a missing key": (mooncake() + '{"timestamp": 1, "inputlength": 5}\n', "trace:2: the key `input_length` is"),
    "a number as text": (mooncake(prompt="600"), None),
    "a float": (mooncake(prompt=600.0), "trace:1: input_length: `600.0` is no number of tokens"),
    "a truth": (mooncake(output=True), "trace:1: output_length: `True` is no number of tokens"),
    "nothing as a value": (mooncake(output=None), "trace:1: output_length: `None` is no number of tokens"),
    "NaN in JSON": (mooncake(time=float("nan")), "trace:1: timestamp: `nan` is no time"),
    "a huge number": (mooncake(prompt=10**400), "trace:1: input_length: `a huge number`"),
    "a huge time": (mooncake(time=10**400), "trace:1: timestamp: `a huge number`"),
    "a number of 5,000 digits": ('{"input_length": 1' + "0" * 5000 + "}", "trace:1: is no JSON that can be read"),
    "the wrong number of hashes": (mooncake(hashes=[1]), "trace:1: hash_ids: 1 blocks of 512 tokens do not make"),
    "hashes of text": (mooncake(hashes=["a", "b"]), "trace:1: hash_ids: is no list of whole numbers"),
    "hashes that are none": (mooncake(hashes=7), "trace:1: hash_ids: is no list of whole numbers"),
    "a truncated list": ('[{"conversations": []},\n {"conv', "trace:2: is no JSON"),
    "an unfinished list": ('[{"conversations": []}\n', "is no JSON: the end of the file where `,` or `]` should be"),
    "a list and more": (json.dumps(SHAREGPT) + "\n[]", "trace:2: is no JSON: `[` after the end of the list"),
    "an empty list": ("[]", "trace: holds no request"),
    "a list of numbers": ("[1, 2]", "trace:1: is no object with a list of `conversations`"),
    "turns of numbers": ('[{"conversations": [1]}]', "trace:1: is no object with a list of `conversations`"),
    "a turn without a text": ('[{"conversations": [{"from": "human"}, {"from": "gpt"}]}]', "has neither `value`"),
    "roles that are lists": ('[{"conversations": [{"from": []}, {"from": {}}]}]', "holds no request"),
    "levels without end": ("[" * 100_000, "is no JSON that can be read"),
    "braces without end": ('{"a":' * 100_000, "is no JSON that can be read"),
    "a result without details": (vllm(), "the list `input_lens` is missing; write the result with `--save-result"),
    "details of unequal length": (vllm(input_lens=[1], output_lens=[1, 2]), "1 prompts, 2 answers and 1 times"),
    "details that are no numbers": (vllm(input_lens=["a"], output_lens=[1]), "input_lens: `a` is no number"),
    "a truncated result": (vllm(input_lens=[1], output_lens=[1])[:-3], "trace:1: is no JSON"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_what_is_damaged_is_refused_with_file_and_line(write: Write, text: str | bytes, message: str | None) -> None:
    if message is None:  # a number in quotes is still that number
        assert read(write(text)).prompt.tolist() == [600]
        return
    with pytest.raises(InputError) as caught:
        read(write(text))
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["missing", ".", "bad\0name", "x" * 5000, "/dev/null"])
def test_files_that_cannot_be_read_are_named(write: Write, name: str) -> None:
    write("x")
    with pytest.raises(InputError, match=r"cannot be read|is a directory|is no regular file"):
        read(name)


def test_a_pipe_is_refused_and_not_waited_for(write: Write) -> None:
    write("x")
    os.mkfifo("pipe")
    with pytest.raises(InputError, match="pipe: is no regular file"):
        read("pipe")


HOSTILE = {
    "a line": "prompt,output\n" + "1" * 3000,
    "a quoted cell": 'prompt,output\n"' + "1\n" * 300_000,
    "a line of JSON": mooncake() + '{"a": "' + "x" * 3000,
    "an item of a list": '[{"conversations": "' + "x" * 300_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_memory_is_bounded_by_the_longest_line(write: Write, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LONGEST", 2000)
    with pytest.raises(InputError, match=r"more than 2,000 characters|is no CSV|is no JSON"):
        read(write(text))


def test_lines_rows_and_documents_are_bounded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_ROWS", 3)
    monkeypatch.setattr(source, "MOST_LINES", 9)
    monkeypatch.setattr(source, "MOST_CHARACTERS", 100)
    assert len(read(write("prompt,output\n" + "1,2\n" * 3)).prompt) == 3
    with pytest.raises(InputError, match="trace:5: has more than 3 requests"):
        read(write("prompt,output\n" + "1,2\n" * 4))
    with pytest.raises(InputError, match="trace: has more than 9 lines"):
        read(write("prompt,output\n" + "\n" * 9))
    with pytest.raises(InputError, match="trace: is longer than 100 characters"):
        read(write(vllm(input_lens=[1] * 99, output_lens=[1] * 99)))


def test_half_a_surrogate_pair_is_a_character_like_others(write: Write) -> None:
    """JSON can hold it and UTF-8 cannot."""
    found = read(write(json.dumps([conversation(("human", "1234567\ud800"), ("gpt", "12345678"))])))
    whole = read(write(json.dumps([conversation(("human", "12345678"), ("gpt", "12345678"))])))
    assert found.prompt.tolist() == whole.prompt.tolist()
    with pytest.raises(InputError, match=r"timestamp: .* is no time"):
        read(write(mooncake(time="\ud800")))
