"""Kernels of the same expressions by tt-lang and by us: sections, copies, loads and inits that their C++ runs.

    python -m venv VENV && VENV/bin/pip install tt-lang==1.1.1     (Python 3.12; a device is not needed)
    python benchmarks/tt_lang.py VENV [--only NAME]

Both compile every expression below for the same blocks; calls are counted in the C++ of the compute thread, loops
taken into account. `cycles` prices both texts alike (`dst/cost.py`). Exits 1 where ours is worse: more copies within
DST, more sections without fewer cycles, or more cycles. What tt-lang refuses is told. Of f32, tt-lang is asked for ops
on the SFPU (`--no-ttl-fpu-binary-ops`), as ours has them: the FPU reads f32 at 19 bits.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.dst.cost import INIT, PACK, SECTION, load_cycles, op_cycles
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.tile_ops import TILE_OPS

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "kernels" / "tensix"))
from cpp_calls import calls  # noqa: E402 - the tests count with it, too
from one_core import compile_program  # noqa: E402 - so is this
from sample_kernels import one_block  # noqa: E402 - the kernels' frame is the tests'

Shape = tuple[int, int]


@dataclass(frozen=True)
class Expression:
    """What both compile: block expressions of inputs `a`, `b`, ... of one shape."""

    name: str
    results: tuple[str, ...]
    shape: Shape = (4, 4)
    dtype: str = "bf16"
    values: tuple[str, ...] = ()
    """`name = expression` before the results."""

    @property
    def inputs(self) -> tuple[str, ...]:
        text = " ".join((*self.values, *self.results))
        return tuple(sorted(set(re.findall(r"\b[a-j]\b", text))))


def _e(
    name: str, *results: str, shape: Shape = (4, 4), dtype: str = "bf16", values: tuple[str, ...] = ()
) -> Expression:
    return Expression(name, results, shape, dtype, values)


_PAIR = ("p = a * b",)
EXPRESSIONS = (
    _e("add", "a + b"),
    _e("mul 2x2", "a * b", shape=(2, 2)),
    _e("exp 3x3", "exp(a)", shape=(3, 3)),
    _e("relu 1x1", "relu(a)", shape=(1, 1)),
    _e("add exp", "exp(a + b)"),
    _e("add mul exp 8x8", "exp((a + b) * c)", shape=(8, 8)),
    _e("mul add", "a * b + c"),
    _e("mul add 2x2", "a * b + c", shape=(2, 2)),
    _e("mul abs add", "abs(a * b) + c", shape=(2, 2)),
    _e("silu", "a * sigmoid(a)"),
    _e("gated", "a * sigmoid(b)"),
    _e("gated twice", "a * sigmoid(b) + c * tanh(b)"),
    _e("chain of 3", "relu(exp(abs(a)))"),
    _e("x f(abs x)", "a * exp(abs(a))"),
    _e("two of one product", "abs(p)", "exp(p)", values=_PAIR, shape=(1, 1)),
    _e("two of one product 4x4", "abs(p)", "exp(p)", values=_PAIR),
    _e("abs and add of a product", "abs(p)", "p + c", values=_PAIR, shape=(1, 1)),
    _e("add and abs of a product", "p + c", "abs(p)", values=_PAIR, shape=(1, 1)),
    _e("one in two out", "exp(a)", "abs(a)"),
    _e("four out", "exp(a)", "exp(b)", "abs(c)", "sqrt(d)"),
    _e("maximum 7x1 f32", "max(a, b)", shape=(7, 1), dtype="f32"),
    _e("maximum 4x4 f32", "max(a, b)", dtype="f32"),
    _e("add f32", "a + b", dtype="f32"),
    _e("exp f32", "exp(a)", dtype="f32"),
    _e("mul add f32", "a * b + c", dtype="f32"),
    _e("silu f32", "a * sigmoid(a)", dtype="f32"),
    _e("clip", "min(max(a, b), c)"),
    _e("difference of squares", "(a + b) * (a - b)"),
    _e("squared difference", "square(a - b)"),
    _e("hypotenuse", "sqrt(a * a + b * b)"),
    _e("rational", "(a + b) / (c + d)"),
    _e("tree of 4", "max(max(a, b), max(c, d))"),
    _e("tree of 8", "max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))"),
    _e("sum of 5", "a + b + c + d + e"),
    _e("polynomial", "((a * b + c) * b + d) * b + e"),
    _e("softplus", "log(exp(a) + b)"),
    _e("normalise", "(a - b) * rsqrt(c + d)"),
    _e("prime 5x1", "exp(a) + b", shape=(5, 1)),
    _e("prime 11x1", "sigmoid(a * b)", shape=(11, 1)),
    _e("wide fan-out", "p + c", "p - c", "p * c", values=_PAIR),
    _e("shared twice", "exp(p) + abs(p)", values=_PAIR),
    _e("matmul", "a @ b", shape=(2, 2)),
    _e("matmul relu", "relu(a @ b)", shape=(2, 2)),
    _e("matmul add", "a @ b + c", shape=(2, 2)),
)
_FUNCTIONS = re.compile(r"\b(?!\w\b)([a-z]\w*)\(")
_WIDTHS = (12, 12, 12, 12, 18)
_PRODUCTS = frozenset(("matmul_tiles", "matmul_block", "experimental_matmul_block"))


# -- ours ---------------------------------------------------------------------------------------------------
def our_program(e: Expression) -> Op:
    """The expression in our front end."""

    def body(*blocks: ttl.Block) -> tuple[ttl.Block, ...]:
        names: dict[str, Any] = dict(zip(e.inputs, blocks, strict=True))
        functions = {name: getattr(ttl.math, name) for name in TILE_OPS}
        for line in e.values:
            name, _, text = line.partition(" = ")
            names[name] = eval(text, functions, names)
        return tuple(eval(text, functions, names) for text in e.results)

    dtype = DType.F32 if e.dtype == "f32" else DType.BF16
    return one_block("kernel", [e.shape] * len(e.inputs), [e.shape] * len(e.results), body, dtype)


def ours(e: Expression) -> Counter[str]:
    return calls(next(k.text for k in compile_program(our_program(e)) if k.kind == "compute"))


# -- theirs ---------------------------------------------------------------------------------------------------
_HEAD = '''
import contextlib, io, json, os, sys
os.environ["TTLANG_COMPILE_ONLY"] = "1"
import ttnn, ttl


class Tensor:
    """What the compiler asks of a tensor."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.layout = shape, dtype, ttnn.TILE_LAYOUT

    def memory_config(self):
        return ttnn.DRAM_MEMORY_CONFIG

    def device(self):
        return None


