"""Configurations of DeepSpeed: what becomes of them, and everything that can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.errors import InputError
from simulator.interop.machine import Machine
from simulator.run.imports import import_file

TOLD = {"model": "llama-2-7b", "sequence_length": "4096"}
PLAIN = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}


def imported(config: dict[str, Any], tmp_path: Path, nodes: int | None = 2, **given: str) -> Any:
    """The scenario that a configuration makes, as plain data."""
    (tmp_path / "ds_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    text = import_file(str(tmp_path / "ds_config.json"), Machine("dgx-a100", nodes), None, TOLD | given)
    return yaml.safe_load(text) | {"head": text}


def refused(config: dict[str, Any], tmp_path: Path, **given: str) -> str:
    with pytest.raises(InputError) as caught:
        imported(config, tmp_path, **given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "batch", "micro"),
    [
        ({"train_micro_batch_size_per_gpu": 4}, 64, 4),
        ({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}, 128, 4),
        ({"train_batch_size": 64}, 64, 4),
        ({"train_batch_size": 64, "gradient_accumulation_steps": 2}, 64, 2),
        ({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1}, 64, 1),
        ({"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto"}, 64, 4),
    ],
)
def test_two_of_three_batch_sizes_give_the_third(sizes: dict[str, Any], batch: int, micro: int, tmp_path: Path) -> None:
    made = imported(sizes | {"zero_optimization": {"stage": 1}}, tmp_path)["training"]
    assert (made["global_batch"], made["micro_batch"]) == (batch, micro)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_stages_bring_the_overlap_and_the_buckets_that_deepspeed_has(stage: int, tmp_path: Path) -> None:
    """Stage 3 overlaps unless it is told not to, the others only if they are."""
    made = imported(PLAIN | {"zero_optimization": {"stage": stage}}, tmp_path)
    assert made["training"]["parallel"]["zero"] == stage
    assert made["training"]["overlap_gradients"] == (stage == 3)
    assert made["training"].get("bucket_size") == (None if stage == 3 else "1000000000 B")
    assert made["stack"] == ("fsdp" if stage == 3 else "pytorch-ddp")


def test_formats_optimizer_and_layout_come_along(tmp_path: Path) -> None:
    config = PLAIN | {
        "optimizer": {"type": "Lion", "params": {"lr": 1e-4}},
        "communication_data_type": "fp32",
        "data_types": {"grad_accum_dtype": "fp32"},
        "sequence_parallel_size": 4,
        "tensor_parallel": {"autotp_size": 2},
    }
    made = imported(config, tmp_path)["training"]
    assert made["optimizer"] == {"name": "lion"}
    assert (made["precision"], made["reduce_precision"], made["gradient_precision"]) == ("bf16", "fp32", "fp32")
    assert made["parallel"] == {"tp": 2, "cp": 4, "cp_kind": "ulysses", "dp": 2, "zero": 2}
    assert made["bucket_size"] == "2000000000 B"


def test_what_lives_on_hosts_and_drives_comes_along(tmp_path: Path) -> None:
    states = {"device": "cpu", "pin_memory": True, "ratio": 0.3}
    zero = {"stage": 3, "offload_optimizer": states, "offload_param": {"device": "nvme"}, "sub_group_size": 1e8}
    kept = {"activation_checkpointing": {"cpu_checkpointing": True}}
    made = imported(PLAIN | kept | {"zero_optimization": zero}, tmp_path, recompute="full")["training"]["offload"]
    assert made["optimizer"] == {"to": "host", "share": 0.3, "subgroup": 100_000_000}
    assert made["parameters"] == {"to": "nvme"}
    assert made["activations"] == {"to": "host"}
    old = imported(PLAIN | {"zero_optimization": {"stage": 2, "cpu_offload": True}}, tmp_path)
    assert old["training"]["offload"] == {"optimizer": {"to": "host"}}
    none = PLAIN | {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}}}
    assert "offload" not in imported(none, tmp_path)["training"]


def test_what_has_an_effect_and_is_left_out_is_listed_and_the_rest_is_ignored(tmp_path: Path) -> None:
    config = PLAIN | {
        "activation_checkpointing": {"cpu_checkpointing": True, "profile": False},
        "steps_per_print": 10,
        "compression_training": {"weight_quantization": {}},
    }
    head = imported(config, tmp_path)["head"]
    assert "activation_checkpointing.cpu_checkpointing: only with --set recompute=full" in head
    assert "steps_per_print" in head


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"zero_optimization": {"stage": 4}}, "zero_optimization.stage is 0, 1, 2 or 3, not `4`"),
        ({"zero_optimization": {"stage": True}}, "zero_optimization.stage is 0, 1, 2 or 3"),
        ({"zero_optimization": {"reduce_bucket_size": "large"}}, "number of elements, not `large`"),
        ({"zero_optimization": {"reduce_bucket_size": -1}}, "number of elements, not `-1`"),
        ({"train_micro_batch_size_per_gpu": 0}, "whole number from 1"),
        ({"train_batch_size": 100}, "train_batch_size 100 is not"),
        ({"optimizer": {"type": "OneBitAdam"}}, "optimizer.type `OneBitAdam` is not simulated"),
        ({"communication_data_type": "fp12"}, "communication_data_type `fp12` is not known"),
        ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "tape"}}}, "`tape` is not known"),
        (
            {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 2}}},
            "offload_optimizer.ratio is a number above 0, at most 1, not `2`",
        ),
        ({"sequence_parallel_size": 3}, "no multiple of tp 1 x cp 3"),
    ],
)
def test_wrong_values_are_named(config: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refused(PLAIN | config, tmp_path)


def test_what_a_configuration_never_says_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(PLAIN), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        import_file(str(tmp_path / "ds.json"), Machine("dgx-a100", 1), "deepspeed", {})
    assert "--set model=" in str(caught.value) and "--set sequence_length=" in str(caught.value)
    assert "neither train_batch_size nor" in refused({"zero_optimization": {"stage": 1}}, tmp_path)


def test_a_list_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('["train_batch_size"]', encoding="utf-8")
    with pytest.raises(InputError, match="holds no mapping"):
        import_file(str(tmp_path / "ds.json"), Machine("dgx-a100", 1), "deepspeed", TOLD)
