"""Our plans beside published hand-tuned ones: `python benchmarks/published.py [NAME...] [--least-pcc X] [-o FILE]`.

Networks of the published sizes and batches as ttopt plans them, in the precision that the hand-tuned ones use (weights
and results in bfp8_b, LoFi products), images fed channels-last, predicted images, sentences or steps per second from a
trace, and the published figure. Ours are kernels and the gaps between them; published whole runs also hold what the
host does. With `--least-pcc` element types and fidelities are chosen within that budget instead, for random weights and
inputs of seed 0. `-o` appends one JSON line per network; what it holds is not solved again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from llama_decode import llama_decode
from onnx import numpy_helper
from published_graphs import bert_large, sd_unet, whisper_decode

from optimizer import Options, load, optimize
from optimizer.cli.tables import table
from optimizer.ir.graph import Graph

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "onnx"
PRECISION = {"weights_dtype": "bfp8_b", "activations_dtype": "bfp8_b", "math_fidelity": "lofi"}
FED = {"channels_last_inputs": True}
"""As the published ones are fed."""
_README = "tt-metal models/README.md, Nov 2025"
_TARGET = "tt-metal device-perf target, June 2025"


@dataclass(frozen=True)
class Network:
    """One network and what is published of it."""

    name: str
    board: str
    batch: int
    graph: Callable[[], Graph]
    published: float
    """Items per second; of a decoder, steps."""
    source: str
    differs: str


def rebatched(name: str, batch: int) -> Callable[[], Graph]:
    """A fixture's network with another batch; its weights are not needed."""
    return lambda: _rebatched(FIXTURES / f"{name}.onnx", batch)


