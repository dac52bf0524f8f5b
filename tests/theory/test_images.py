"""Images of requests: patches and tokens in closed form, conservation, and the time until a lone first token."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import units
from simulator.errors import InputError
from simulator.interop import traces
from simulator.run.serve import run_serving, serve
from simulator.serving.fleet.system import resolve
from simulator.serving.workload.generate import generate
from simulator.serving.workload.images import patches, tokens
from simulator.specs import load_scenario
from simulator.specs.model.vision import Vision
from simulator.specs.scenario import ServingScenario
from tests.effort import simulations

SEEING = """version: 1
name: pictures
cluster: {extends: clusters/dgx-h100, nodes: 1}
model: {extends: models/qwen2-vl-7b, layers: 4}
stack: vllm
serving: {replicas: 1, parallel: {tp: 1}}
requests:
  arrivals: {poisson: 40 /s}
  lengths: {prompt: {uniform: [10, 90]}, output: {uniform: [2, 20]}}
  count: 30
"""
IMAGES = "+requests.images={count: {uniform: [0, 3]}, width: {uniform: [100, 900]}, height: {uniform: [100, 900]}}"
ALONE = "+requests.images={width: {fixed: 1024}, height: {fixed: 768}}"


def seeing(tmp_path: Path, *overrides: str) -> ServingScenario:
    path = tmp_path / "pictures.yaml"
    path.write_text(SEEING)
    scenario = load_scenario(str(path), overrides).scenario
    assert isinstance(scenario, ServingScenario)
    return scenario


@given(w=st.integers(1, 300), h=st.integers(1, 300), patch=st.integers(1, 40), merge=st.integers(1, 9))
@simulations(60)
def test_an_image_is_as_many_tokens_as_its_patches_make(w: int, h: int, patch: int, merge: int) -> None:
    """ceil(h / patch) ceil(w / patch) / merge, counted square by square."""
    vision = Vision(layers=1, hidden=8, heads=1, patch=patch, merge=merge)
    squares = sum(1 for _ in range(0, h, patch) for _ in range(0, w, patch))
    assert patches(w, h, vision) == squares
    assert tokens(squares, vision) == sum(1 for _ in range(0, squares, merge))


@given(w=st.integers(1, 5000), h=st.integers(1, 5000), most=st.integers(1, 1_000_000))
@simulations(60)
def test_larger_images_are_made_smaller(w: int, h: int, most: int) -> None:
    whole = Vision(layers=1, hidden=8, heads=1, patch=14)
    bounded = whole.model_copy(update={"most_pixels": most})
    found = patches(w, h, bounded)
    assert 1 <= found <= max(most // 14**2, 1)
    assert found <= patches(w, h, whole)
    if patches(w, h, whole) * 14**2 <= most:
        assert found == patches(w, h, whole)
    elif min(w, h) * np.sqrt(most / (w * h)) >= 28 and most < w * h:  # at most a row and a column less
        assert (
            found
            >= (most / 14**2) * (1 - 14 / (w * np.sqrt(most / (w * h)))) * (1 - 14 / (h * np.sqrt(most / (w * h))))
            - 1e-6
        )


def test_prompts_are_longer_by_the_tokens_of_images(tmp_path: Path) -> None:
    blind, scenario = seeing(tmp_path), seeing(tmp_path, IMAGES)
    vision = scenario.model.vision
    assert vision is not None
    plain = generate(blind.requests, 0)
    drawn = generate(scenario.requests, 0, model=scenario.model)
    assert drawn.images is not None
    longer = [sum(tokens(each, vision) for each in own) for own in drawn.images]
    assert (drawn.prompt - plain.prompt).tolist() == longer
    assert (drawn.output == plain.output).all() and (drawn.arrival == plain.arrival).all()
    metrics = serve(scenario).metrics
    assert metrics["total_images"] == sum(map(len, drawn.images)) > 0
    assert metrics["total_image_tokens"] == sum(longer)
    assert metrics["total_input_tokens"] == drawn.prompt.sum()


def test_a_lone_first_token_comes_later_by_the_encoder(tmp_path: Path) -> None:
    """A prompt of as many tokens without the image is as long, but for encoding."""
    one = ("requests.count=1", "requests.lengths.prompt={fixed: 50}")
    scenario = seeing(tmp_path, ALONE, *one)
    found = 74 * 55  # ceil(1024 / 14), ceil(768 / 14)
    prompt = 50 + -(-found // 4)
    plain = run_serving(seeing(tmp_path, "requests.count=1", f"requests.lengths.prompt={{fixed: {prompt}}}"))
    seen = run_serving(scenario)
    encoder = resolve(scenario)[0].cost.vision
    assert encoder is not None
    ticks = encoder.ticks([found])
    assert seen.ledger.first_token[0] - plain.ledger.first_token[0] == ticks > 0
    flops = 2.0 * found * 32 * (4 + 8) * 1280**2 + 4.0 * found**2 * 1280 * 32
    assert units.to_seconds(ticks) > flops / 989.4e12
    assert units.to_seconds(ticks) < 6 * flops / 989.4e12
    assert serve(scenario).metrics["image_encoding_s"] == pytest.approx(units.to_seconds(ticks))


def test_images_together_take_no_longer_than_one_by_one(tmp_path: Path) -> None:
    encoder = resolve(seeing(tmp_path, ALONE))[0].cost.vision
    assert encoder is not None
    times = [encoder.ticks([size]) for size in (16, 64, 256, 1024, 4096)]
    assert times == sorted(times) and encoder.ticks([]) == 0
    assert max(times) < encoder.ticks([16, 64, 256, 1024, 4096]) < sum(times)


@pytest.mark.parametrize("more", [(), ("serving.parallel={pp: 2}",), ("serving.kv_cache={blocks: 400}",)])
def test_each_image_is_encoded_once_and_leaping_changes_nothing(more: tuple[str, ...], tmp_path: Path) -> None:
    runs = [run_serving(seeing(tmp_path, IMAGES, *more), leap=leap) for leap in (True, False)]
    columns = [(list(run.ledger.first_token), list(run.ledger.finish)) for run in runs]
    assert columns[0] == columns[1] and min(columns[0][1]) > 0
    encoder = runs[0].replicas[0].encoder
    assert encoder is not None and encoder.images == sum(map(len, runs[0].workload.images or ()))


MIXTURE = (
    "model={extends: models/olmoe-1b-7b, layers: 4, vision: {layers: 4, hidden: 64, heads: 4, patch: 14, merge: 16}}"
)


def test_ranks_in_step_encode_their_own_images_and_wait_for_each_other(tmp_path: Path) -> None:
    """With attention data parallel each image is encoded once, on the rank that has its request, and its peers' steps
    last as long; leaping changes nothing."""
    ranks = MIXTURE, "serving.parallel={tp: 1, dp: 4, ep: 4}", IMAGES
    runs = [run_serving(seeing(tmp_path, *ranks), leap=leap) for leap in (True, False)]
    columns = [(list(run.ledger.first_token), list(run.ledger.finish)) for run in runs]
    assert columns[0] == columns[1] and min(columns[0][1]) > 0
    encoders = [replica.encoder for replica in runs[0].replicas]
    wanted = sum(map(len, runs[0].workload.images or ()))
    assert len(encoders) == 4
    assert sum(each.images for each in encoders if each is not None) == wanted > 0
    assert sum(each is not None and each.images > 0 for each in encoders) > 1
    blind = run_serving(seeing(tmp_path, *ranks, "model.vision.layers=1"))  # as many tokens, a shorter encoder
    assert np.mean(blind.ledger.first_token) < np.mean(columns[0][0])


def test_requests_of_a_replica_that_failed_encode_their_images_again(tmp_path: Path) -> None:
    """What was encoded is lost with the memory: more images are encoded than requests have."""
    (tmp_path / "failures.csv").write_text("time,what,until\n0.3,replica,0.4\n")
    failing = f"+serving.fleet={{failures: {{trace: {tmp_path / 'failures.csv'}, requests: retry}}}}"
    runs = [run_serving(seeing(tmp_path, IMAGES, failing), leap=leap) for leap in (True, False)]
    columns = [(list(run.ledger.first_token), list(run.ledger.finish)) for run in runs]
    assert columns[0] == columns[1] and min(columns[0][1]) > 0
    encoder, images = runs[0].replicas[0].encoder, runs[0].workload.images
    assert encoder is not None and images is not None
    assert sum(map(len, images)) < encoder.images <= 2 * sum(map(len, images))


def test_images_of_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text("arrival_s,prompt,output,images\n2.0,5,3,28x28 14X15\n0.5,7,2,\n1.0,9,2,100x7;\n")
    found = traces.read(str(path))
    assert found.images == ((), ((100, 7),), ((28, 28), (14, 15)))
    scenario = seeing(tmp_path, f"requests={{trace: {path}}}")
    run = run_serving(scenario)
    assert run.workload.images == ((), (8,), (4, 2))
    assert run.workload.prompt.tolist() == [7, 9 + 2, 5 + 1 + 1]
    own = run_serving(
        seeing(tmp_path, f"requests={{trace: {path}, images: {{width: {{fixed: 14}}, height: {{fixed: 14}}}}}}")
    )
    assert own.workload.images == ((1,),) * 3


@pytest.mark.parametrize("cell", ["28", "28x", "0x5", "ax5", "5x5x5", "-1x5", "999999999x2"])
def test_sizes_that_are_none(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text(f"prompt,output,images\n5,3,28x28\n7,2,{cell}\n")
    with pytest.raises(InputError, match="is no size of an image") as caught:
        traces.read(str(path))
    assert caught.value.problems[0].line == 3 and caught.value.problems[0].path == "images"


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        (("model=models/qwen2-7b", ALONE), "requests.images", "no `vision`"),
        (
            ("+requests.images={count: {fixed: 9999}, width: {fixed: 5}, height: {fixed: 5}}",),
            "requests.images.count",
            "images in a request",
        ),
        (("+requests.images={width: {fixed: 200000}, height: {fixed: 5}}",), "requests.images.width", "pixels"),
        (("+requests.images={width: {fixed: 0}, height: {fixed: 5}}",), "requests.images.width", "write 1 or more"),
        (("+requests.images={width: {fixed: 5}}",), "requests.images", "height"),
        ((ALONE, "+requests.sessions={turns: {fixed: 2}, think: {fixed: 1}}"), "requests", "whose turns repeat them"),
        (("model.vision={layers: 2, hidden: 10, heads: 3, patch: 14}", ALONE), "model.vision", "multiple of heads"),
    ],
)
def test_images_that_cannot_be(changes: tuple[str, ...], path: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as caught:
        run_serving(seeing(tmp_path, *changes))
    assert caught.value.problems[0].path.startswith(path)
