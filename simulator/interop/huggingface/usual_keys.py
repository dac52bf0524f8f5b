"""Sizes that most families of the transformers library name alike."""

from simulator.interop.huggingface.config import Config


def sizes(config: Config, kv_heads: bool = True) -> None:
    """Sizes by the names that most families use."""
    config.number("layers", "num_hidden_layers", "n_layer")
    config.number("hidden", "hidden_size", "n_embd", "n_embed")
    heads = config.number("heads", "num_attention_heads", "n_head")
    if kv_heads:
        config.number("kv_heads", "num_key_value_heads", default=heads or 1)
    config.number("vocabulary", "vocab_size")
    config.optional("max_sequence", "max_position_embeddings", "n_positions", "seq_length")


def llama(config: Config) -> None:
    """Llama and what is built like it: Mistral, Qwen2, Yi, Vicuna, CodeLlama, DeepSeek's dense models."""
    sizes(config)
    config.optional("head_dim", "head_dim")
    config.number("ffn", "intermediate_size")
    config.flag("tied_embeddings", "tie_word_embeddings", False)
    config.imply(gated_ffn=True, position="rotary", norm="rmsnorm")
    attention, mlp = config.switch("attention_bias", False), config.switch("mlp_bias", False)
    config.take("biases", ("attention_bias", "mlp_bias"), attention and mlp)
    if attention != mlp:
        config.left_out.append(f"biases of the {'attention' if attention else 'MLP'}")


def further_tokens(config: Config, key: str) -> None:
    """Modules that predict further tokens; 0 stands for none."""
    if config.entries.get(key) != 0:
        config.optional("mtp_layers", key)
