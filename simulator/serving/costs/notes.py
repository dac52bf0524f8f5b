"""What a run says of number formats, and of kernels that were not measured in them."""

from simulator.cost import Device
from simulator.serving.costs.formats import Formats
from simulator.serving.costs.states import estimated_scans
from simulator.specs.model import Model
from simulator.specs.serving import NumberFormats, ServingStack


def said_of_formats(
    model: Model, formats: NumberFormats, device: Device, stack: ServingStack, resolved: Formats
) -> tuple[str, ...]:
    """What to say of formats and of kernels that were not measured in them."""
    own = _sixteen(model, formats) + _without_experts(model, formats)
    return own + _other_experts(model, device, stack, resolved) + estimated_scans(model, device, stack)


def _sixteen(model: Model, formats: NumberFormats) -> tuple[str, ...]:
    """What to say where the weights of a quantised model are taken to have 16 bits, for want of a word."""
    said = model.quantization_note if formats.weights is None and formats.weight_bits is None else ""
    return (said,) if said else ()


def _without_experts(model: Model, formats: NumberFormats) -> tuple[str, ...]:
    """Formats of experts that a dense model does not have."""
    given = [name for name in ("experts", "expert_activations") if getattr(formats, name) is not None]
    if model.experts is not None or not given:
        return ()
    return (f"no effect: serving.precision.{given[0]}: {model.name} has no experts",)


def _other_experts(model: Model, device: Device, stack: ServingStack, formats: Formats) -> tuple[str, ...]:
    """What to say where a mixture of experts runs other kernels than the stack's."""
    own = formats.of_experts
    known = device.mixture(stack.expert_kernels, own.mixture) is not None
    kind = own.mixture if known else own.compute
    said = device.extrapolated_mixture(stack.expert_kernels, kind) if model.experts else ""
    return (said,) if said else ()
