"""Encoders of images of a Hugging Face `config.json`, as `model.vision`.

Each family names the sizes of its tower in its own way (defaults as in transformers 4.40 to 4.57). What a tower has and
the spec cannot express is said in `source`. What decides the size of images stands in another file
(`preprocessor_config.json`), so `most_pixels` is left open where a config does not say it.
"""

from collections.abc import Callable, Mapping
from math import isqrt

from simulator.interop.huggingface.config import Config
from simulator.specs.files.foreign import Inside

Tower = Callable[[Config, Config], None]
"""(the tower's part of the file, the file around it): takes fields of `model.vision` into the former."""
KEY = "vision_config"


def tower(config: Config, outer: Mapping[str, object]) -> None:
    """Take the tower of a file of several models into `vision`; one of an unknown family is left out by name."""
    found, kind = outer.get(KEY), str(outer.get("model_type"))
    if not isinstance(found, dict) or not found:
        return
    if kind not in TOWERS:
        config.left_out.append("the vision tower")
        return
    own = Config(found, KEY)
    TOWERS[kind](own, Config(outer))
    config.problems += own.problems
    config.left_out += own.left_out
    if not own.problems:
        config.fields["vision"] = _numbers(own)
        config.keys["vision"] = KEY


def _numbers(own: Config) -> Inside:
    found: dict[str, str | int | bool | list[int]] = {}
    for name, value in own.fields.items():
        if isinstance(value, int):
            found[name] = value
        elif isinstance(value, list):
            found[name] = [each for each in value if isinstance(each, int)]
    return found


def _squares(own: Config) -> None:
    """Patches of images, `spatial_merge_size` by as many of them a token."""
    own.number("patch", "patch_size", default=14)
    side = own.whole("spatial_merge_size", default=2) or 1
    own.take("merge", ("spatial_merge_size",), side * side)


def _qwen2_vl(own: Config, _: Config) -> None:
    """Qwen2-VL: `hidden_size` is that of the language model (arXiv:2409.12191, section 2.1)."""
    own.number("layers", "depth", default=32)
    hidden = own.number("hidden", "embed_dim", default=1280) or 1
    own.number("heads", "num_heads", default=16)
    own.take("ffn", ("mlp_ratio",), (own.whole("mlp_ratio", default=4) or 1) * hidden)
    _squares(own)
    own.number("frames", "temporal_patch_size", default=2)


def _qwen25_vl(own: Config, _: Config) -> None:
    """Qwen2.5-VL: gated, with windows in most layers (arXiv:2502.13923, section 2.1)."""
    own.number("layers", "depth", default=32)
    own.number("hidden", "hidden_size", default=1280)
    own.number("heads", "num_heads", default=16)
    own.number("ffn", "intermediate_size", default=3420)
    own.imply(gated_ffn=True)
    _squares(own)
    own.number("frames", "temporal_patch_size", default=2)
    own.left_out.append("windows of the vision tower, so that its attention costs too much")


def _qwen3_vl(own: Config, _: Config) -> None:
    """Qwen3-VL and Qwen3.5: learned positions, and a merger more for each layer that DeepStack taps."""
    own.number("layers", "depth", default=27)
    own.number("hidden", "hidden_size", default=1152)
    own.number("heads", "num_heads", default=16)
    own.number("ffn", "intermediate_size", default=4304)
    own.number("patch", "patch_size", default=16)
    side = own.whole("spatial_merge_size", default=2) or 1
    own.take("merge", ("spatial_merge_size",), side * side)
    own.number("frames", "temporal_patch_size", default=2)
    own.number("positions", "num_position_embeddings", default=2304)
    tapped = own.entries.get("deepstack_visual_indexes")
    if isinstance(tapped, list):
        own.take("projectors", ("deepstack_visual_indexes",), 1 + len(tapped))


def _gemma3(own: Config, outer: Config) -> None:
    """Gemma 3: SigLIP on squares of 896 pixels, averaged to `mm_tokens_per_image` (arXiv:2503.19786, section 2.1)."""
    own.number("layers", "num_hidden_layers", default=27)
    own.number("hidden", "hidden_size", default=1152)
    own.number("heads", "num_attention_heads", default=16)
    own.number("ffn", "intermediate_size", default=4304)
    patch = own.number("patch", "patch_size", default=14) or 1
    side = own.number("side", "image_size", default=896) or 1
    patches = max(side // patch, 1) ** 2
    wanted = outer.whole("mm_tokens_per_image", default=256) or 1
    own.problems += outer.problems
    own.take("positions", ("image_size",), patches)
    if isqrt(patches // wanted) ** 2 * wanted != patches:
        own.wrong("image_size", f"{patches} patches are not {wanted} tokens of equal squares")
    own.take("merge", ("image_size",), max(patches // wanted, 1))
    own.imply(pooled=True)
    own.fields["projector"] = []


def _mistral3(own: Config, outer: Config) -> None:
    """Mistral Small 3.1: Pixtral's encoder (arXiv:2410.07073, section 2.2), patches joined to the width of one, then
    two matrices of the language model's width."""
    own.number("layers", "num_hidden_layers", default=24)
    hidden = own.number("hidden", "hidden_size", default=1024) or 1
    own.number("heads", "num_attention_heads", default=16)
    own.number("ffn", "intermediate_size", default=4096)
    own.imply(gated_ffn=True)
    own.number("patch", "patch_size", default=16)
    side = outer.whole("spatial_merge_size", default=2) or 1
    text = outer.entries.get("text_config")
    width = Config(text if isinstance(text, dict) else {}, "text_config")
    own.take("merge", ("patch_size",), side * side)
    own.fields["projector"] = [hidden, width.whole("hidden_size", default=4096) or 1]
    largest = own.whole("image_size", default=1540) or 1
    own.take("most_pixels", ("image_size",), largest * largest)
    own.problems += [*outer.problems, *width.problems]


def _llama4(own: Config, _: Config) -> None:
    """Llama 4: tiles of `image_size`, an adapter of two matrices on four joined patches, and the projector."""
    own.number("layers", "num_hidden_layers", default=34)
    own.number("hidden", "hidden_size", default=768)
    own.number("heads", "num_attention_heads", default=16)
    own.number("ffn", "intermediate_size", default=5632)
    patch, side = own.number("patch", "patch_size", default=14) or 1, own.whole("image_size", default=448) or 1
    own.take("positions", ("image_size",), max(side // patch, 1) ** 2 + 1)
    ratio = own.entries.get("pixel_shuffle_ratio", 0.5)
    if ratio != 0.5:
        own.wrong("pixel_shuffle_ratio", f"{ratio} is not 0.5, with which two by two patches are joined")
    own.take("merge", ("pixel_shuffle_ratio",), 4)
    wide = own.whole("projector_input_dim", default=4096) or 1
    own.fields["projector"] = [wide, own.whole("vision_output_dim", "projector_output_dim", default=wide) or 1]
    own.left_out.append("tiles of images: patches of all tiles of an image see each other")


TOWERS: dict[str, Tower] = {
    "gemma3": _gemma3,
    "llama4": _llama4,
    "mistral3": _mistral3,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen25_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
}
"""Towers by the `model_type` of the whole file."""
