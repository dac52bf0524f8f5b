"""Jobs of torchtitan: the published configurations of Llama 3, older keys, and everything that can be wrong."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.errors import InputError
from simulator.interop.machine import Machine
from simulator.interop.torchtitan.experts import MIXTURES
from simulator.interop.torchtitan.translate import FLAVORS, split
from simulator.run.dispatch import simulate
from simulator.run.imports import import_file
from simulator.specs import load_scenario, load_spec
from simulator.specs.model import Model

FILES = Path(__file__).parents[1] / "files"
EXPERTS = (
    '[model]\nname = "deepseek_v3"\nflavor = "16B"\n[training]\nlocal_batch_size = 4\nseq_len = 4096\n[parallelism]\n'
)
JOB = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 2\nseq_len = 4096\n'


def imported(text: str, tmp_path: Path, nodes: int | None = None, **given: str) -> Any:
    """The scenario that a text makes, as plain data."""
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    keys = {key.replace("__", "."): value for key, value in given.items()}
    return yaml.safe_load(import_file(str(tmp_path / "job.toml"), Machine("dgx-h100", nodes), None, keys))


@pytest.mark.parametrize(
    ("file", "machine", "batch", "simulated", "parallel"),
    [
        ("llama3-8b.toml", Machine("dgx-a100", 8), 64, 64, {"tp": 1, "pp": 1, "dp": 64, "zero": 3}),
        ("llama3-70b.toml", Machine("dgx-h100", 32), 256, 256, {"tp": 8, "pp": 1, "dp": 32, "zero": 3}),
        ("llama3-405b.toml", Machine("dgx-h100", 64), 2048, 64, {"tp": 8, "pp": 8, "vpp": 2, "dp": 8, "zero": 2}),
    ],
)
def test_published_jobs_become_scenarios_that_run(
    file: str, machine: Machine, batch: int, simulated: int, parallel: dict[str, int], tmp_path: Path
) -> None:
    """What runs is a smaller batch: 256 microbatches take no other path than 8."""
    path = tmp_path / "scenario.yaml"
    path.write_text(import_file(str(FILES / file), machine), encoding="utf-8")
    made = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert made["training"]["global_batch"] == batch
    assert {axis: made["training"]["parallel"].get(axis) for axis in parallel} == parallel
    assert (
        simulate(load_scenario(path, [f"training.global_batch={simulated}"]).scenario, fold="tiers").metrics[
            "step_time_s"
        ]
        > 0
    )


@pytest.mark.parametrize(
    ("flavor", "dim", "layers", "heads", "multiplier", "multiple"),
    [("8B", 4096, 32, 32, 1.3, 1024), ("70B", 8192, 80, 64, 1.3, 4096), ("405B", 16384, 126, 128, 1.2, 4096)],
)
def test_flavors_have_the_shapes_of_torchtitans_table(
    flavor: str, dim: int, layers: int, heads: int, multiplier: float, multiple: int
) -> None:
    """torchtitan/models/llama3/__init__.py and the rounding of torchtitan/models/llama3/model.py."""
    model = load_spec(Model, f"models/{FLAVORS['llama3'][flavor]}")
    inner = int(multiplier * int(2 * 4 * dim / 3))
    assert model.ffn == -(-inner // multiple) * multiple
    assert (model.hidden, model.layers, model.heads, model.kv_heads) == (dim, layers, heads, 8)


@pytest.mark.parametrize("model", [name for family in FLAVORS.values() for name in family.values()])
def test_flavors_are_shipped(model: str) -> None:
    assert (load_spec(Model, f"models/{model}").experts is not None) == (model in MIXTURES)


@pytest.mark.parametrize(
    ("flavor", "dim", "layers", "heads", "experts", "shared", "top_k", "inner", "groups"),
    [
        ("16B", 2048, 27, 16, 64, 2, 6, 1408, 1),
        ("236B", 5120, 60, 128, 160, 2, 6, 1536, 8),
        ("671B", 7168, 61, 128, 256, 1, 8, 2048, 8),
    ],
)
def test_flavors_of_deepseek_have_the_shapes_of_torchtitans_table(
    flavor: str, dim: int, layers: int, heads: int, experts: int, shared: int, top_k: int, inner: int, groups: int
) -> None:
    """torchtitan/models/deepseek_v3/__init__.py."""
    model = load_spec(Model, f"models/{FLAVORS['deepseek_v3'][flavor]}")
    assert (model.hidden, model.layers, model.heads, model.experts) == (dim, layers, heads, experts)
    assert (model.shared_experts, model.top_k, model.expert_ffn) == (shared, top_k, inner)
    assert model.expert_groups == groups


@pytest.mark.parametrize(
    ("job", "parallel", "dispatcher"),
    [
        (EXPERTS + "expert_parallel_degree = 8", {"ep": 8, "etp": 1, "dp": 8}, "alltoall"),
        (
            EXPERTS + 'expert_parallel_degree = 8\nexpert_parallel_comm_backend = "deepep"',
            {"ep": 8, "etp": 1},
            "deepep",
        ),
        (
            EXPERTS + "tensor_parallel_degree = 2\nexpert_parallel_degree = 4\nexpert_tensor_parallel_degree = 2",
            {"tp": 2, "ep": 4, "etp": 2, "dp": 4},
            "alltoall",
        ),
        (EXPERTS + "tensor_parallel_degree = 2", {"tp": 2, "ep": 1, "etp": 2}, "alltoall"),
        (
            '[model]\nname = "qwen3"\nflavor = "30B-A3B"\n[training]\n[parallelism]\nexpert_parallel_degree = 4',
            {"ep": 4, "etp": 1},
            "alltoall",
        ),
    ],
)
def test_experts_have_a_mesh_of_their_own(job: str, parallel: dict[str, int], dispatcher: str, tmp_path: Path) -> None:
    made = imported(job, tmp_path, nodes=1)["training"]
    assert {axis: made["parallel"].get(axis) for axis in parallel} == parallel
    assert made["dispatcher"] == dispatcher


def test_a_mixture_of_experts_becomes_a_scenario_that_runs(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(EXPERTS + "expert_parallel_degree = 8", encoding="utf-8")
    path = tmp_path / "scenario.yaml"
    path.write_text(import_file(str(tmp_path / "job.toml"), Machine("dgx-h100", 2)), encoding="utf-8")
    assert simulate(load_scenario(path).scenario).metrics["step_time_s"] > 0


@pytest.mark.parametrize(
    ("flavor", "sequence", "told"), [("17bx16e", 16384, 1), ("17bx16e", 8192, 0), ("17bx16e_irope", 16384, 0)]
)
def test_what_a_flavor_of_llama_4_does_otherwise_is_told(flavor: str, sequence: int, told: int, tmp_path: Path) -> None:
    job = f'[model]\nname = "llama4"\nflavor = "{flavor}"\n[training]\nseq_len = {sequence}\n'
    (tmp_path / "job.toml").write_text(job, encoding="utf-8")
    text = import_file(str(tmp_path / "job.toml"), Machine("dgx-h100", 4))
    assert text.count("see the whole context") == told


def test_degrees_of_experts_say_nothing_of_a_dense_model(tmp_path: Path) -> None:
    made = imported(JOB + "[parallelism]\nexpert_parallel_degree = 2", tmp_path, nodes=1)
    assert "ep" not in made["training"]["parallel"]


def test_stages_as_torchtitan_splits() -> None:
    assert split(126, 16, 1, 1) == [7, *[8] * 14, 7]
    assert split(32, 4, 1, 1) == [8, 9, 8, 7]
    assert sum(split(80, 16, 0, 0)) == 80


@pytest.mark.parametrize(
    ("extra", "path", "value"),
    [
        ("global_batch_size = 64", "training.global_batch", 64),
        ("[parallelism]\ntensor_parallel_degree = 4", "training.parallel.sequence_parallel", True),
        (
            "[parallelism]\ntensor_parallel_degree = 4\nenable_async_tensor_parallel = true",
            "training.overlap_tensor",
            "steps",
        ),
        ("[parallelism]\ndata_parallel_replicate_degree = 2", "training.parallel.shard_size", 4),
        (
            "[parallelism]\ndata_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1",
            "training.parallel.zero",
            0,
        ),
        ("[parallelism]\npipeline_parallel_degree = 2", "training.micro_batch", 1),
        (
            "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'gpipe'",
            "training.schedule",
            "gpipe",
        ),
        *(
            (
                "[parallelism]\npipeline_parallel_degree = 2\ndata_parallel_shard_degree = 1\n"
                f"data_parallel_replicate_degree = 4\npipeline_parallel_schedule = '{theirs}'",
                "training.schedule",
                ours,
            )
            for theirs, ours in (
                ("InterleavedZeroBubble", "zb-h1"),
                ("ZBVZeroBubble", "zb-v"),
                ("LoopedBFS", "breadth-first"),
            )
        ),
        ("[experimental]\npipeline_parallel_degree = 4", "training.parallel.pp", 4),
        ("[activation_checkpoint]\nmode = 'selective'\nselective_ac_option = '2'", "training.recompute_layers", 16),
        (
            "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'Interleaved1F1B'",
            "training.recompute_layers",  # of each chunk of 8 layers
            4,
        ),
        ("[activation_checkpoint]\nmode = 'none'", "training.recompute", "none"),
        ("[activation_checkpoint]\nselective_ac_option = 'op'", "training.recompute", "full"),
        (
            "[activation_checkpoint]\nmode = 'selective'\nselective_ac_option = 'op'",
            "training.recompute_keeps",
            ["every-second-product", "attention", "reductions"],
        ),
        ("[optimizer]\nname = 'AdamW'", "training.optimizer.name", "adamw"),
        ("[optimizer]\nname = 'Muon'", "training.optimizer.name", "muon"),
        ("[optimizer]\nearly_step_in_backward = true", "training.optimizer.in_backward", True),
        ("[parallelism]\ncontext_parallel_degree = 2", "training.parallel.cp", 2),
        ("[parallelism]\ncontext_parallel_degree = 2", "training.parallel.cp_kind", "all-gather"),
    ],
)
def test_what_a_key_means(extra: str, path: str, value: object, tmp_path: Path) -> None:
    found = imported(JOB + extra, tmp_path)
    for key in path.split("."):
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[model]\nname = "llama3', "is the file complete?"),
        ("[tool]\nx = 1", "no job of torchtitan"),
        ("a = " + "[" * 5000, "no TOML"),
        (JOB + "steps = " + "9" * 5000, "job.toml:7: a number of 5000 digits is too long"),
        (JOB.replace("8B", "9B"), "flavor `9B` of llama3 is not known"),
        (JOB.replace("llama3", "deepseek_v3"), "the flavor `8B` of deepseek_v3 is not known"),
        (JOB.replace("llama3", "lama3"), "did you mean `llama3`?"),
        (
            JOB + "[parallelism]\ncontext_parallel_degree = 2\ncontext_parallel_rotate_method = 'x'",
            "job.toml:9: context_parallel_rotate_method `x` is not known",
        ),
        (EXPERTS + "expert_parallel_degree = 6", "expert_parallel_degree 6 is no multiple of"),
        (
            EXPERTS + "tensor_parallel_degree = 4\nexpert_parallel_degree = 2",
            "expert_parallel_degree 2 is no multiple of context_parallel_degree x tensor_parallel_degree = 4",
        ),
        (
            EXPERTS + "tensor_parallel_degree = 4\nexpert_parallel_degree = 8\nexpert_tensor_parallel_degree = 2",
            "expert_tensor_parallel_degree 2 is neither 1 nor tensor_parallel_degree 4",
        ),
        (EXPERTS + 'expert_parallel_comm_backend = "pigeon"', "expert_parallel_comm_backend `pigeon` is not known"),
        (JOB + "[parallelism]\ntensor_parallel_degree = 0", "from 1 to"),
        (JOB + "[parallelism]\ntensor_parallel_degree = 'x'", "not `x`"),
        (JOB + f"[parallelism]\ntensor_parallel_degree = {10**30}", "from 1 to"),
        (JOB + "[parallelism]\ntensor_parallel_degree = 1000000000", "are the sizes right?"),
        (JOB + "[parallelism]\ndata_parallel_shard_degree = 3", "3 devices are needed"),
        (JOB + "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'MyOwn'", "as CSV"),
        (
            JOB + "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'ZBVZeroBubble'\n"
            "pipeline_parallel_layers_per_stage = 4",
            "which 2 ranks cannot share under ZBVZeroBubble",
        ),
        (
            JOB + "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'dualpipev'",
            "`dualpipev` needs 4 microbatches or more, not 2",
        ),
        (
            JOB + "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'ZBVZeroBubble'",
            "the schedule splits backward passes (I, W), not simulated with ZeRO-3 (nor ZeRO-2 of FSDP) yet",
        ),
        (
            JOB + "[parallelism]\npipeline_parallel_degree = 64\npipeline_parallel_schedule = 'Interleaved1F1B'",
            "do not make",
        ),
        (JOB + "[activation_checkpoint]\nmode = 'memory_budget'", "is not simulated"),
        (JOB + "[optimizer]\nname = 'AdamX'", "did you mean `Adam"),
    ],
)
def test_what_cannot_be_imported(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        imported(text, tmp_path)
    assert words in str(caught.value)


def test_keys_can_be_set_and_ignored_ones_are_listed(tmp_path: Path) -> None:
    job = JOB + "compile = true\n[parallelism]\ncontext_parallel_degree = 2\n[optimizer]\nlr = 1e-4"
    made = imported(job, tmp_path, nodes=2, parallelism__context_parallel_degree="1", training__seq_len="8192")
    assert made["training"]["sequence_length"] == 8192
    text = import_file(
        str(tmp_path / "job.toml"), Machine("dgx-h100"), None, {"parallelism.context_parallel_degree": "1"}
    )
    assert made["stack"] == "fsdp-compiled" and imported(JOB, tmp_path)["stack"] == "fsdp-eager"
    assert "optimizer.lr" in text


def test_a_misspelt_key_is_not_called_harmless(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB + "[parallelism]\ntensor_paralel_degree = 2")
    text = import_file(str(tmp_path / "job.toml"), Machine("dgx-h100"))
    assert "parallelism.tensor_paralel_degree (did you mean parallelism.tensor_parallel_degree?)" in text
