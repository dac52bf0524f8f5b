"""The vocabularies as data: damaged ones are named with their line, and what they stand for exists."""

from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.interop.rows.kernels import library_of
from simulator.interop.rows.words import FILE, Vocabulary, operation, vocabulary
from simulator.specs import data_root, load_file, load_spec
from simulator.specs.hardware import Cluster

TEXT = (data_root() / FILE).read_text()


def test_clusters_of_collectives_exist_and_the_particular_one_comes_first() -> None:
    known = vocabulary().network
    assert all(load_spec(Cluster, one.cluster).devices for one in known)
    for i, one in enumerate(known):
        hidden = [
            late
            for late in known[i + 1 :]
            if late.accelerator.startswith(one.accelerator) and not one.joined and not one.ranks
        ]
        assert hidden == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("chip: 'a100'", "chip: 'a(100'", "is no regular expression"),
        ("name: a100-sxm-80gb}", "nmae: a100-sxm-80gb}", "did you mean `name`"),
        ("memory: [80]", "memory: [eighty]", "memory"),
        ("network:", "networks:", "network"),
    ],
)
def test_a_damaged_entry_is_named_with_its_line(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in TEXT
    (tmp_path / "words.yaml").write_text(TEXT.replace(old, new, 1))
    with pytest.raises(InputError, match=r"words\.yaml:\d+") as found:
        load_file(Vocabulary, tmp_path / "words.yaml")
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("AllReduce", "all_reduce"),
        ("all-gather", "all_gather"),
        ("reduce_scatter_perf", "reduce_scatter"),
        ("all2all", "all_to_all"),
        ("sendrecv", "sendrecv"),
        ("send_recv", "send_recv"),
        ("matmul", "gemm"),
        ("flash_attention_forward", "attention_fwd"),
        ("stream_triad", "stream_triad"),
        ("hypercube", "hypercube"),
        ("", ""),
    ],
)
def test_operations_by_other_words(words: str, name: str) -> None:
    assert operation(words) == name


@pytest.mark.parametrize(
    ("words", "kernels"),
    [
        ("FlashAttention-2", "fa2"),
        ("flash-attn v2.5.8", "fa2"),
        ("FA3", "fa3"),
        ("cuDNN 9.1", "cudnn"),
        ("PyTorch standard attention", None),
        (None, None),
    ],
)
def test_kernels_of_attention_by_other_words(words: str | None, kernels: str | None) -> None:
    assert library_of(words) == kernels
