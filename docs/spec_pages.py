"""Reference of what a person writes: one section a spec, drawn from its fields and the text under each."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args, get_origin

from markdown_tables import code, table
from pydantic.fields import FieldInfo

from simulator import units
from simulator.report.catalogue.quantities import dimension_of
from simulator.specs.adapters import Adapters, Finetuning
from simulator.specs.base import Figure, Spec
from simulator.specs.files.documentation import describe
from simulator.specs.fleet import (
    Admission,
    Autoscaling,
    Failures,
    Fleet,
    LinkFailures,
    RollingUpdate,
    ScheduledCount,
    StartUp,
    Station,
)
from simulator.specs.grid import Grid
from simulator.specs.hardware import (
    Accelerator,
    Cluster,
    Level,
    Link,
    Memory,
    Network,
    Nics,
    Node,
    Partition,
    Power,
    ScaleUp,
)
from simulator.specs.jobs import Flapping, JobsScenario, Perturbation, Place, ServingJob, TrainingJob
from simulator.specs.kernels import (
    AttentionKernels,
    DecodeKernels,
    ExpertKernels,
    GemmKernels,
    KernelProfile,
    LatentKernels,
    ScanKernels,
    StreamKernels,
    Tile,
    WeightOnlyKernels,
)
from simulator.specs.kinds import OneOf
from simulator.specs.libraries.blocks import BlockProducts
from simulator.specs.libraries.collectives import (
    AlgorithmRule,
    CollectiveProfile,
    CustomAllReduce,
    Environment,
    Fill,
    Occupancy,
    Piece,
    Protocol,
    Scope,
    Scopes,
    Wire,
)
from simulator.specs.libraries.grouped import GroupedDecode
from simulator.specs.libraries.products import LibraryProducts
from simulator.specs.libraries.tuner import Tuner, TunerLinks, TunerOption
from simulator.specs.libraries.walks import LatentWalks
from simulator.specs.long_runs.failures import Cause, FailureRates, Observed
from simulator.specs.long_runs.run import Checkpoints, Evaluation, LongRun, Recovery, Samples
from simulator.specs.long_runs.storage import Storage
from simulator.specs.model import BlockMask, Layers, LinearSizes, Model, PublishedParameters
from simulator.specs.model.vision import Vision
from simulator.specs.model_routing import Difficulty, ModelRouting, Pipeline
from simulator.specs.network import Slices, SwitchReduction
from simulator.specs.noise import Noise, SlowLinks, Stragglers
from simulator.specs.requests import (
    Arrivals,
    ClosedLoop,
    Distribution,
    Gamma,
    Images,
    Lengths,
    RateLimit,
    RateStep,
    Requests,
    RetrievedChunks,
    Sessions,
    SharedPrefix,
    Slo,
    Tenant,
    Tools,
)
from simulator.specs.scenario import NodeOrder, Published, Scenario, ServingScenario
from simulator.specs.serving import (
    Batching,
    ExpertTraffic,
    KvCache,
    Layout,
    LocalPrompts,
    NumberFormats,
    Overlap,
    Pool,
    Serving,
    ServingStack,
    Switching,
)
from simulator.specs.speculation import DraftRange, Speculation
from simulator.specs.tiers.cache_tiers import CacheTier, ChunkReuse, TierLoads
from simulator.specs.tiers.expert_loads import BitLevel, ExpertLoads
from simulator.specs.tiers.host import HostCpu, Nvme
from simulator.specs.tiers.local_steps import LocalSteps
from simulator.specs.tiers.offload import ActivationOffload, Offload, OptimizerOffload, ParameterOffload
from simulator.specs.tiers.remote_attention import RemoteAttention
from simulator.specs.tiers.sharding import Sharding, ShardLevels
from simulator.specs.tiers.streamed_weights import StreamedWeights
from simulator.specs.tiers.zeroth_order import ZerothOrder
from simulator.specs.training import (
    Algorithms,
    Documents,
    Lora,
    Optimizer,
    Parallel,
    RouterLoad,
    Stack,
    Training,
    UserBuffers,
)
from simulator.specs.workflow import (
    Dependency,
    DevicePool,
    HandOver,
    HandOverStage,
    ServingStage,
    TimedStage,
    TrainingStage,
    Workflow,
)

BOUNDS = {"ge": "at least {:g}", "gt": "more than {:g}", "le": "at most {:g}", "lt": "less than {:g}"}
SCALARS = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`"}
KERNELS = (
    KernelProfile,
    GemmKernels,
    Tile,
    WeightOnlyKernels,
    AttentionKernels,
    DecodeKernels,
    ExpertKernels,
    LatentKernels,
    ScanKernels,
    StreamKernels,
)


def scenario_specs() -> str:
    """The keys of a scenario file."""
    of_memory = (
        Offload,
        ActivationOffload,
        OptimizerOffload,
        ParameterOffload,
        Sharding,
        ShardLevels,
        LocalSteps,
        ZerothOrder,
    )
    of_training = Training, Parallel, Algorithms, RouterLoad, Documents, Lora, Optimizer, *of_memory
    of_runs = LongRun, Samples, Evaluation, Checkpoints, Recovery, FailureRates, Cause, Observed
    return _sections(Scenario, NodeOrder, *of_training, Noise, Stragglers, SlowLinks, *of_runs, Published)


def request_specs() -> str:
    """The keys of what is asked of a serving system."""
    return _sections(
        Requests,
        Arrivals,
        Gamma,
        RateStep,
        ClosedLoop,
        Lengths,
        Distribution,
        Sessions,
        Tools,
        SharedPrefix,
        RetrievedChunks,
        Images,
        Slo,
        Tenant,
        RateLimit,
    )


def serving_specs() -> str:
    """The keys of a serving system."""
    of_pools = Pool, LocalPrompts, Switching
    of_replicas = (
        Layout,
        Batching,
        KvCache,
        CacheTier,
        TierLoads,
        ChunkReuse,
        NumberFormats,
        Overlap,
        ExpertTraffic,
        Adapters,
        Finetuning,
        ModelRouting,
        Difficulty,
        Pipeline,
        StreamedWeights,
        ExpertLoads,
        BitLevel,
        RemoteAttention,
        Speculation,
        DraftRange,
    )
    of_fleets = Fleet, StartUp, Autoscaling, ScheduledCount, Failures, LinkFailures, RollingUpdate, Admission, Station
    return _sections(ServingScenario, Serving, *of_replicas, *of_pools, *of_fleets)


def job_specs() -> str:
    """The keys of several jobs on one cluster."""
    return _sections(JobsScenario, TrainingJob, ServingJob, Place, Perturbation, Flapping)


def workflow_specs() -> str:
    """The keys of a workflow."""
    stages = TrainingStage, ServingStage, HandOverStage, HandOver, TimedStage
    return _sections(Workflow, DevicePool, Dependency, *stages)


def model_specs() -> str:
    """The keys of a model."""
    return _sections(Model, Layers, LinearSizes, BlockMask, Vision, PublishedParameters)


def hardware_specs() -> str:
    """The keys of accelerators, nodes, clusters and power grids."""
    of_clusters = Cluster, Partition, Network, Slices, Level, SwitchReduction, Storage, Grid
    return _sections(Accelerator, Memory, Power, Node, HostCpu, Nvme, ScaleUp, Link, Nics, *of_clusters)


def software_specs() -> str:
    """The keys of stacks, kernel profiles and collective profiles."""
    return _sections(
        Stack,
        UserBuffers,
        ServingStack,
        GroupedDecode,
        LibraryProducts,
        BlockProducts,
        LatentWalks,
        *KERNELS,
        CollectiveProfile,
        AlgorithmRule,
        Environment,
        Occupancy,
        Protocol,
        Scopes,
        Scope,
        Fill,
        Piece,
        Tuner,
        TunerLinks,
        TunerOption,
        CustomAllReduce,
        Wire,
    )


def quantities() -> str:
    """The units that are understood, by dimension."""
    rows = [
        (name.replace("_", " "), ", ".join(f"`{unit}`" for unit, _, _ in units._DIMENSIONS[name].parts if unit))
        for name in units.DIMENSIONS
    ]
    return table(("quantity", "units, with the usual prefixes"), rows)


def _sections(*kinds: type[Spec]) -> str:
    return "\n".join(_section(kind) for kind in kinds)


def _section(kind: type[Spec]) -> str:
    """One spec: its purpose, its keys, its foreign names."""
    texts = describe(kind)
    rows = [
        (f"`{name}`", _type(field.annotation, field.metadata), _default(field), texts.get(name, ""))
        for name, field in kind.model_fields.items()
        if name not in kind.unwritten
    ]
    parts = [f"({_anchor(kind)})=\n## {kind.__name__}\n", " ".join((kind.__doc__ or "").split()) + "\n", _where(kind)]
    parts.append(table(("key", "value", "default", "meaning"), rows))
    if kind.aliases:
        foreign = ", ".join(f"`{alias}` (`{name}`)" for alias, name in sorted(kind.aliases.items()))
        parts.append(f"Other names that are accepted: {foreign}.\n")
    return "\n".join(part for part in parts if part)


def _anchor(kind: type[Spec]) -> str:
    return f"spec-{kind.__name__.lower()}"


def _where(kind: type[Spec]) -> str:
    if kind.folder is None:
        return ""
    return f"Files lie in `{kind.folder}/`. A key of this type takes the name or path of one, or these keys.\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.validate_default is False:  # filled in from other keys
        return "derived"
    return "" if field.default in (None, (), "") or isinstance(field.default, Spec) else code(field.default)


def _type(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """What may be written, in words."""
    metadata = tuple(metadata)
    dimension = dimension_of(metadata)
    if dimension is not None:
        return _quantity(dimension)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _type(arguments[0], annotation.__metadata__)
    named = [item for item in metadata if isinstance(item, OneOf)]
    if named:
        return ", ".join(f"`{choice}`" for choice in named[0].keys.names())
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is dict:
        return f"mapping of {_type(arguments[0])} to {_type(arguments[1])}"
    if origin in (tuple, list):
        return f"list of {', '.join(dict.fromkeys(_type(a) for a in arguments if a is not Ellipsis))}"
    if arguments and not isinstance(annotation, type):
        return " or ".join(dict.fromkeys(_type(a, metadata) for a in arguments if a is not type(None)))
    return _plain(annotation, metadata)


def _plain(annotation: Any, metadata: tuple[Any, ...]) -> str:
    """A figure, another spec, or a scalar with its bounds."""
    if isinstance(annotation, type) and issubclass(annotation, Figure):
        value = annotation.model_fields["value"]
        return f"[figure](figures): {_type(value.annotation, value.metadata)}"
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return f"[{annotation.__name__}](#{_anchor(annotation)})"
    return ", ".join([SCALARS.get(annotation, str(annotation)), *_bounds(metadata)])


def _bounds(metadata: tuple[Any, ...]) -> Iterator[str]:
    """Limits of a number, those inside of a pydantic `Field` included."""
    for item in metadata:
        yield from (text.format(getattr(item, bound)) for bound, text in BOUNDS.items() if hasattr(item, bound))
        yield from _bounds(tuple(getattr(item, "metadata", ())))


def _quantity(dimension: str) -> str:
    return f"{dimension.replace('_', ' ')}, as `{units._DIMENSIONS[dimension].example}`"
