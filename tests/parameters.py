"""Parameters of a model, counted from its shape."""

from simulator.specs.model import Model


def parameters(model: Model) -> float:
    """Weights, biases, norms and embeddings of a model; all experts of a mixture."""
    norm = (2 if model.norm == "layernorm" else 1) * model.hidden
    embeddings = model.vocabulary * model.hidden * (1 if model.tied_embeddings else 2)
    positions = (model.max_sequence or 0) * model.hidden if model.position == "learned" else 0
    return model.layers * (_attention(model) + _mlp(model) + 2 * norm) + norm + embeddings + positions


def _attention(model: Model) -> float:
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    biases = queries + 2 * keys + model.hidden
    return model.hidden * (2 * queries + 2 * keys) + biases * model.biases


def _mlp(model: Model) -> float:
    if model.experts is None:
        return _block(model, model.ffn)
    width = model.expert_ffn or model.ffn
    shared = _block(model, width * model.shared_experts) if model.shared_experts else 0
    return model.experts * _block(model, width) + shared + model.hidden * model.experts


def _block(model: Model, width: int) -> float:
    """One MLP of that inner width."""
    biases = model.hidden + (2 if model.gated_ffn else 1) * width
    return (3 if model.gated_ffn else 2) * model.hidden * width + biases * model.biases
