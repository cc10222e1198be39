"""MatMul, Gemm, Einsum."""

from __future__ import annotations

from math import prod

from optimizer.errors import GraphError, ShapeError
from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.computed import diagonal
from optimizer.importers.onnx_ops.selecting import broadcast_to
from optimizer.ir.shape_rules import broadcast


def matmul(ctx: Lowering) -> str:
    return product(ctx, ctx.x(0), ctx.x(1), len(ctx.shape(0)), len(ctx.shape(1)))


def product(ctx: Lowering, a: str, b: str, a_rank: int, b_rank: int) -> str:
    """Numpy's matmul: a vector operand gets a dim of one, which the caller's shape check drops again."""
    if a_rank == 1:
        a = ctx.reshape(a, (1, *ctx.vshape(a)))
    if b_rank == 1:
        b = ctx.reshape(b, (*ctx.vshape(b), 1))
    return multiply(ctx, a, b)


def multiply(ctx: Lowering, a: str, b: str, transpose_a: bool = False, transpose_b: bool = False) -> str:
    """A matmul whose batch dims TTNN takes with any program config: equal, or all ones on the right."""
    left, right = ctx.vshape(a)[:-2], ctx.vshape(b)[:-2]
    if prod(right) != 1 and left != right:
        batch = broadcast(left or (1,), right)
        a = broadcast_to(ctx, a, ctx.vshape(a), batch + ctx.vshape(a)[-2:])
        b = broadcast_to(ctx, b, ctx.vshape(b), batch + ctx.vshape(b)[-2:])
    turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return ctx.emit("matmul", a, b, **{name: True for name, given in turned.items() if given})


def gemm(ctx: Lowering) -> str:
    alpha, beta = float(ctx.attr("alpha", 1.0)), float(ctx.attr("beta", 1.0))
    a, b = ctx.x(0), ctx.x(1)
    attrs = {}
    if ctx.attr("transA", 0):
        a = ctx.permute(a, (1, 0))
    if ctx.attr("transB", 0):
        if ctx.is_static(b):  # turned once instead of on every run
            b = ctx.permute(b, (1, 0))
        else:
            attrs["transpose_b"] = True
    has_bias = ctx.has(2) and beta != 0
    bias_shape = ctx.shape(2) if has_bias else ()
    is_row = bool(bias_shape) and bias_shape[-1] == ctx.out_shape()[-1] and prod(bias_shape[:-1]) == 1
    if alpha == 1.0 and beta == 1.0 and is_row:
        return ctx.emit("linear", a, b, ctx.x(2), **attrs)
    if not has_bias and alpha == 1.0:
        return ctx.emit("linear", a, b, **attrs)
    result = ctx.emit("matmul", a, b, **attrs)
    if alpha != 1.0:
        result = ctx.emit("multiply", result, scalar=alpha)
    if has_bias:
        bias = ctx.x(2) if beta == 1.0 else ctx.emit("multiply", ctx.x(2), scalar=beta)
        result = ctx.emit("add", result, bias)
    return result


def einsum(ctx: Lowering) -> str:
    """Diagonals, sums, permutes, reshapes and one matmul per further operand."""
    terms, output = _letters(ctx, str(ctx.attr("equation")).replace(" ", ""))
    operands: list[tuple[str, str]] = []
    for i, term in enumerate(terms):
        x, letters = _diagonal(ctx, ctx.x(i), term)
        operands.append(_sum_out(ctx, x, letters, set(output) | set("".join(terms[:i] + terms[i + 1 :]))))
    left = operands.pop(0)
    while operands:
        right = operands.pop(0)
        kept = set(output) | {c for _, letters in operands for c in letters}
        left = _contract(ctx, left, right, kept)
    x, letters = left
    return ctx.permute(x, [letters.index(c) for c in output]) if output else x


