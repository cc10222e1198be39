"""ONNX models that were changed, imported and laid out like an upload or a file: none may open another file."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import onnx

import optimizer.importers.onnx_file
import optimizer.importers.onnx_folding  # noqa: F401 - loaded once, before the workers are forked
from fuzzing.harness import Case
from fuzzing.onnx_mutations import INSIDE, MUTATORS, OUTSIDE, spoil
from fuzzing.onnx_seeds import seeds
from optimizer.device import DeviceSpec
from optimizer.export.annotated_json import dumps
from optimizer.importers import load
from optimizer.options import Options
from optimizer.pipeline import optimize

POLICIES = ("dram", "dfsharding")
CANARY = 1234.5625


# -- running ---------------------------------------------------------------------------------------
_opened: list[str] = []
_watching = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if _watching and event == "open" and args and isinstance(args[0], str | bytes | os.PathLike):
        _opened.append(os.fsdecode(args[0]))


sys.addaudithook(_watch)


@cache
def _folder() -> Path:
    """A folder as a model may lie in: files inside, and around it what must stay closed."""
    home = Path(tempfile.mkdtemp(prefix="ttopt-fuzz-"))
    folder = home / "model"
    (folder / "sub").mkdir(parents=True)
    canary = onnx.numpy_helper.from_array(
        onnx.numpy_helper.to_array(onnx.helper.make_tensor("c", 1, [4096], [CANARY] * 4096))
    )
    (home / "canary.bin").write_bytes(canary.raw_data)
    for inside in (folder / "inside.bin", folder / "sub" / "inside.bin"):
        inside.write_bytes(b"\x01\x00\x00\x00\x00\x00\x00\x00" * 512)
    (folder / "canary-link.bin").symlink_to(home / "canary.bin")
    os.mkfifo(folder / "pipe")
    return folder


@contextmanager
def _nothing_opened(allowed: frozenset[str]) -> Iterator[None]:
    """AssertionError when a file that a model may name is opened meanwhile."""
    global _watching
    _opened.clear()
    _watching = True
    try:
        yield
    finally:
        _watching = False
    named = {Path(location).name for location in OUTSIDE + INSIDE if location.strip("\0")}
    bad = [path for path in _opened if Path(path).name in named - allowed]
    assert not bad, f"opened {bad}"


class OnnxTarget:
    """Import and layout of ONNX models, given as bytes and as files."""

    name = "onnx"
    seconds = 30.0
    memory_bytes = 2 << 30

    def case(self, rng: random.Random) -> Case:
        seed = rng.choice(list(seeds()))
        model = onnx.ModelProto()
        model.CopyFrom(seeds()[seed])
        mutators = [m for m, _ in MUTATORS]
        weights = [w for _, w in MUTATORS]
        done = [seed]
        for mutator in rng.choices(mutators, weights, k=rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
            done.append(mutator.__name__)
            mutator(model, rng)
        data = model.SerializeToString()
        if rng.random() < 0.08 and data:
            done.append("spoil")
            data = spoil(data, rng)
        return Case(" + ".join(done), data)

    def run(self, payload: bytes) -> str:
        choice = zlib.crc32(payload)
        options = Options(
            policy=POLICIES[choice & 1],
            allow_host_ops=bool(choice & 6),
            max_legal_layouts=8,
            time_limit=20.0,
        )
        folder, as_file = _folder(), choice & 24 == 0
        allowed = frozenset({"inside.bin", "missing.bin"}) if as_file else frozenset()
        with contextlib.chdir(folder), _nothing_opened(allowed):
            if as_file:
                path = folder / f"model-{os.getpid()}.onnx"
                path.write_bytes(payload)
                try:
                    model = load(path)
                finally:
                    path.unlink()
            else:
                model = load(payload)
            text = dumps(optimize(model, DeviceSpec.preset("n150"), options))
        assert str(CANARY) not in text, "the canary's number is in the result"
        return "host" if '"host"' in text else "laid out"
