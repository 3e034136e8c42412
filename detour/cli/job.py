# SPDX-License-Identifier: Apache-2.0
"""`job`: job files from the shape of a model, and jobs for other simulators."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.quantities import bytes_of, rate_bps_of
from detour.cli.output import Page, present
from detour.cli.parser import (
    Parser,
    byte_count,
    command,
    counted,
    fraction,
    number,
    output_file,
    quantity,
    whole_count,
)

if TYPE_CHECKING:
    from detour.fabric.workloads.models import ModelRun

_HOSTS_OF_LEAF, _MOST_LEAVES = 8, 256


def register(commands: Any) -> None:
    text = "write job files of training steps from a model's dimensions; export jobs to astra-sim and LogGOPSim"
    job = commands.add_parser("job", help=text, description=text[0].upper() + text[1:] + ".")
    kinds = job.add_subparsers(dest="kind", metavar="KIND", required=True)
    gpt = command(kinds, "gpt", "a training step of a dense transformer", _model)
    _shape(gpt)
    moe = command(kinds, "moe", "a training step of a mixture-of-experts transformer", _model)
    _shape(moe)
    moe.option("--experts", "experts per layer (8)", "N", whole_count, default=8)
    moe.option("--top-k", "experts per token (2)", "N", whole_count, default=2)
    moe.option("--ep", "ranks of expert parallelism (8)", "N", whole_count, default=8)
    moe.option("--expert-chunks", "parts of tokens that are exchanged while others are computed (1)", "N", whole_count)
    moe.option("--skew", "distribution of tokens over experts: uniform, moe:S or zipf:S", "KIND", default="uniform")
    export = command(kinds, "export", "export a job file as a Chakra trace or a GOAL schedule", _export)
    export.add_argument("jobs", type=Path, metavar="JOBS", help="job file with bytes")
    export.option("--topo", "topology of the job's hosts", "SPEC", required=True)
    text = "FILE.et: a file per host for astra-sim; FILE.goal, FILE.bin: GOAL as text or binary"
    export.option("--out", text, "FILE", output_file, required=True)
    _nccl_options(command(kinds, "nccl-tests", "the table that nccl-tests print, for a fabric", _nccl_tests, wide=True))


def _nccl_options(parser: Parser) -> None:
    parser.option("--op", "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, sendrecv, gather "
        "or scatter", "OP", required=True)  # fmt: skip
    parser.option("--gpus", "GPUs in all", "N", whole_count, required=True)
    parser.option("--sizes", "first and last size, each twice the one before, like 8:8G (powers of 1024)", "A:B",
        required=True)  # fmt: skip
    parser.option("--topo", "topology; its first hosts are the NICs, machine by machine", "SPEC", required=True)
    text = "a machine's GPUs, NICs and NVLink (gpus=1,nics=1,nvlink=3.6T)"
    parser.option("--machine", text, "gpus=,nics=,nvlink=", default="")
    parser.option("--rate", "rate of links (400G)", "RATE", default="400G")
    parser.option("--scheme", "transport and path selection (SprayLERP)", "S")
    parser.option("--algorithm", "ring, tree, nvls-tree or p2p (default: NCCL's choice)", "NAME")
    parser.option("--protocol", "simple, ll or ll128 (default: NCCL's choice)", "NAME")
    text = "bytes that the fabric carries for one row at most; beyond that the time is continued (2e9)"
    parser.option("--limit", text, "BYTES", byte_count)


def _shape(parser: Parser) -> None:
    parser.option("--params", "parameters of the model, like 13B (moe: with one expert)", "N", _count, required=True)
    parser.option("--layers", "(default: those of the closest published model)", "N", whole_count)
    parser.option("--hidden", "hidden size (default: from the number of parameters)", "N", whole_count)
    parser.option("--sequence", "tokens per sequence (2048)", "N", whole_count, default=2048)
    for name, text in (("tp", "tensor"), ("pp", "pipeline"), ("dp", "data")):
        parser.option(f"--{name}", f"ranks of {text} parallelism (1)", "N", whole_count, default=1)
    parser.option("--batch", "sequences per step, over all ranks", "N", whole_count, required=True)
    parser.option("--micro-batch", "sequences per microbatch (1)", "N", whole_count, default=1)
    parser.option("--tflops", "peak TFLOP/s of a GPU (989, an H100 in bf16)", "N", number, default=989.0)
    parser.option("--efficiency", "fraction of the peak that it reaches (0.4)", "F", fraction, default=0.4)
    parser.option("--nvlink", "rate of a GPU inside its machine, or none (3.6T)", "RATE", default="3.6T")
    text = "recompute activations in backward passes: full (also without a value), or selective: attention only"
    parser.option("--recompute", text, "WHAT", nargs="?", const="full", choices=("full", "selective"))
    parser.option("--context", "ranks of context parallelism (1)", "N", whole_count)
    parser.option("--interleave", "chunks of the model at each pipeline stage (1)", "N", whole_count)
    parser.option("--zero", "data-parallel ranks share optimizer (1), gradients (2), weights (3); (0)", "N", counted)
    parser.option("--bucket", "bytes of gradients that are reduced while others are computed", "BYTES", _bytes)
    parser.add_argument("--prefetch", action="store_true", default=None, help="gather weights before they are needed")
    text = "reduce-scatter and all-gather in place of tensor parallelism's all-reduces"
    parser.add_argument("--sequence-parallel", action="store_true", default=None, help=text)
    parser.option("--sm-share", "share of computing that a collective takes while it runs beside (0)", "F", fraction)
    parser.option("--memory", "refuse a job that needs more memory of a GPU, like 80GB", "BYTES", _bytes)
    parser.option("--out", "the job file", "FILE", output_file, required=True)


_bytes = quantity(bytes_of)


def _count(text: str) -> int:
    """`13B`, `1.3e9`, `175G`."""
    try:
        return bytes_of(text.replace("B", "G"))
    except DetourError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of parameters, like 13B") from None


def _model(options: argparse.Namespace) -> None:
    from detour.control.placement.training import SHAPE_KEYS, TrainingShape
    from detour.fabric.workloads.models import ModelRun
    from detour.fabric.workloads.training import Overlap

    if not options.tflops > 0 or not options.efficiency:
        raise DetourError("--tflops and --efficiency must be above 0")
    more = ("experts", "top_k", "ep", "skew", "expert_chunks") if options.kind == "moe" else ()
    more += ("context", "interleave", "zero", "bucket", "prefetch", "sequence_parallel", "sm_share", "recompute")
    names = ("params", "layers", "hidden", "sequence", "tp", "pp", "dp", "batch", "micro_batch", "efficiency", *more)
    run = ModelRun(
        flops=options.tflops * 1e12,
        nvlink_bps=None if options.nvlink == "none" else rate_bps_of(options.nvlink),
        **{name: getattr(options, name) for name in names},
    )
    job = run.job(options.kind)
    shape = TrainingShape(**{key: value for key, value in job.items() if key in SHAPE_KEYS})
    Overlap.of(job)
    memory = run.memory()
    if options.memory is not None and memory.total > options.memory:
        raise DetourError(f"a GPU needs {memory}; that is more than --memory {options.memory / 1e9:.4g}GB")
    if shape.ep > 1:
        _ = shape.tokens  # a skew that is none is told before anything is written
    _write(options.out, run, job)
    layers, hidden = run.shape()
    result = {"file": str(options.out), "parameters": run.parameters(), "layers": layers, "hidden": hidden, **job}
    result["memory_bytes"] = {**vars(memory), "total": memory.total}
    text = f"{result['parameters'] / 1e9:.3g}B parameters, {layers} layers of width {hidden}, {shape.ranks} hosts"

    def render(page: Page) -> None:
        import shlex

        page.print(f"a GPU needs {memory}")
        page.print(f"{options.out}: {text}; this runs it:")
        page.print(f"detour place {shlex.quote(str(options.out))} --topo {_fitting(shape.ranks)} --run", whole=True)

    present(result, options, render)


def _fitting(hosts: int) -> str:
    """A leaf-spine network for so many hosts, as fast between leaves as below them."""
    of_leaf = min(hosts, _HOSTS_OF_LEAF)
    while -(-hosts // of_leaf) > _MOST_LEAVES:
        of_leaf *= 2
    return f"leaf-spine:leaves={-(-hosts // of_leaf)},spines={of_leaf},hosts={of_leaf}"


def _write(file: Path, run: ModelRun, job: dict[str, Any]) -> None:
    import yaml

    given = ", ".join(f"{key} {value}" for key, value in vars(run).items() if value is not None)
    head = f"# {run.parameters() / 1e9:.4g}B parameters; made from {given}\n"
    write_file(file, head + yaml.safe_dump({"jobs": [job]}, sort_keys=False))


def _export(options: argparse.Namespace) -> None:
    from detour.control.graph_files import open_topology
    from detour.fabric.workloads import exports
    from detour.fabric.workloads.jobs import read_job_run

    writers = {
        ".et": exports.write_chakra, ".goal": exports.write_goal, ".bin": partial(exports.write_goal, binary=True)
    }  # fmt: skip
    writer = writers.get(options.out.suffix)
    if writer is None:
        raise DetourError(f"--out {options.out}: unknown file type; use one of {', '.join(writers)}")
    graph = read_job_run(options.jobs, open_topology(options.topo)).graph
    files = writer(options.out, graph)
    result = {"files": [str(file) for file in files], "tasks": len(graph)}
    present(result, options, lambda page: page.print(f"{len(graph)} tasks in {len(files)} files from {files[0]} on"))


def _nccl_tests(options: argparse.Namespace) -> int:
    from detour.base.interrupting import noticed
    from detour.base.records import as_json
    from detour.cli import INTERRUPTED
    from detour.cli.output import bar
    from detour.control.graph_files import open_topology
    from detour.control.placement.nccl.machines import Cluster, read_machine
    from detour.experiments.columns import table
    from detour.experiments.hardware import nccl_tests
    from detour.experiments.sim.settings import SimOptions, settings_of

    topology = open_topology(options.topo)
    settings = settings_of(topology, SimOptions(scheme=options.scheme, rate=options.rate, mtu=nccl_tests.MTU))
    cluster = Cluster(options.gpus, read_machine(options.machine), settings.links.rate_bps)
    limit = nccl_tests.LIMIT_BYTES if options.limit is None else options.limit
    test = nccl_tests.NcclTest(options.op, cluster, topology, settings, options.algorithm, options.protocol, limit)
    sizes, rows = nccl_tests.sizes_of(options.sizes), list[nccl_tests.NcclRow]()
    with bar("nccl-tests", options.json) as update, noticed() as stop:
        for done in test.rows(sizes, stop):
            rows.append(done)
            update(len(rows), len(sizes), f"{done.bytes} bytes")
    mean = sum(one.busbw_gbps for one in rows) / max(len(rows), 1)
    result = {"op": options.op, "gpus": options.gpus, "topology": topology.spec, "rows": as_json(rows)}
    title = f"{options.op}, {options.gpus} GPUs in {cluster.machines} machines on {topology.spec}"

    def render(page: Page) -> None:
        page.table(table(nccl_tests.NcclRow, rows, title))
        page.print(f"average bus bandwidth: {mean / 8:.2f} GB/s")

    present(result | {"average_busbw_gbps": round(mean, 4)}, options, render)
    return INTERRUPTED if len(rows) < len(sizes) else 0
