"""The shape of a decoder transformer."""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, Format, Spec
from simulator.specs.model.layers import LayerKind, Layers, blocks
from simulator.specs.model.linear import LinearSizes
from simulator.specs.model.mask import BlockMask
from simulator.specs.model.vision import Vision


class PublishedParameters(Spec):
    """Sizes of a model as its card or paper states them, to hold its shape against."""

    total_billions: float = Field(gt=0)
    """All parameters, 10^9."""
    with_mtp_billions: float | None = Field(default=None, gt=0)
    """With the modules of `mtp_layers`, and with or without the copies of embedding and head that checkpoints keep for
    them."""
    active_billions: float | None = Field(default=None, gt=0)
    """Those that a token meets, 10^9."""
    note: str = ""
    """What they count that the shape does not have, where the two differ by more than rounding."""
    source: str
    """Where they are stated."""


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
        "qk_head_dim": "qk_nope_head_dim",
        "qk_pos_emb_head_dim": "qk_rope_head_dim",
        "index_n_heads": "index_heads",
        "index_topk": "index_top_k",
        "dsa_indexer_n_heads": "index_heads",
        "dsa_indexer_head_dim": "index_head_dim",
        "dsa_indexer_topk": "index_top_k",
        "moe_latent_size": "expert_hidden",
        "num_nextn_predict_layers": "mtp_layers",
        "mtp_num_layers": "mtp_layers",
        "mtp_num_hidden_layers": "mtp_layers",
    }

    under: ClassVar[dict[str, str]] = {"pattern": "layers"}

    name: str
    """Name of the model."""
    layers: Annotated[int, Field(ge=1, le=10_000)]
    """Transformer layers; a list in place of the number stands for `pattern`, and its sum for the number."""
    pattern: tuple[Layers, ...] = ()
    """Kinds of layers in their order, repeated until they are all of `layers`; all alike where left out. Text stands
    for layers of one block each: M (the model's `attention`), E (experts), * (`grouped` attention), - (dense MLP)."""
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
    attention: str = "grouped"
    """Kind of attention: `grouped` (multi-head, grouped, multi-query), `mla` (multi-head latent attention, where
    `kv_lora_rank` is given), one with a state (`delta`, `kda`, `gla`, `lightning`, `mamba1`, `mamba2`, of the sizes of
    `linear`), or one that a plug-in adds."""
    linear: LinearSizes | None = None
    """Sizes of layers whose cost is linear in the sequence."""
    v_head_dim: Count | None = None
    """Size of a head's values; that of its keys where left out."""
    q_lora_rank: Count | None = None
    """Latent attention: width of the latent that queries come from; one matrix makes them where left out."""
    kv_lora_rank: Count | None = None
    """Latent attention: width of the latent that keys and values come from, and that is cached in their place."""
    qk_nope_head_dim: Count | None = None
    """Latent attention: elements of a head's queries and keys without positions."""
    qk_rope_head_dim: Count | None = None
    """Latent attention: elements with rotary positions; those of a key are shared by all heads, and cached."""
    index_heads: Count | None = None
    """Sparse attention: heads of the indexer that scores all tokens before a query."""
    index_head_dim: Count | None = None
    """Sparse attention: size of the indexer's heads; its one key of a token is cached in 8 bits with a scale."""
    index_top_k: Count | None = None
    """Sparse attention: tokens that a query attends to, those that the indexer scores highest."""
    index_layers: Count | None = None
    """Sparse attention: layers with an indexer of their own, spread evenly; others take the tokens of the one before.
    All where left out."""
    keys_as_values: bool = False
    """Whether values are the keys, so that there is no matrix for them and one of the two is cached."""
    attention_gate: bool = False
    """Whether a gate from the layer's input multiplies the result of attention."""
    attention_biases: bool | None = None
    """Whether query, key and value matrices have biases; as `biases` says where left out."""
    attention_sinks: bool = False
    """Whether each head has a learned score that takes part in the softmax and no value."""
    norm_across_heads: bool = Field(default=False, exclude_if=lambda across: not across)
    """Whether queries and keys are normed over all heads together, so that tensor-parallel devices sum the squares of
    each row (MiniMax-M2: `qk_norm_type: per_layer`)."""
    head_norms: bool = Field(default=False, exclude_if=lambda apart: not apart)
    """Whether queries and keys are normed head by head (Qwen3's `q_norm` and `k_norm`). Serving, and training by stacks
    that fuse it (`fused_head_norms`), do it in the kernels around it; its few scales are not counted."""
    options: dict[str, int | float | str] = Field(default_factory=dict)
    """Sizes that kinds of plug-ins need besides."""
    gated_ffn: bool = False
    """Whether the MLP multiplies by a gate (SwiGLU, GeGLU): three matrices instead of two."""
    experts: Count | None = None
    """Experts of each MLP; None for a dense model."""
    expert_groups: Count = 1
    """Groups that the experts are in, of which a token may use `expert_group_limit`."""
    expert_group_limit: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Groups of experts that a token may use at most; all where 0 (DeepSeek-V3 takes 4 of 8)."""
    top_k: Count | None = None
    """Experts that a token visits."""
    expert_ffn: Count | None = None
    """Inner width of an expert; `ffn` where left out."""
    shared_experts: Annotated[int, Field(ge=0, le=1000)] = 0
    """Experts that every token visits besides."""
    shared_ffn: Count | None = None
    """Inner width of the shared experts together; `shared_experts` times that of an expert where left out."""
    expert_biases: bool = False
    """Whether the products of experts have biases, which a row takes times its probability (gpt-oss). Where all experts
    of a layer lie on one device or rows are gathered they are left out."""
    clamped_gate: bool = False
    """Whether gate and rows of experts are cut off at a limit before they are multiplied (gpt-oss, `swiglu_limit`)."""
    expert_hidden: Count | None = None
    """Width at which rows visit experts and move between devices; two matrices lead there from `hidden` and back. The
    router and shared experts read `hidden`."""
    vocabulary: Count
    """Entries of the vocabulary, padding included where it is known."""
    position: Literal["learned", "rotary", "alibi", "none"] = "learned"
    """How positions enter."""
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    """Normalisation before attention and MLP."""
    parallel_mlp: bool = False
    """Whether attention and MLP of a layer read the same norm and their results are added (GPT-J, Falcon): served with
    one sum over tensor-parallel devices a layer; trained one after the other."""
    ladder_residual: bool = Field(default=False, exclude_if=lambda ladder: not ladder)
    """Whether each block reads the stream without the result of the block right before it, so that tensor-parallel
    sums run beside the block that follows (Ladder-residual, arXiv:2501.06589)."""
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
    attention of what is served, and the pairs of what is trained."""
    chunked_window: bool = False
    """Whether windows are blocks of that many tokens which no token sees out of, in place of a distance back (Llama 4).
    Training counts the pairs within the blocks; serving takes windows that slide, at most twice as long."""
    block_mask: BlockMask | None = None
    """Blocks of keys that attention is worked out for, in all layers; all where left out. It is trained, not served."""
    windowed_layers: Count | None = None
    """Layers with a sliding window, spread evenly; all where left out."""
    cache_group: Count = 1
    """Consecutive layers after `prompt_layers` that share one cache of keys and values (AcrossKV)."""
    encoder_layers: Count | None = None
    """Layers of an encoder of the same sizes, to whose output every layer of the decoder attends besides (T5,
    arXiv:1910.10683; Whisper, arXiv:2212.04356). Can be trained and served on one pipeline stage."""
    encoder_rows: Count | None = Field(default=None, exclude_if=lambda rows: rows is None)
    """Rows that the encoder reads of every request that is served, beside its prompt, which is the decoder's (Whisper
    fills sound up to 30 s: 1,500). Where left out the encoder reads the prompt."""
    decoder_start: Count = Field(default=1, exclude_if=lambda start: start == 1)
    """Tokens that the decoder begins with where the encoder reads the prompt."""
    sound_bins: Count | None = Field(default=None, exclude_if=lambda bins: bins is None)
    """Bins of the spectrum of a frame of sound, of which two convolutions over three frames make rows of the encoder,
    one of every two frames (Whisper). The encoder reads tokens where left out."""
    mtp_layers: Annotated[int, Field(ge=0, le=100)] = 0
    """Modules for multi-token prediction after the last layer (DeepSeek-V3, arXiv:2412.19437, section 2.2): each joins
    the rows with the embedding of the next token, has one layer, and predicts a token further by the model's own head.
    Serving drafts tokens with them where `serving.speculation` says so, and leaves them out otherwise."""
    mtp: Layers | None = None
    """The layer of these modules; as the last layers of the model where left out."""
    vision: Vision | None = Field(default=None, exclude_if=lambda vision: vision is None)
    """The encoder of images, of a model that reads them (`requests.images`); none where left out. It is served, with
    weights in 16 bits on the first stage, and not trained."""
    quantization: str = ""
    """How the published weights are quantised, in the words of their config.json. Nothing is made of it: a run warns
    where `serving.precision.weights` is left out."""
    quantized: Format | None = None
    """The format of `serving.precision.weights` that comes closest to that."""
    published_parameters: PublishedParameters | None = None
    """What its authors say of its size."""
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

    def __copy__(self) -> Self:
        """A copy that works out its kinds of layers anew: `model_copy` may change what they follow from."""
        copied = super().__copy__()
        for name in ("kinds", "predicting"):
            copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The kind of each layer."""
        usual = "moe" if self.experts else "dense"
        if not self.pattern:
            seen = self.layers if self.windowed_layers is None else self.windowed_layers
            kinds = [LayerKind(self.attention, usual, window) for window in (None, self.window)]
            kinds = [kind._replace(crosses=self.encoder_layers is not None) for kind in kinds]
            spread = ((i + 1) * seen // self.layers > i * seen // self.layers for i in range(self.layers))
            return self._indexed([kinds[windowed] for windowed in spread])
        one = [
            LayerKind(group.attention or self.attention, group.mlp or usual, group.window, group.sizes)
            for group in self.pattern
            for _ in range(group.repeat)
        ]
        return self._indexed(one * (self.layers // len(one)))

    @property
    def encoding(self) -> tuple[LayerKind, ...]:
        """The kind of each layer of the encoder."""
        return (self.kinds[0]._replace(encodes=True, crosses=False),) * (self.encoder_layers or 0)

    @cached_property
    def predicting(self) -> tuple[LayerKind, ...]:
        """The kind of each module for multi-token prediction: attention and MLP of the last layers that have one."""
        if not self.mtp_layers:
            return ()
        attention = next((kind for kind in reversed(self.kinds) if kind.attention != "none"), self.kinds[-1])
        mlp = next((kind.mlp for kind in reversed(self.kinds) if kind.mlp != "none"), "none")
        found = attention._replace(mlp=mlp, predicts=True)
        if self.mtp is not None:
            own = self.mtp
            found = LayerKind(own.attention or attention.attention, own.mlp or mlp, own.window, own.sizes, True)
        return (found,) * self.mtp_layers

    def _indexed(self, kinds: Sequence[LayerKind]) -> tuple[LayerKind, ...]:
        """Kinds of which only `index_layers`, spread evenly from the first on, have an indexer of their own."""
        if self.index_layers is None:
            return tuple(kinds)
        own = {i * self.layers // self.index_layers for i in range(self.index_layers)}
        return tuple(
            kind if i in own else kind._replace(sizes=(*kind.sizes, ("index_heads", None)))
            for i, kind in enumerate(kinds)
        )

    def of(self, kind: LayerKind) -> Self:
        """The model as a layer of a kind has it."""
        return self.model_copy(update=dict(kind.sizes)) if kind.sizes else self

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, data: object) -> object:
        """A list of layers is their pattern, and layers of it with a window are counted."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        if isinstance(data.get("pattern"), str):
            data["pattern"] = blocks(data["pattern"])
        if isinstance(data.get("layers"), list | tuple):
            data["pattern"] = data["layers"]
            data["layers"] = sum(_whole(group, "repeat", 1) for group in data["pattern"])
        groups = [group for group in data.get("pattern") or () if isinstance(group, dict)]
        windows = {group["window"] for group in groups if isinstance(group.get("window"), int)}
        if len(windows) == 1 and isinstance(data.get("layers"), int) and "window" not in data:
            count = sum(_whole(group, "repeat", 1) for group in groups)
            seen = sum(_whole(group, "repeat", 1) for group in groups if group.get("window"))
            data |= {"window": windows.pop(), "windowed_layers": seen * data["layers"] // max(count, 1)}
        return data

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, data: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("hidden"), int) and isinstance(data.get("heads"), int):
            data = dict(data)
            data.setdefault("kv_heads", data["heads"])
            if "kv_lora_rank" in data:
                data.setdefault("attention", "mla")
                data.setdefault("head_dim", _whole(data, "qk_nope_head_dim", 0) + _whole(data, "qk_rope_head_dim", 0))
            if data["heads"] > 0 and data["hidden"] % data["heads"] == 0:
                data.setdefault("head_dim", data["hidden"] // data["heads"])
            data.setdefault("ffn", 4 * data["hidden"])
        return data

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        """A pattern fills the layers, and what its kinds need is there."""
        count = sum(group.repeat for group in self.pattern)
        if count and self.layers % count:
            found = " + ".join(str(group.repeat) for group in self.pattern)
            raise ValueError(
                f"the pattern has {found} = {count} layers, which do not add up to {self.layers}: "
                f"write `repeat` so that they sum to {self.layers} or a divisor of it"
            )
        if self.pattern and self.prompt_layers is not None:
            raise ValueError("`pattern` and `prompt_layers` are not described together")
        kinds = {kind.mlp for kind in self.kinds}
        if "moe" in kinds and self.experts is None:
            raise ValueError(
                "the pattern has layers with `mlp: moe` and the model no experts: write `experts`, `top_k`"
            )
        state = next((kind.attention for kind in self.kinds if kind.stateful), None)
        if state and self.linear is None:
            raise ValueError(f"layers of `attention: {state}` need their sizes: write `linear`")
        if state and self.prompt_layers is not None:
            raise ValueError("`prompt_layers` and layers with a state are not described together")
        if any(kind.attention == kind.mlp == "none" for kind in self.kinds):
            raise ValueError("a layer of the pattern has neither attention nor MLP: leave one of the two `none` out")
        if self.experts is not None and "moe" not in kinds:
            raise ValueError("the model has experts and no layer of its pattern has them: write `mlp: moe` for some")
        windows = {group.window for group in self.pattern if group.window is not None}
        if len(windows) > 1:
            raise ValueError(f"windows of {sorted(windows)} tokens in one model are not simulated yet: write one size")
        if (
            self.pattern
            and self.window is not None
            and sum(kind.window is not None for kind in self.kinds) != (self.windowed_layers or self.layers)
        ):
            raise ValueError("`window` of the pattern and of the model differ: write it in one of them")
        return self

    @model_validator(mode="after")
    def _predicts(self) -> Self:
        """What modules for multi-token prediction need is there."""
        if self.mtp is not None and (not self.mtp_layers or self.mtp.repeat > 1):
            raise ValueError("`mtp` is the one layer of each module of `mtp_layers`: write how many, and no `repeat`")
        for kind in dict.fromkeys(self.predicting):
            needed = {
                "experts": kind.mlp == "moe",
                "linear": kind.stateful,
                "kv_lora_rank": kind.attention == "mla",
            }
            if any(needs and getattr(self, size) is None for size, needs in needed.items()):
                raise ValueError(f"`mtp` has {kind.attention} and {kind.mlp}, whose sizes the model does not have")
        return self

    @model_validator(mode="after")
    def _latent(self) -> Self:
        """Latent attention has all of its sizes, and sparse attention too."""
        latent = {
            name: getattr(self, name) for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        }
        if "mla" in {kind.attention for kind in self.kinds}:
            missing = [f"`{name}`" for name, value in latent.items() if value is None]
            if missing:
                raise ValueError(f"latent attention needs {', '.join(missing)}")
            if self.kv_heads != self.heads:
                raise ValueError(
                    f"heads of latent attention have keys of their own: leave kv_heads {self.kv_heads} out"
                )
            if self.prompt_layers is not None or self.window is not None:
                raise ValueError("latent attention with `prompt_layers` or `window` is not described")
        elif latent["kv_lora_rank"] is not None or self.q_lora_rank is not None:
            raise ValueError("`kv_lora_rank` and `q_lora_rank` are about `attention: mla`")
        groups, limit = self.expert_groups, self.expert_group_limit
        if groups > 1 and (self.experts or 0) % groups:
            raise ValueError(f"expert_groups {groups} does not divide the {self.experts or 0} experts")
        if limit > groups:
            raise ValueError(f"expert_group_limit {limit} is more than the expert_groups, {groups}")
        index = self.index_heads, self.index_head_dim, self.index_top_k
        if any(index) and not all(index):
            raise ValueError("`index_heads`, `index_head_dim` and `index_top_k` go together")
        if any(index) and self.kv_lora_rank is None:
            raise ValueError("an indexer is described with latent attention only: write `kv_lora_rank`")
        if self.index_layers is not None and (not any(index) or self.index_layers > self.layers):
            raise ValueError(f"index_layers {self.index_layers} needs `index_heads`, and at most the layers")
        if (self.shared_ffn or self.expert_hidden) and self.experts is None:
            raise ValueError("`shared_ffn` and `expert_hidden` are about experts: write `experts` and `top_k`")
        return self

    @model_validator(mode="after")
    def _looks_back(self) -> Self:
        """A block mask and an encoder are about plain attention, and no window is longer than the context."""
        other = self.pattern or self.window or self.block_mask or self.mtp_layers or self.attention != "grouped"
        if self.encoder_layers is not None and (other or self.prompt_layers is not None):
            raise ValueError(
                "`encoder_layers` is described for models of `grouped` attention in all layers, without `pattern`, "
                "`window`, `block_mask` and `mtp_layers`"
            )
        for key in ("encoder_rows", "sound_bins", "decoder_start"):
            if self.encoder_layers is None and getattr(self, key) != Model.model_fields[key].default:
                raise ValueError(
                    f"`{key}` is about an encoder before the decoder: write `encoder_layers`, or leave it out"
                )
        if self.encoder_rows is not None and self.decoder_start != 1:
            raise ValueError("with `encoder_rows` prompts are the decoder's, so that `decoder_start` has no effect")
        longest = max((kind.window or 0 for kind in self.kinds), default=0)
        if self.max_sequence is not None and longest > self.max_sequence:
            raise ValueError(
                f"a window of {longest:,} tokens is longer than the context, `max_sequence` {self.max_sequence:,}"
            )
        if self.block_mask is not None and (
            self.window is not None or {k.attention for k in self.kinds} != {"grouped"}
        ):
            raise ValueError("`block_mask` is described for models of `grouped` attention without `window`")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.head_dim:
            raise ValueError(f"hidden {self.hidden} is no multiple of heads {self.heads}: write `head_dim`")
        for heads, kv_heads in {(seen.heads, seen.kv_heads) for seen in map(self.of, dict.fromkeys(self.kinds))}:
            if heads % kv_heads:
                raise ValueError(f"heads {heads} is no multiple of kv_heads {kv_heads}")
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


def _whole(group: object, key: str, default: int) -> int:
    """A whole number of a mapping, before anything of it is checked."""
    found = group.get(key, default) if isinstance(group, dict) else default
    return found if isinstance(found, int) else default
