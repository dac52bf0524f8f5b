"""The shape of a decoder transformer."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, Format, Spec


class Model(Spec):
    """A decoder transformer of the GPT or Llama family, dense or with a mixture of experts as MLP."""

    folder: ClassVar[str] = "workloads/models"
    aliases: ClassVar[dict[str, str]] = {
        "num_layers": "layers",
        "hidden_size": "hidden",
        "num_attention_heads": "heads",
        "num_query_groups": "kv_heads",
        "ffn_hidden_size": "ffn",
        "padded_vocab_size": "vocabulary",
        "vocab_size": "vocabulary",
        "kv_channels": "head_dim",
        "n_layers": "layers",
        "dim": "hidden",
        "n_heads": "heads",
        "n_kv_heads": "kv_heads",
    }

    name: str
    """Name of the model."""
    layers: Annotated[int, Field(ge=1, le=10_000)]
    """Transformer layers."""
    hidden: Count
    """Width of the residual stream."""
    heads: Count
    """Query heads."""
    kv_heads: Count = Field(default=0, validate_default=False)
    """Key and value heads: equal to `heads` (multi-head), fewer (grouped), one (multi-query)."""
    head_dim: Count = Field(default=0, validate_default=False)
    """Size of a head; hidden / heads where left out."""
    ffn: Count = Field(default=0, validate_default=False)
    """Inner width of the MLP; 4 hidden where left out."""
    gated_ffn: bool = False
    """Whether the MLP multiplies by a gate (SwiGLU, GeGLU): three matrices instead of two."""
    experts: Count | None = None
    """Experts of each MLP; None for a dense model. Mixtures of experts can be served, not trained yet."""
    top_k: Count | None = None
    """Experts that a token visits."""
    expert_ffn: Count | None = None
    """Inner width of an expert; `ffn` where left out."""
    shared_experts: Annotated[int, Field(ge=0, le=1000)] = 0
    """Experts of that width that every token visits besides."""
    vocabulary: Count
    """Entries of the vocabulary, padding included where it is known."""
    position: Literal["learned", "rotary", "alibi", "none"] = "learned"
    """How positions enter."""
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    """Normalisation before attention and MLP."""
    parallel_mlp: bool = False
    """Whether attention and MLP of a layer read the same norm and their results are added (GPT-J, Falcon): served with
    one sum over tensor-parallel devices a layer; trained one after the other."""
    biases: bool = True
    """Whether linear layers have biases."""
    tied_embeddings: bool = True
    """Whether input embedding and output head share one matrix."""
    max_sequence: Count | None = None
    """Longest sequence; sizes the table of learned positions."""
    prompt_layers: Count | None = None
    """Layers that the tokens of a prompt pass, the last one apart; later layers take their keys and values from the
    output of this one (SwiftKV). All of them where left out. Can be served, not trained."""
    window: Count | None = None
    """Tokens that layers with a sliding window look back to; the whole context where left out. Bounds cache and
    attention of what is served; training takes whole sequences."""
    windowed_layers: Count | None = None
    """Layers with a sliding window, spread evenly; all where left out."""
    cache_group: Count = 1
    """Consecutive layers after `prompt_layers` that share one cache of keys and values (AcrossKV)."""
    quantization: str = ""
    """How the published weights are quantised, in the words of their config.json. Nothing is made of it: a run warns
    where `serving.precision.weights` is left out."""
    quantized: Format | None = None
    """The format of `serving.precision.weights` that comes closest to that."""
    source: str = ""
    """Where the shape was published."""

    @property
    def quantization_note(self) -> str:
        """What a run in 16 bits has to say of quantised weights; empty where there are none."""
        if not self.quantization:
            return ""
        key = f"weights: {self.quantized}" if self.quantized else "weight_bits: BITS"
        said = f"the model's weights are published quantised ({self.quantization}), and this run takes 16 bits each"
        return f"{said}: write `serving: {{precision: {{{key}}}}}`"

    @property
    def windowed_share(self) -> float:
        """Share of the layers that have a sliding window."""
        return 0.0 if self.window is None else (self.windowed_layers or self.layers) / self.layers

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, data: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("hidden"), int) and isinstance(data.get("heads"), int):
            data = dict(data)
            data.setdefault("kv_heads", data["heads"])
            if data["heads"] > 0 and data["hidden"] % data["heads"] == 0:
                data.setdefault("head_dim", data["hidden"] // data["heads"])
            data.setdefault("ffn", 4 * data["hidden"])
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.head_dim:
            raise ValueError(f"hidden {self.hidden} is no multiple of heads {self.heads}: write `head_dim`")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is no multiple of kv_heads {self.kv_heads}")
        if self.prompt_layers is not None and self.prompt_layers > self.layers:
            raise ValueError(f"prompt_layers {self.prompt_layers} is more than the {self.layers} layers")
        if self.windowed_layers is not None and (self.window is None or self.windowed_layers > self.layers):
            raise ValueError(f"windowed_layers {self.windowed_layers} needs a `window`, and at most the layers")
        if self.window is not None and self.prompt_layers is not None:
            raise ValueError("`window` and `prompt_layers` are not described together")
        if self.prompt_layers is None and self.cache_group > 1:
            raise ValueError("`cache_group` is about the layers after `prompt_layers`: write both")
        if (self.experts is None) != (self.top_k is None):
            raise ValueError("`experts` and `top_k` go together")
        if self.experts is not None and self.top_k is not None and self.top_k > self.experts:
            raise ValueError(f"top_k {self.top_k} is more than the {self.experts} experts")
        return self