ttnn.Tensor = Tensor
answers = {}


def compiled(name, kernel, tensors):
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            kernel(*tensors)
    except Exception as error:
        answers[name] = {"error": str(error).strip().splitlines()[-1]}
        return
    text = shown.getvalue()
    answers[name] = {"text": text[text.index("// math\\n"):].split("====", 1)[0]}
'''


def _module(expressions: tuple[Expression, ...]) -> str:
    """A Python module that compiles every expression with tt-lang and prints its C++ as JSON."""
    parts = [_HEAD, *(_kernel(n, e) for n, e in enumerate(expressions))]
    return "\n".join((*parts, 'print("ANSWERS" + json.dumps(answers))\n'))


def _kernel(n: int, e: Expression) -> str:
    outputs = [f"out_{k}" for k in range(len(e.results))]
    names = [*(f"in_{name}" for name in e.inputs), *outputs]
    rows, columns = e.shape
    place = f"[0:{rows}, 0:{columns}]"
    spelled = [_FUNCTIONS.sub(r"ttl.math.\1(", text) for text in (*e.values, *e.results)]
    waits = [f"in_{name}_cb.wait() as {name}" for name in e.inputs]
    waits += [f"{name}_cb.reserve() as {name}_room" for name in outputs]
    stores = [f"{name}_room.store({text})" for name, text in zip(outputs, spelled[len(e.values) :], strict=True)]
    precise = ', options="--no-ttl-fpu-binary-ops"' if e.dtype == "f32" else ""
    operation = f"@ttl.operation(grid=(1, 1){precise})"
    lines = [operation, f"def kernel_{n}({', '.join(names)}):"]
    lines += [f"    {x}_cb = ttl.make_dataflow_buffer_like({x}, shape={e.shape}, block_count=2)" for x in names]
    lines += ["    @ttl.compute()", "    def math():", f"        with ({', '.join(waits)}):"]
    lines += [f"            {line}" for line in (*spelled[: len(e.values)], *stores)]
    lines += ["    @ttl.datamovement()", "    def reader():"]
    for x in names[: len(e.inputs)]:
        lines += [f"        with {x}_cb.reserve() as block:", f"            ttl.copy({x}{place}, block).wait()"]
    lines += ["    @ttl.datamovement()", "    def writer():"]
    for x in outputs:
        lines += [f"        with {x}_cb.wait() as block:", f"            ttl.copy(block, {x}{place}).wait()"]
    tensor = f"Tensor(({rows * 32}, {columns * 32}), ttnn.{'float32' if e.dtype == 'f32' else 'bfloat16'})"
    lines.append(f"compiled({e.name!r}, kernel_{n}, [{', '.join([tensor] * len(names))}])")
    return "\n".join(lines)


def theirs(venv: Path, expressions: tuple[Expression, ...]) -> Mapping[str, Mapping[str, str]]:
    """C++ of the compute thread, or an error, by expression."""
    with tempfile.TemporaryDirectory() as name:
        module = Path(name) / "kernels.py"
        module.write_text(_module(expressions), encoding="utf-8")
        done = subprocess.run([venv / "bin" / "python", module], capture_output=True, text=True, check=False, cwd=name)
    answer = next((line for line in done.stdout.splitlines() if line.startswith("ANSWERS")), None)
    if answer is None:
        raise SystemExit(f"tt-lang's process gave no answer: {done.stderr[-2000:]}")
    found: Mapping[str, Mapping[str, str]] = json.loads(answer.removeprefix("ANSWERS"))
    return found


# -- both -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Figures:
    """Of one kernel's compute thread."""

    sections: int
    copies: int
    loads: int
    inits: int
    cycles: int | None
    """None with matrix products, which one call may have many of."""


def figures(counted: Counter[str], dtype: str) -> Figures:
    inits = sum(n for name, n in counted.items() if name.endswith(("_init", "_init_short")))
    cycles = INIT * inits + SECTION * counted["tile_regs_acquire"]
    cycles += PACK * sum(n for name, n in counted.items() if name.startswith("pack_"))
    cycles += load_cycles(dtype) * counted["copy_tile"]
    called = {form.call.function: op_cycles(op.name, form.unit) for op in TILE_OPS.values() for form in op.forms}
    reuse = called["add_reuse_dest_tiles"]
    cycles += sum(n * called[name] for name, n in counted.items() if name in called and name != "copy_tile")
    cycles += reuse * counted["binary_dest_reuse_tiles"]
    priced = not _PRODUCTS & counted.keys()
    copies = counted["copy_dest_values"]
    return Figures(counted["tile_regs_acquire"], copies, counted["copy_tile"], inits, cycles if priced else None)


def verdict(mine: Figures, other: Figures) -> str:
    """`worse` if ours has more copies, more cycles, or more sections that save no cycles."""
    dearer = mine.cycles is not None and other.cycles is not None and mine.cycles > other.cycles
    cheaper = mine.cycles is not None and other.cycles is not None and mine.cycles < other.cycles
    if mine.copies > other.copies or dearer or (mine.sections > other.sections and not cheaper):
        return "worse"
    return "better" if mine.sections < other.sections or mine.copies < other.copies or cheaper else "same"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("venv", type=Path, help="folder of a virtual environment with tt-lang")
    parser.add_argument("--only", metavar="NAME", help="one expression, and both texts")
    args = parser.parse_args()
    chosen = tuple(e for e in EXPRESSIONS if args.only in (None, e.name))
    answers = theirs(args.venv.absolute(), chosen)
    seen: Counter[str] = Counter()
    heads = zip(("sections", "copies", "loads", "inits", "cycles"), _WIDTHS, strict=True)
    print(f"{'tt-lang / ours':28}" + "".join(head.rjust(width) for head, width in heads))
    for e in chosen:
        counted = ours(e)
        mine = figures(counted, e.dtype)
        if "error" in answers[e.name]:
            seen["refused"] += 1
            print(f"{e.name:28}{'-':>6} / {mine.sections:<3} refused: {answers[e.name]['error'][:80]}")
            continue
        other = figures(calls(answers[e.name]["text"]), e.dtype)
        told = verdict(mine, other)
        seen[told] += 1
        pairs = [(getattr(other, f), getattr(mine, f)) for f in ("sections", "copies", "loads", "inits", "cycles")]
        columns = "".join(
            f"{'-' if a is None else a} / {'-' if b is None else b}".rjust(width)
            for (a, b), width in zip(pairs, _WIDTHS, strict=True)
        )
        print(f"{e.name:28}{columns}  {told}")
        if args.only is not None:
            print(answers[e.name]["text"], next(k.text for k in compile_program(our_program(e)) if k.kind == "compute"))
    print(", ".join(f"{told} {n}" for told, n in sorted(seen.items())), f"of {len(chosen)}")
    return 1 if seen["worse"] else 0


if __name__ == "__main__":
    sys.exit(main())
