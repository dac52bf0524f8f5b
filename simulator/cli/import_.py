"""Make a scenario of a file that another program reads: arguments of Megatron-LM, a job of torchtitan, a config.json.

Megatron's arguments may stand in a shell script (which is read and never run), in a bare list, in YAML or in JSON. The
scenario says beside each value where it came from, and at its top what was assumed, left out and ignored. A config.json
of Hugging Face becomes a scenario that serves the model. A ds_config.json of DeepSpeed names no model: --set gives it
(`--set model=llama-3.1-8b --set sequence_length=4096`). Command lines of vLLM, SGLang and TensorRT-LLM, in a script or
as they are typed, become one that serves as they say.

A description of a network becomes a cluster file on the nodes of --cluster: NCCL's topology XML, Slurm's topology.conf
or topology.yaml, a networkx graph as JSON (--format networkx), ASTRA-sim's network YAML, the bandwidths of all pairs of
nodes that mpiGraph prints.
"""

from argparse import ArgumentParser, Namespace
from itertools import takewhile

from simulator.cli import console

SUMMARY = (
    "scenarios of Megatron, torchtitan, DeepSpeed, Hugging Face, engines; clusters of NCCL, Slurm, networkx, mpiGraph"
)
EXAMPLES = (
    "pretrain_gpt.sh --cluster selene --nodes 48 --out gpt.yaml",
    "pretrain_gpt.sh --cluster dgx-h100 --set MODEL_SIZE=7B --set vocab-size=32000",
    "llama3_70b.toml --cluster dgx-h100 --nodes 32",
    "ds_config.json --cluster dgx-a100 --set model=llama-2-13b --set sequence_length=4096",
    "my-model/config.json --cluster dgx-h100",
    "topology.conf --cluster dgx-h100 --out my-cluster.yaml",
    '"vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4" --cluster dgx-h100',
)
_SCENARIOS = ("megatron", "torchtitan", "deepspeed", "huggingface", "engine")
_NETWORKS = ("nccl", "slurm", "networkx", "astra-sim", "mpigraph")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `import`."""
    parser.add_argument(
        "file", metavar="FILE", help="script, argument list, TOML, config.json, or a command line of an engine"
    )
    parser.add_argument(
        "--cluster",
        metavar="CLUSTER",
        required=True,
        help="machine of the job: `clustersim profiles clusters`, or a file",
    )
    parser.add_argument(
        "--nodes", metavar="N", type=int, help="nodes that the job gets; what the file says if left out"
    )
    parser.add_argument("--format", choices=(*_SCENARIOS, *_NETWORKS), help="what the file is; detected if left out")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a variable of a script (SIZE, or 1 for its first argument), an argument (seq-length), a key of TOML",
    )
    parser.add_argument("--out", metavar="FILE", help="write the scenario to a file; it is printed else")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def execute(arguments: Namespace) -> int:
    """Read, check, write."""
    from simulator.cli import outputs

    outputs.check({"--out": arguments.out}, inputs=(arguments.file,), printable="--out")
    from simulator.run.starters import write_new

    text = _text(arguments)
    if arguments.out in (None, "-"):
        console.write(text)
    else:
        write_new(arguments.out, text, arguments.force)
        head = takewhile(lambda line: line.startswith("#"), text.splitlines())
        console.write("\n".join([f"wrote {arguments.out}", *(line.removeprefix("#").rstrip() for line in head)]) + "\n")
    return 0


def _text(arguments: Namespace) -> str:
    """The cluster file of a network, else the scenario."""
    from simulator.errors import InputError, Problem
    from simulator.interop.networks.as_cluster import cluster_file, told

    network = arguments.format if arguments.format in _NETWORKS else None
    if network or (arguments.format is None and (network := told(arguments.file))):
        if arguments.set:
            raise InputError(Problem("`--set` has no meaning for a network", hint="leave it out"))
        return cluster_file(arguments.file, arguments.cluster, network, arguments.nodes)
    from simulator.interop.machine import Machine
    from simulator.run.imports import import_file, pairs

    return import_file(
        arguments.file, Machine(arguments.cluster, arguments.nodes), arguments.format, pairs(arguments.set)
    )