def _rebatched(path: Path, batch: int) -> Graph:
    model = onnx.load(str(path), load_external_data=False)
    graph = model.graph
    held = graph.input[0].type.tensor_type.shape.dim[0].dim_value
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    del graph.value_info[:]
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[1] in tensors:
            shape = numpy_helper.to_array(tensors[node.input[1]]).copy()
            if shape[0] == held:
                shape[0] = batch
                tensors[node.input[1]].CopyFrom(numpy_helper.from_array(shape, node.input[1]))
        if node.op_type == "Concat":
            for name in set(node.input) & set(tensors):  # a token put before every row
                if len(tensors[name].dims) == 3:
                    _repeat(tensors[name], batch // held)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        onnx.save(model, str(file))
        return load(str(file)).graph


def _repeat(tensor: onnx.TensorProto, times: int) -> None:
    """A tensor whose data is elsewhere, and not needed, along its first dim."""
    tensor.dims[0] *= times
    for entry in tensor.external_data:
        if entry.key == "length":
            entry.value = str(int(entry.value) * times)


_RESNET = "kernels alone; the classifier of 1,000 as ours"
_WHOLE = "whole runs, with the host"
_SAMPLED = f"{_WHOLE}, sampling, rotary embedding and cache updates"
_IMAGE = f"{_WHOLE}; a fiftieth of an image, its decoder included"
_ENCODED = f"{_WHOLE}, the encoder and cache updates"


def llama_8b() -> Graph:
    """Llama-3.1-8B."""
    return llama_decode(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336)


NETWORKS = (
    Network("ResNet-50", "n150", 16, rebatched("resnet50_b8_dynamo20", 16), 5311, _TARGET, _RESNET),
    Network("ResNet-50", "n150", 16, rebatched("resnet50_b8_dynamo20", 16), 4700, _README, _WHOLE),
    Network("ResNet-50", "p150", 16, rebatched("resnet50_b8_dynamo20", 16), 10113, _TARGET, _RESNET),
    Network("ResNet-50", "p150", 16, rebatched("resnet50_b8_dynamo20", 16), 12600, _README, _WHOLE),
    Network("ViT-base", "n150", 8, rebatched("vit_b16_dynamo20", 8), 1370, _README, _WHOLE),
    Network("ViT-base", "p150", 10, rebatched("vit_b16_dynamo20", 10), 3700, _README, _WHOLE),
    Network("BERT-Large, 384 tokens", "n150", 8, lambda: bert_large(8), 270, _README, f"{_WHOLE} and embeddings"),
    Network("MobileNetV2", "n150", 1, rebatched("mobilenetv2_legacy17", 1), 720, _TARGET, "kernels alone"),
    Network("MobileNetV2", "n150", 10, rebatched("mobilenetv2_legacy17", 10), 3030, _README, _WHOLE),
    Network(
        "YOLOv8n-like, 640", "n150", 1, rebatched("yolov8n_like_legacy17", 1), 215, _README,
        f"YOLOv8s, about three times ours in products; {_WHOLE}",
    ),
    Network("Stable Diffusion 1.4, a step", "n150", 2, sd_unet, 50 / 4.83, _README, _IMAGE),
    Network("Stable Diffusion 1.4, a step", "p150", 2, sd_unet, 50 / 3.15, _README, _IMAGE),
    Network("Whisper distil-large-v3, a decode step", "n150", 1, whisper_decode, 58.1, _README, _ENCODED),
    Network("Whisper distil-large-v3, a decode step", "p150", 1, whisper_decode, 101.5, _README, _ENCODED),
    Network("Llama-3.2-1B, a decode step", "n150", 32, llama_decode, 80.5, _README, _SAMPLED),
    Network("Llama-3.1-8B, a decode step", "n150", 32, llama_8b, 26.0, _README, _SAMPLED),
    Network("Llama-3.1-8B, a decode step", "p150", 32, llama_8b, 33.1, _README, _SAMPLED),
)  # fmt: skip


def predicted(network: Network, least_pcc: float | None) -> dict[str, Any]:
    """Of one plan: kernels, traced, gap, seconds."""
    begun = time.perf_counter()
    options = Options.from_mapping(FED | (PRECISION if least_pcc is None else {"least_pcc": least_pcc}))
    summary = optimize(network.graph(), network.board, options).summary
    return {
        "name": network.name, "board": network.board, "batch": network.batch,
        "least_pcc": least_pcc,
        "kernels_ns": summary.predicted_time_ns, "traced_ns": summary.traced_ns,
        "low_ns": summary.predicted_low_ns, "high_ns": summary.predicted_high_ns, "gap": summary.gap,
        "seconds": round(time.perf_counter() - begun, 1),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks whose name starts so; default: all")
    parser.add_argument("--least-pcc", type=float)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="JSON lines; what is there is kept")
    options = parser.parse_args()
    known: dict[tuple[str, str, int, float | None], dict[str, Any]] = {}
    if options.output is not None and options.output.exists():
        for record in map(json.loads, options.output.read_text("utf-8").splitlines()):
            known[record["name"], record["board"], record["batch"], record["least_pcc"]] = record
    rows = []
    for network in NETWORKS:
        if options.names and not network.name.startswith(tuple(options.names)):
            continue
        key = (network.name, network.board, network.batch, options.least_pcc)
        if key not in known:
            known[key] = predicted(network, options.least_pcc)
            if options.output is not None:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(known[key]) + "\n")
            print(known[key], file=sys.stderr, flush=True)
        rows.append(_row(network, known[key]))
    print(table(["network", "board", "batch", "ours/s", "80 %", "published/s", "times", "theirs: what differs"], rows))
    return 0


def _row(network: Network, record: dict[str, Any]) -> list[str]:
    items = 1 if "step" in network.name else network.batch
    alone = "kernels alone" in network.differs
    ours, gaps = (record["kernels_ns"] if alone else record["traced_ns"]), record["traced_ns"] - record["kernels_ns"]
    low, high = (record[name] + (0 if alone else gaps) for name in ("low_ns", "high_ns"))
    rate = 1e9 * items / ours
    return [
        network.name, network.board, str(network.batch), f"{rate:,.0f}",
        f"{1e9 * items / high:,.0f} to {1e9 * items / low:,.0f}", f"{network.published:,.0f}",
        f"{rate / network.published:.2f}", network.differs,
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