def _letters(ctx: Lowering, equation: str) -> tuple[list[str], str]:
    """Terms and result with one letter per dim; the dims of an ellipsis get capitals of their own."""
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ctx.node.inputs):
        raise GraphError(f"equation '{equation}' does not fit {len(ctx.node.inputs)} operands")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    spans = [len(ctx.shape(i)) - len(t.replace("...", "")) if "..." in t else 0 for i, t in enumerate(terms)]
    ellipsis = free[: max(spans, default=0)]
    full_terms = [t.replace("...", "".join(ellipsis[len(ellipsis) - n :])) for t, n in zip(terms, spans, strict=True)]
    for i, term in enumerate(full_terms):
        if len(term) != len(ctx.shape(i)):
            raise GraphError(f"equation '{equation}' does not fit operand {i} of rank {len(ctx.shape(i))}")
    if not arrow:
        flat = "".join(terms).replace(".", "")
        output = "..." + "".join(sorted(c for c in set(flat) if flat.count(c) == 1))
    return full_terms, output.replace("...", "".join(ellipsis))


def _diagonal(ctx: Lowering, x: str, letters: str) -> tuple[str, str]:
    """Drop the second of two equal letters: only elements with equal indices count."""
    while len(set(letters)) < len(letters):
        twice = next(c for c in letters if letters.count(c) > 1)
        first, second = letters.index(twice), letters.rindex(twice)
        shape = ctx.vshape(x)
        size = shape[first]
        if shape[second] != size:
            raise NotMappedError(f"a diagonal of {size} x {shape[second]}")
        eye = diagonal(ctx, size, size).reshape([size if i in (first, second) else 1 for i in range(len(shape))])
        x = ctx.emit("multiply", x, ctx.constant(eye, ctx.vdtype(x), "diagonal"))
        x = ctx.emit("sum", x, dim=(second,), keepdim=False)
        letters = letters[:second] + letters[second + 1 :]
    return x, letters


def _sum_out(ctx: Lowering, x: str, letters: str, needed: set[str]) -> tuple[str, str]:
    axes = tuple(i for i, c in enumerate(letters) if c not in needed)
    if not axes:
        return x, letters
    kept = "".join(c for c in letters if c in needed)
    return ctx.emit("sum", x, dim=axes, keepdim=False), kept


def _contract(ctx: Lowering, left: tuple[str, str], right: tuple[str, str], kept: set[str]) -> tuple[str, str]:
    """One matmul over the letters that both operands have and nobody else needs."""
    (a, la), (b, lb) = left, right
    size = dict(zip(la, ctx.vshape(a), strict=True))
    for letter, other in zip(lb, ctx.vshape(b), strict=True):
        size[letter] = max(size.get(letter, 1), other)
    if any(n not in (1, size[c]) for v, t in (left, right) for c, n in zip(t, ctx.vshape(v), strict=True)):
        raise ShapeError(f"operands of {list(ctx.vshape(a))} ({la}) and {list(ctx.vshape(b))} ({lb}) differ in size")
    if any(size[c] != n for v, t in (left, right) for c, n in zip(t, ctx.vshape(v), strict=True)):
        raise NotMappedError("Einsum that broadcasts a dim of one")
    batch = [c for c in la if c in lb and c in kept]
    inner = [c for c in la if c in lb and c not in kept]
    rows, columns = [c for c in la if c not in lb], [c for c in lb if c not in la]
    if not inner:
        return _outer(ctx, left, right, [*batch, *rows, *columns])
    a = ctx.permute(a, [la.index(c) for c in [*batch, *rows, *inner]])
    b = ctx.permute(b, [lb.index(c) for c in [*batch, *inner, *columns]])
    outer = tuple(size[c] for c in batch)
    m, k, n = (prod(size[c] for c in group) for group in (rows, inner, columns))
    result = ctx.emit("matmul", ctx.reshape(a, (*outer, m, k)), ctx.reshape(b, (*outer, k, n)))
    letters = "".join([*batch, *rows, *columns])
    return ctx.reshape(result, tuple(size[c] for c in letters) or (1,)), letters


def _outer(ctx: Lowering, left: tuple[str, str], right: tuple[str, str], letters: list[str]) -> tuple[str, str]:
    """Nothing is summed: an elementwise product of operands with the same dims, ones where one has none."""
    spread = []
    for x, own in (left, right):
        ordered = ctx.permute(x, [own.index(c) for c in letters if c in own])
        sizes = iter(ctx.vshape(ordered))
        spread.append(ctx.reshape(ordered, tuple(next(sizes) if c in own else 1 for c in letters)))
    return ctx.emit("multiply", *spread), "".join(letters)


OPS: dict[str, NodeMapping] = {"MatMul": matmul, "Gemm": gemm, "Einsum": einsum}
