"""Accelerators by the words of rows: spellings that mean the same card, and words that mean another one."""

import pytest

from simulator.interop.rows.accelerators import card
from simulator.interop.rows.words import vocabulary
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator


def test_every_card_has_a_profile() -> None:
    for known in vocabulary().cards:
        assert load_spec(Accelerator, known.name).name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("H100 SXM5 80GB", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("h100-sxm-80gb", "h100-sxm"),
        ("8x NVIDIA H100 SXM", "h100-sxm"),
        ("NVIDIA H100 PCIe 80GB", "h100-pcie"),
        ("NVIDIA H100-PCIE-80GB", "h100-pcie"),
        ("A100-SXM4-40GB", "a100-sxm-40gb"),
        ("A100 (80 GiB)", "a100-sxm-80gb"),
        ("8xA100-80G", "a100-sxm-80gb"),
        ("NVIDIA A100-PCIE-80GB", "a100-pcie-80gb"),
        ("NVIDIA GB200 192GB (NVL72)", "gb200"),
        ("GB300 NVL72", "gb300"),
        ("NVIDIA H100 NVL 94GB", "h100-nvl"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("AMD Instinct MI325X", "mi325x"),
        ("MI355X (OAM)", "mi355x"),
        ("Ascend 910B3", "ascend-910b"),
        ("NVIDIA L4 24GB", "l4"),
        ("H20-3e 141GB", "h20-sxm-141gb"),
        ("NVIDIA H20 141GB", "h20-sxm-141gb"),
        ("H20", "h20-sxm"),
        ("A10G", "a10g"),
        ("RTX 4090 D", "rtx-4090d"),
        ("RTX 3090 Ti 24GB", "rtx-3090-ti"),
        ("Apple M4 Pro", "m4-pro"),
        ("GH200 480GB", "gh200"),
        ("Tesla V100-SXM2-16GB", "v100-sxm-16gb"),
        ("8x p5.48xlarge", "h100-sxm"),
        ("ND96asr_v4", "a100-sxm-40gb"),
        ("Standard_ND96isr_H200_v5", "h200-sxm"),
        ("NC40ads_H100_v5", "h100-nvl"),
        ("a3-megagpu-8g", "h100-sxm"),
        ("a3-ultragpu-8g", "h200-sxm"),
        ("g6e.12xlarge", "l40s"),
        ("BM.GPU.A100-v2.8", "a100-sxm-80gb"),
        ("v5litepod-8", "tpu-v5e"),
        ("Ryzen 9 7950X (Nvidia 4070 Ti Super)", "rtx-4070-ti-super"),
        ("NVIDIA 4070 Ti 12GB", "rtx-4070-ti"),
        ("Ryzen 9 5950X (Nvidia 4070)", "rtx-4070"),
        ("Apple M4 Max", "m4-max"),
        ("M4 Mac mini (10 core - 32GB)", "m4"),
        ("AMD Instinct MI300X OAM", "mi300x"),
        ("AMD Instinct MI300A", "mi300a"),
        ("MI250X-GCD", "mi250x-gcd"),
        ("NVIDIA H20", "h20-sxm"),
        ("H20-SXM-96GB", "h20-sxm"),
        ("TPU v5p", "tpu-v5p"),
        ("TPU-v5 lite", "tpu-v5e"),
        ("Radxa Orion O6 - 16GB (Nvidia RTX 3080 Ti)", "rtx-3080-ti"),
    ],
)
def test_spellings_of_one_card(words: str, name: str) -> None:
    assert card(words)[0] == name


@pytest.mark.parametrize(
    "words",
    [
        "NVIDIA H200 NVL",
        "H100 64GB",
        "A100 and H100",
        "RTX 4080 Super",
        "Pi CM5 - 16GB (AMD AI Pro R9700)",
        "RTX 4090 Laptop",
        "A100 MIG 1g.10gb",
        "MI250X",
        "A1000",
        "H100PCIe",
        "",
    ],
)
def test_another_card_is_not_taken_for_a_known_one(words: str) -> None:
    assert card(words)[0] is None


def test_a_form_that_is_not_said_is_assumed_unless_the_links_say_it() -> None:
    assert card("H100-80GB") == ("h100-sxm", True)
    assert card("H100-80GB", "NVLink4 900 GB/s") == ("h100-sxm", False)
    assert card("H100-80GB", "PCIe Gen5") == ("h100-pcie", False)
    assert card("H100 SXM", "PCIe Gen5 to the host") == ("h100-sxm", False)


def test_the_h100_of_96_gb_is_meant_where_its_memory_is_said() -> None:
    assert card("H100-96GB HBM2e", "NVLink") == ("h100-sxm-96gb", False)
    assert card("H100-96GB")[0] is None
