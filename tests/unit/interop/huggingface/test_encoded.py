"""Configs of models with an encoder and a decoder: parameters as their authors count them, and stacks that differ."""

from typing import Any

import pytest

from simulator.errors import InputError
from simulator.interop.huggingface.encoded import ENCODED
from simulator.interop.huggingface.translate import translate
from simulator.model.parameters import total_parameters
from simulator.specs.model import Model


def stacks(kind: str, hidden: int, layers: tuple[int, int], heads: int, ffn: int, words: int, **more: Any) -> Any:
    each = {"attention_heads": heads, "ffn_dim": ffn}
    sizes = {f"{stack}_{key}": value for stack in ("encoder", "decoder") for key, value in each.items()}
    own = {"d_model": hidden, "vocab_size": words, "encoder_layers": layers[0], "decoder_layers": layers[1]}
    return {"model_type": kind, **own, **sizes, **more}


T5 = {"d_model": 768, "d_kv": 64, "num_layers": 12, "num_heads": 12}
PLACES = {"max_position_embeddings": 1024}
CONFIGS: dict[str, tuple[dict[str, Any], float]] = {
    "t5-base": ({"model_type": "t5", **T5, "d_ff": 3072, "vocab_size": 32128}, 222.9e6),
    "mt5-base": (
        {"model_type": "mt5", **T5, "d_ff": 2048, "vocab_size": 250112, "tie_word_embeddings": False},
        582.4e6,
    ),
    "umt5-base": (
        {"model_type": "umt5", **T5, "d_ff": 2048, "vocab_size": 256384, "tie_word_embeddings": False},
        592.0e6,
    ),
    "bart-base": (stacks("bart", 768, (6, 6), 12, 3072, 50265, **PLACES), 139.4e6),
    "bart-large": (stacks("bart", 1024, (12, 12), 16, 4096, 50265, **PLACES), 406.3e6),
    "mbart-large-50": (stacks("mbart", 1024, (12, 12), 16, 4096, 250054, **PLACES), 610.9e6),
    "blenderbot-400M-distill": (
        stacks("blenderbot", 1280, (2, 12), 32, 5120, 8008, max_position_embeddings=128),
        364.8e6,
    ),
    "m2m100-418M": (stacks("m2m_100", 1024, (12, 12), 16, 4096, 128112, **PLACES), 483.9e6),
    "nllb-200-1.3B": (stacks("m2m_100", 1024, (24, 24), 16, 8192, 256206, **PLACES), 1370.6e6),
    "pegasus-large": (stacks("pegasus", 1024, (16, 16), 16, 4096, 96103, **PLACES), 570.8e6),
    "opus-mt-en-de": (stacks("marian", 512, (6, 6), 8, 2048, 58101, max_position_embeddings=512), 74.4e6),
    "whisper-tiny": (stacks("whisper", 384, (4, 4), 6, 1536, 51865, num_mel_bins=80), 37.76e6),
    "whisper-small": (stacks("whisper", 768, (12, 12), 12, 3072, 51865, num_mel_bins=80), 241.7e6),
    "whisper-large-v3": (stacks("whisper", 1280, (32, 32), 20, 5120, 51866, num_mel_bins=128), 1543.5e6),
    "distil-large-v2": (stacks("whisper", 1280, (32, 2), 20, 5120, 51865, num_mel_bins=80), 756.2e6),
}
"""Parameters of the checkpoints as the Hugging Face hub counts them."""


def read(config: dict[str, Any]) -> Model:
    return Model.model_validate(translate(config).fields)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_has_the_parameters_of_its_checkpoint(name: str) -> None:
    config, published = CONFIGS[name]
    found = read(config)
    assert found.encoder_layers == config.get("encoder_layers", config.get("num_layers"))
    assert total_parameters(found) == pytest.approx(published, rel=0.01)


def test_every_family_is_tested() -> None:
    kinds = {config["model_type"] for config, _ in CONFIGS.values()}
    assert set(ENCODED) - kinds == {"blenderbot-small"}


def test_whisper_reads_thirty_seconds_of_sound() -> None:
    found = read(CONFIGS["whisper-small"][0])
    assert (found.encoder_rows, found.sound_bins, found.max_sequence) == (1500, 80, 448)


@pytest.mark.parametrize(("key", "other"), [("encoder_ffn_dim", 4096), ("encoder_attention_heads", 6)])
def test_stacks_of_two_shapes_are_refused(key: str, other: int) -> None:
    config = {**CONFIGS["bart-base"][0], key: other}
    with pytest.raises(InputError, match=f"{key} {other} and decoder_.*both stacks have layers of one shape here"):
        translate(config)
