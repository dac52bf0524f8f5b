"""How the layers of a model are spread over pipeline chunks."""

from collections.abc import Sequence

from simulator.errors import InputError, Problem


def split_layers(layers: int, pp: int, vpp: int, stages: Sequence[int] | None) -> tuple[int, ...]:
    """Layers of each model chunk in the order of the layers; shape (pp x vpp,).

    Raises InputError if the layers do not divide and no `stages` are given, or the given ones do not fit.
    """
    chunks = pp * vpp
    if stages is None:
        if layers % chunks:
            message = f"{layers} layers do not divide into pp {pp} x vpp {vpp} = {chunks} chunks"
            raise InputError(
                Problem(message, path="training.stages", hint=f"write {chunks} numbers that sum to {layers}")
            )
        return (layers // chunks,) * chunks
    hint = f"write {chunks} numbers (pp {pp} x vpp {vpp}) that sum to the model's {layers} layers"
    if min(stages, default=0) < 0:
        message = f"{min(stages)} layers: a stage has 0 layers or more"
        raise InputError(Problem(message, path="training.stages", hint=hint))
    if len(stages) != chunks or sum(stages) != layers:
        message = f"{len(stages)} numbers that sum to {sum(stages)} layers"
        raise InputError(Problem(message, path="training.stages", hint=hint))
    return tuple(stages)
