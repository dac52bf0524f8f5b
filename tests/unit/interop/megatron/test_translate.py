"""Arguments of Megatron-LM: launch published scripts, lists, YAML, JSON, and everything that can be wrong."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.errors import InputError
from simulator.interop.machine import Machine
from simulator.run.dispatch import simulate
from simulator.run.imports import import_file
from simulator.specs import load_scenario, load_spec
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario
from tests.parameters import parameters

FILES = Path(__file__).parents[1] / "files"
LIST = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --vocab-size 1000 --bf16 "


def imported(
    text: str, tmp_path: Path, cluster: str = "dgx-h100", name: str = "run.sh", **given: str
) -> dict[str, Any]:
    """The scenario that a text makes, as plain data."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    given = {key.replace("_", "-"): value for key, value in given.items()}
    found: dict[str, Any] = yaml.safe_load(import_file(str(tmp_path / name), Machine(cluster), None, given))
    return found


def problems(text: str, tmp_path: Path, name: str = "run.sh", **given: str) -> str:
    """What is wrong with a text."""
    with pytest.raises(InputError) as caught:
        imported(text, tmp_path, name=name, **given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("file", "machine", "billions", "parallel"),
    [
        ("gpt-175b.sh", Machine("selene", 48), 174.6, {"tp": 8, "pp": 16, "dp": 3}),
        ("llama-3-8b.sh", Machine("dgx-h100"), 8.03, {"tp": 2, "pp": 1, "dp": 4}),
    ],
)
def test_published_scripts_become_scenarios_that_run(
    file: str, machine: Machine, billions: float, parallel: dict[str, int], tmp_path: Path
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(import_file(str(FILES / file), machine), encoding="utf-8")
    scenario = load_scenario(path).scenario
    assert isinstance(scenario, Scenario)
    assert parameters(scenario.model) / 1e9 == pytest.approx(billions, rel=5e-3)
    assert {axis: getattr(scenario.training.parallel, axis) for axis in parallel} == parallel
    assert simulate(scenario, fold="tiers").metrics["step_time_s"] > 0


def test_the_scenario_says_where_its_values_came_from() -> None:
    text = import_file(str(FILES / "gpt-175b.sh"), Machine("dgx-a100"))
    assert "  layers: 96  # --num-layers, line 16" in text
    assert "vocabulary: 51200  # 50257" in text
    assert "--rampup-batch-size: the batch is the full one" in text
    assert "cannot; give --nodes for more" in text
    assert "--lr, --lr-warmup-fraction" in text


def test_values_of_ignored_arguments_are_not_repeated() -> None:
    text = import_file(str(FILES / "llama-3-8b.sh"), Machine("dgx-h100"))
    assert "--wandb-api-key" in text
    assert "verysecret" not in text


def test_a_llama_script_gives_the_published_shape(tmp_path: Path) -> None:
    made = yaml.safe_load(import_file(str(FILES / "llama-3-8b.sh"), Machine("dgx-h100")))["model"]
    shipped = load_spec(Model, "models/llama-3-8b").model_dump()
    assert {key: shipped[key] for key in made if key != "name"} == {key: made[key] for key in made if key != "name"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("args.txt", LIST.replace(" --", "\n--")),
        (
            "args.yaml",
            "num_layers: 4\nhidden-size: 256\nMODEL_ARGS: {--num-attention-heads: 4, --bf16: true}\n"
            "seq_length: 128\nvocab_size: 1000\nfp16: false\n",
        ),
        (
            "args.json",
            '{"num_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "seq_length": 128, '
            '"vocab_size": 1000, "bf16": true, "lr": null}',
        ),
        (
            "list.json",
            '["--num-layers", 4, "--hidden-size=256", "--num-attention-heads", "4", "--seq-length", "128", '
            '"--vocab-size", "1000", "--bf16"]',
        ),
        ("vars.sh", f'GPT_ARGS="{LIST}"\n'),
        ("old.sh", f"python -m torch.distributed.launch pretrain_gpt.py {LIST}"),
    ],
)
def test_arguments_in_other_forms_are_the_same(name: str, text: str, tmp_path: Path) -> None:
    made = imported(text, tmp_path, name=name)
    assert made["model"]["vocabulary"] == 1024
    assert made["training"] | {"parallel": 0} == imported(LIST, tmp_path)["training"] | {"parallel": 0}


