"""Families of a Hugging Face `config.json` with an encoder and a decoder that attends to it.

Both stacks of a model have layers of one shape here; a config whose stacks differ is refused with both numbers.
"""

from collections.abc import Callable
from typing import Any

from simulator.interop.huggingface.config import Config


def _t5(config: Config) -> None:
    """T5 and Flan-T5, mT5, ByT5, UMT5."""
    config.number("encoder_layers", "num_layers")
    config.number("layers", "num_decoder_layers", "num_layers")
    config.number("hidden", "d_model")
    config.number("heads", "num_heads")
    config.number("head_dim", "d_kv")
    config.number("ffn", "d_ff")
    config.number("vocabulary", "vocab_size")
    config.flag("tied_embeddings", "tie_word_embeddings", True)
    usual = "relu" if config.entries.get("model_type") == "t5" else "gated-gelu"
    gated = str(config.entries.get("feed_forward_proj", usual)).startswith("gated")
    config.imply(gated_ffn=gated, position="none", norm="rmsnorm", biases=False)
    config.left_out.append("relative positions")


def _bart(config: Config) -> None:
    """BART, mBART and Blenderbot, whose positions are learned; without the norm after the embedding."""
    _stacks(config, positions="learned")
    config.optional("max_sequence", "max_position_embeddings")


def _sinusoidal(config: Config) -> None:
    """Marian, Pegasus, M2M-100 and NLLB, whose positions are computed."""
    _stacks(config, positions="none")
    config.optional("max_sequence", "max_position_embeddings")
    config.left_out.append("tables of sinusoidal positions")


def _whisper(config: Config) -> None:
    """Whisper and Distil-Whisper: an encoder of 30 s of sound and a decoder of text."""
    _stacks(config, positions="learned")
    config.number("max_sequence", "max_target_positions", default=448)
    config.number("encoder_rows", "max_source_positions", default=1500)
    config.number("sound_bins", "num_mel_bins", default=80)


def _stacks(config: Config, positions: str) -> None:
    """Sizes of both stacks, by the names that all but T5 share."""
    config.number("encoder_layers", "encoder_layers", "num_encoder_layers")
    config.number("layers", "decoder_layers", "num_decoder_layers")
    config.number("hidden", "d_model")
    config.number("heads", "decoder_attention_heads")
    config.number("ffn", "decoder_ffn_dim")
    config.number("vocabulary", "vocab_size")
    config.flag("tied_embeddings", "tie_word_embeddings", True)
    config.imply(position=positions, norm="layernorm", biases=True, gated_ffn=False)
    for size in ("attention_heads", "ffn_dim"):
        own, other = (config.whole(f"{stack}_{size}") for stack in ("decoder", "encoder"))
        if own is not None and other is not None and own != other:
            message = f"encoder_{size} {other} and decoder_{size} {own}: both stacks have layers of one shape here"
            config.wrong(f"encoder_{size}", message)


ENCODED: dict[str, Callable[[Config], Any]] = {
    "bart": _bart,
    "blenderbot": _bart,
    "blenderbot-small": _bart,
    "m2m_100": _sinusoidal,
    "marian": _sinusoidal,
    "mbart": _bart,
    "mt5": _t5,
    "pegasus": _sinusoidal,
    "t5": _t5,
    "umt5": _t5,
    "whisper": _whisper,
}
"""Architectures by `model_type`."""
