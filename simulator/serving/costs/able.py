"""What a model must have to be served, and to be cut as a layout cuts it."""

from math import gcd

from simulator.errors import InputError, Problem
from simulator.model.cut import Cut
from simulator.model.layers import attention_of
from simulator.model.tensors import core
from simulator.specs.hardware import Cluster, DeviceKind
from simulator.specs.model import Model
from simulator.specs.serving import ExpertTraffic, Layout, ServingStack


def with_kernels_of(stack: ServingStack, kind: DeviceKind) -> ServingStack:
    """The stack as it runs on a kind of device: kernels in Triton for latents are those of GPUs alone."""
    return stack if kind == "gpu" or stack.latent_walks is None else stack.model_copy(update={"latent_walks": None})


def check_layout(model: Model, layout: Layout, cluster: Cluster, tp: int, stages: int, traffic: ExpertTraffic) -> None:
    """InputError where a model cannot be served, or not in this layout on this cluster."""
    if model.encoder_layers is not None and stages > 1:
        message = f"an encoder and its decoder are on one stage, and a replica of {model.name} has {stages}"
        raise InputError(Problem(message, path="serving.parallel.pp", hint="write `pp: 1`; `tp` cuts both"))
    if model.block_mask is not None:
        message = "attention to some blocks of keys only can be trained, and is not served yet"
        raise InputError(Problem(message, path="model.block_mask", hint="leave it out"))
    if len({kind.attention for kind in model.kinds if kind.attends}) > 1:
        message = f"layers of {model.name} have different kinds of attention, which is not simulated yet"
        raise InputError(Problem(message, path="model.pattern", hint="write one kind as the model's `attention`"))
    if layout.ranks * layout.devices > cluster.devices:
        among = "" if layout.dp is None else f" x dp {layout.dp}"
        taken = f"tp {layout.tp}{among} x pp {layout.pp} = {layout.ranks * layout.devices} devices"
        message = f"a replica takes {taken}, the cluster has {cluster.devices}"
        raise InputError(Problem(message, path="serving.parallel", hint="raise `cluster.nodes` or cut the layout"))
    if layout.ep > 1 or layout.sharers > 1:
        _check_experts(model, layout, cluster, traffic)
    if stages > model.layers:
        message = f"{stages} stages for {model.layers} layers: some would have none"
        raise InputError(Problem(message, path="serving.parallel.pp", hint=f"at most {model.layers}"))
    cut = _cut_heads(model)
    if cut % tp:
        message = f"tp {tp} does not divide the {cut} heads of {model.name}"
        divisors = ", ".join(str(d) for d in range(1, min(cut, 64) + 1) if cut % d == 0)
        raise InputError(Problem(message, path="serving.parallel.tp", hint=f"write one of {divisors}"))


def context_cut(model: Model, layout: Layout, tp: int) -> int:
    """Devices that hold parts of the same cached tokens; InputError where they would not hold copies of them."""
    if layout.dcp == 1:
        return 1
    path = "serving.parallel.dcp"
    found = [core(attention_of(model, Cut(), kind)) for kind in dict.fromkeys(model.kinds) if kind.attends]
    known = found[0] if len({one.shape for one in found if one is not None}) == 1 else None
    if known is None or known.chosen is not None or model.prompt_layers is not None:
        like = "attention of all cached tokens in each layer, by as many heads"
        message = f"{model.name} has no {like}, whose tokens devices could share"
        raise InputError(Problem(message, path=path, hint="leave `dcp` out"))
    heads = 1 if known.latent else known.kv_heads
    copies = max(tp // heads, 1)
    if copies % layout.dcp:
        of = "latent" if known.latent else f"of {heads} key heads"
        message = (
            f"dcp {layout.dcp} does not divide the {copies} copies that tp {tp} makes of each {of} of {model.name}"
        )
        divisors = ", ".join(str(d) for d in range(1, copies + 1) if copies % d == 0)
        raise InputError(Problem(message, path=path, hint=f"write one of {divisors}"))
    return layout.dcp


def _cut_heads(model: Model) -> int:
    """Heads of which tensor parallelism takes a divisor: those of attention and of states, where layers have them."""
    attention = gcd(*(model.of(kind).heads for kind in dict.fromkeys(model.kinds) if kind.attends))
    stateful = model.linear is not None and any(kind.stateful for kind in model.kinds)
    return gcd(attention, model.linear.value_heads if model.linear is not None and stateful else 0)


def _check_experts(model: Model, layout: Layout, cluster: Cluster, traffic: ExpertTraffic) -> None:
    """What replicas that share experts need."""
    path = "serving.parallel.ep"
    if model.experts is None:
        message = f"{layout.ep}: {model.name} is a dense model, without experts to spread over devices"
        raise InputError(Problem(message, path=path, hint="leave `ep` out; `tp` and `pp` cut a dense model"))
    if model.experts % layout.ep and traffic.routing.placement != "packed":
        message = f"{layout.ep} does not divide the {model.experts} experts of {model.name}"
        divisors = ", ".join(str(size) for size in range(2, model.experts + 1) if model.experts % size == 0)
        hint = f"write one of {divisors}, or `experts: {{routing: {{placement: packed}}}}`: copies fill devices up"
        raise InputError(Problem(message, path=path, hint=hint))
    if layout.devices * layout.sharers > cluster.devices:
        message = f"{layout.sharers} replicas that share experts take {layout.devices * layout.sharers} devices"
        raise InputError(Problem(message, path=path, hint=f"the cluster has {cluster.devices}"))