@pytest.mark.parametrize(
    ("extra", "path", "value"),
    [
        ("--swiglu", "model.ffn", 640),
        ("--group-query-attention --num-query-groups 2", "model.kv_heads", 2),
        ("--use-distributed-optimizer", "training.parallel.zero", 1),
        ("--data-parallel-sharding-strategy optim_grads_params", "training.parallel.zero", 3),
        ("--recompute-activations", "training.recompute", "selective"),
        (
            "--recompute-granularity full --recompute-method block --recompute-num-layers 2",
            "training.recompute_layers",
            2,
        ),
        ("--checkpoint-activations", "stack", "megatron-lm-2021"),
        (
            "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --global-batch-size 16",
            "training.parallel.vpp",
            2,
        ),
        ("--pipeline-model-parallel-size 2 --enable-zero-bubble", "training.schedule", "zb-h1"),
        ("--pipeline-model-parallel-size 2 --num-seq-splits 2", "training.schedule", "seq1f1b"),
        ("--pipeline-model-parallel-size 2 --num-seq-splits 4", "training.slices", 4),
        ("--pipeline-model-parallel-size 2 --num-seq-splits 1", "training.schedule", "1f1b"),
        (
            "--pipeline-model-parallel-size 2 --zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup half",
            "training.schedule",
            "v-half",
        ),
        ("--pipeline-model-parallel-size 2 --zero-bubble-v-schedule", "training.parallel.vpp", 2),
        ("--pipeline-model-parallel-size 2 --enable-vocab-parallel", "training.schedule", "vocab-2"),
        (
            "--pipeline-model-parallel-size 2 --enable-vocab-parallel --disable-backward-fusion",
            "training.schedule",
            "vocab-1",
        ),
        (
            "--pipeline-model-parallel-size 2 --enable-vocab-parallel --use-interlaced-schedule",
            "training.schedule",
            "interlaced",
        ),
        ("--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 1", "training.stages", [1, 3]),
        ("--nnodes 2 --nproc_per_node 8", "cluster.nodes", 2),
        ("--fp8-format hybrid", "training.precision", "fp8"),
        ("--fp8-format e4m3 --fp8-recipe tensorwise", "training.precision", "fp8-current"),
        ("--fp8-format e4m3 --fp8-recipe blockwise", "training.precision", "fp8-block"),
        ("--fp8-format hybrid --fp8-param-gather", "training.quantized_parameters", True),
        ("--grad-reduce-in-bf16", "training.reduce_precision", "bf16"),
        ("--grad-reduce-in-bf16", "training.gradient_precision", "bf16"),
        ("--optimizer sgd", "training.optimizer.name", "sgd-momentum"),
        ("--optimizer muon --muon-num-ns-steps 6", "training.optimizer.iterations", 6),
        ("--optimizer muon --muon-tp-mode distributed", "training.optimizer.tensor", "distributed"),
        ("--optimizer muon", "training.parallel.zero", 0),
        ("--optimizer muon --muon-no-split-qkv", "training.optimizer.fused", "all"),
        ("--optimizer dist_muon", "training.parallel.zero", 1),
        ("--optimizer dist_muon", "training.optimizer", {"name": "muon", "whole": "owners"}),
        (
            "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
            "training.optimizer",
            {"name": "adam", "moments": "bf16"},
        ),
        ("--use-precision-aware-optimizer --main-grads-dtype bf16", "training.gradient_precision", "bf16"),
        ("--attention-backend unfused", "training.attention", "unfused"),
        ("--hidden-size 512", "model.hidden", 512),
        ("--mtp-num-layers 1", "model.mtp_layers", 1),
        ("--context-parallel-size 4", "training.parallel.cp", 4),
        ("--context-parallel-size 4", "training.parallel.cp_kind", "zigzag"),
        ("--context-parallel-size 4", "training.parallel.dp", 2),
        ("--context-parallel-size 4 --cp-comm-type a2a", "training.parallel.cp_kind", "ulysses"),
        (
            "--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2",
            "training.parallel.ulysses",
            2,
        ),
    ],
)
def test_what_an_argument_means(extra: str, path: str, value: object, tmp_path: Path) -> None:
    found: Any = imported(f"run {LIST} {extra}", tmp_path)
    for key in path.split("."):
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo hello", "no arguments of Megatron-LM"),
        (LIST + "--context-parallel-size 2 --cp-comm-type x2x", "`x2x` is not known"),
        ("run " + LIST + " --fp8-format e4m3 --fp8-recipe mxfp8", "cannot multiply as `mxfp8` asks"),
        ("run " + LIST + " --fp4-format e2m1", "cannot multiply as `nvfp4` asks"),
        (LIST + "--num-experts 8 --moe-layer-freq [0,1]", "--moe-layer-freq does not name"),
        (LIST + "--hidden-size $(cat h)", "nothing is run here"),
        (LIST + "--hidden-size `cat h`", "nothing is run here"),
        (LIST + "--hidden-size $H", "`--set H=VALUE`"),
        (LIST + "--hidden-size 99999999999999999999", "from 1 to 1,000,000,000"),
        (LIST + "--hidden-size -3", "whole number"),
        (LIST + "--hidden-size", "whole number"),
        (LIST + "--tensor-model-parallel-size 900000000", "are the sizes right?"),
        (LIST + "--pipeline-model-parallel-size 3", "layers do not divide"),
        (LIST + "--normalization Foo", "`Foo` is not known"),
        (LIST.replace("--vocab-size 1000", ""), "--set vocab-size=NUMBER"),
        (LIST.replace("--seq-length 128", ""), "--seq-length is missing"),
        (LIST + "'", "never closed"),
    ],
)
def test_what_cannot_be_imported(text: str, words: str, tmp_path: Path) -> None:
    assert words in problems(f"run {text}", tmp_path)


def test_all_problems_come_at_once_with_their_lines(tmp_path: Path) -> None:
    said = problems(f"\nrun {LIST} \\\n --hybrid-override-pattern M* \\\n --normalization Foo", tmp_path)
    assert [line.split(":")[1] for line in said.splitlines()] == ["3", "4"]


def test_arguments_can_be_set(tmp_path: Path) -> None:
    made = imported(f"run {LIST} --num-experts 8 --global-batch-size $B", tmp_path, num_experts="0", B="64")
    assert made["training"]["global_batch"] == 64


def test_what_is_set_must_be_used(tmp_path: Path) -> None:
    assert "did you mean `seq_length`?" in problems(f"run {LIST}", tmp_path, seqlength="64")


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    imported(f"touch {mark}\nX=$(touch {mark})\nrun {LIST} --save `touch {mark}`", tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize("text", ["{", "[1, 2", "a: b: c", "num_layers: {x: [1]}\nhidden_size: []", "{}"])
def test_broken_mappings(text: str, tmp_path: Path) -> None:
    assert problems(text, tmp_path, name="args.yaml")


def test_names_cannot_break_out_of_comments(tmp_path: Path) -> None:
    (tmp_path / "a\nname: b.sh").write_text(f"run {LIST} --x\u2028y 1", encoding="utf-8")
    made = yaml.safe_load(import_file(str(tmp_path / "a\nname: b.sh"), Machine("dgx-h100")))
    assert made["name"].startswith("a name")


def test_a_misspelt_argument_is_not_called_harmless(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"{LIST} --micro-batchsize 4 --foo-bar 3 --lr 1e-4")
    text = import_file(str(tmp_path / "run.sh"), Machine("dgx-h100"))
    assert "check the spelling:\n#   - --micro-batchsize (did you mean --micro-batch-size?)\n#\n" in text
    assert "#   --foo-bar, --lr\n" in text


def test_latent_attention_comes_with_its_sizes_or_megatrons_defaults(tmp_path: Path) -> None:
    sizes = "--multi-latent-attention --q-lora-rank 64 --kv-lora-rank 48 --qk-head-dim 32 --v-head-dim 24 "
    rest = "--untie-embeddings-and-output-weights --normalization RMSNorm --position-embedding-type rope "
    model = imported(f"{LIST} {sizes} {rest} --disable-bias-linear", tmp_path)["model"]
    assert {key: model[key] for key in ("attention", "q_lora_rank", "kv_lora_rank")} == {
        "attention": "mla",
        "q_lora_rank": 64,
        "kv_lora_rank": 48,
    }
    assert (model["qk_nope_head_dim"], model["qk_rope_head_dim"], model["v_head_dim"]) == (32, 64, 24)
    assert Model.model_validate(model).head_dim == 96


def test_a_mixture_of_experts_comes_with_its_mesh(tmp_path: Path) -> None:
    text = (
        "--num-experts 16 --moe-router-topk 4 --moe-ffn-hidden-size 512 --moe-layer-freq [0]*1+[1]*3 --swiglu "
        "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --moe-token-dispatcher-type flex "
        "--moe-enable-deepep --moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity"
    )
    made = imported(f"run {LIST} {text} --num-layers 4", tmp_path)
    model, training = made["model"], made["training"]
    assert (model["experts"], model["top_k"], model["expert_ffn"]) == (16, 4, 512)
    assert model["pattern"] == [{"repeat": 1, "mlp": "dense"}, {"repeat": 3, "mlp": "moe"}]
    assert (training["parallel"]["ep"], training["parallel"]["etp"], training["dispatcher"]) == (4, 1, "deepep")
    assert training["routing"] == {"capacity": 1.25, "padded": True}


EXPERTS = "--num-experts 16 --moe-router-topk 4 --expert-model-parallel-size 4 --swiglu "


@pytest.mark.parametrize(
    ("words", "dispatcher", "left_out"),
    [
        ("", "allgather", ""),
        ("--moe-token-dispatcher-type alltoall", "alltoall", ""),
        ("--moe-token-dispatcher-type allgather", "allgather", ""),
        ("--moe-token-dispatcher-type flex", "deepep", ""),
        ("--moe-token-dispatcher-type flex --moe-enable-deepep", "deepep", ""),
        ("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep", "deepep", ""),
        ("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep", "deepep", "priced as DeepEP's"),
        ("--moe-token-dispatcher-type alltoall --moe-enable-deepep", "alltoall", "only the flex dispatcher"),
    ],
)
def test_who_sends_rows_to_experts(words: str, dispatcher: str, left_out: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"run {LIST} {EXPERTS} {words}", encoding="utf-8")
    text = import_file(str(tmp_path / "run.sh"), Machine("dgx-h100"))
    assert yaml.safe_load(text)["training"]["dispatcher"] == dispatcher
    assert ("only the flex dispatcher" in text, "priced as DeepEP's" in text) == (
        left_out.startswith("only"),
        left_out.startswith("priced"),
    )


def test_an_unknown_dispatcher_is_refused(tmp_path: Path) -> None:
    found = problems(f"run {LIST} {EXPERTS} --moe-token-dispatcher-type alltoal", tmp_path)
    assert "--moe-token-dispatcher-type `alltoal` is not known" in found
    assert "alltoall" in found


@pytest.mark.parametrize(
    ("words", "window", "windowed"),
    [
        ("--window-size 127,0", 128, None),
        ("--window-size '(127,0)' --window-attn-skip-freq 2", 128, 2),
        ("--window-size '(127, 0)' --window-attn-skip-freq [1]*3+[0]*1", 128, 3),
        ("--window-size '(-1,0)'", None, None),
        ("", None, None),
    ],
)
def test_windows_of_attention(words: str, window: int | None, windowed: int | None, tmp_path: Path) -> None:
    model = imported(f"run {LIST} {words}", tmp_path)["model"]
    assert (model.get("window"), model.get("windowed_layers")) == (window, windowed)


@pytest.mark.parametrize("words", ["--window-size far", "--window-size 127,0 --window-attn-skip-freq [1]*9"])
def test_windows_that_are_not_read(words: str, tmp_path: Path) -> None:
    assert "is not read" in problems(f"run {LIST} {words}", tmp_path)


def test_scores_without_a_value(tmp_path: Path) -> None:
    assert imported(f"run {LIST} --softmax-type learnable", tmp_path)["model"]["attention_sinks"] is True
    assert "attention_sinks" not in imported(f"run {LIST} --softmax-type vanilla", tmp_path)["model"]


def test_modules_that_are_computed_again(tmp_path: Path) -> None:
    words = "--recompute-granularity selective --recompute-modules core_attn moe_act layernorm mlp"
    (tmp_path / "run.sh").write_text(f"run {LIST} {words}", encoding="utf-8")
    text = import_file(str(tmp_path / "run.sh"), Machine("dgx-h100"))
    assert yaml.safe_load(text)["training"]["recompute_modules"] == ["activation", "norm"]
    assert "--recompute-modules mlp: kept here" in text


@pytest.mark.parametrize(
    ("words", "graphs", "left_out"),
    [
        ("", None, ""),
        ("--cuda-graph-impl none", None, ""),
        ("--enable-cuda-graph", ["all"], ""),
        (
            "--cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router moe_preprocess",
            ["attention", "router"],
            "",
        ),
        ("--cuda-graph-impl local --cuda-graph-scope full_iteration", ["all"], ""),
        ("--cuda-graph-impl local --cuda-graph-scope attn mamba", ["attention"], "--cuda-graph-scope mamba"),
    ],
)
def test_what_is_captured_as_graphs(words: str, graphs: list[str] | None, left_out: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"run {LIST} {EXPERTS} {words}", encoding="utf-8")
    text = import_file(str(tmp_path / "run.sh"), Machine("dgx-h100"))
    assert yaml.safe_load(text)["training"].get("cuda_graphs") == graphs
    assert left_out in text


def test_what_exchanges_run_beside(tmp_path: Path) -> None:
    beside = imported(f"run {LIST} {EXPERTS} --overlap-moe-expert-parallel-comm", tmp_path)["training"]
    assert (beside.get("overlap_experts"), beside.get("overlap_shared_experts")) == (True, None)
    shared = "--moe-shared-expert-intermediate-size 512 --moe-shared-expert-overlap"
    own = imported(f"run {LIST} {EXPERTS} {shared}", tmp_path)["training"]
    assert (own.get("overlap_experts"), own.get("overlap_shared_experts")) == (None, True)


@pytest.mark.parametrize(("tp", "overlap"), [(1, None), (4, "all")])
def test_user_buffers_run_collectives_beside_products(tp: int, overlap: str | None, tmp_path: Path) -> None:
    words = f"--tensor-model-parallel-size {tp} --sequence-parallel --tp-comm-overlap"
    training = imported(f"run {LIST} {words if tp > 1 else '--tp-comm-overlap'}", tmp_path)["training"]
    assert training.get("overlap_tensor") == overlap
