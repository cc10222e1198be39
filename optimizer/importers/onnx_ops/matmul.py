"""MatMul, Gemm, Einsum."""

from __future__ import annotations

from math import prod

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError


def matmul(ctx: Lowering) -> str:
    return product(ctx, ctx.x(0), ctx.x(1), len(ctx.shape(0)), len(ctx.shape(1)))


def product(ctx: Lowering, a: str, b: str, a_rank: int, b_rank: int) -> str:
    """Numpy's matmul: a vector operand gets a dim of one, which the caller's shape check drops again."""
    if a_rank == 1:
        a = ctx.reshape(a, (1, *ctx.vshape(a)))
    if b_rank == 1:
        b = ctx.reshape(b, (*ctx.vshape(b), 1))
    return ctx.emit("matmul", a, b)


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
    if alpha == 1.0 and has_bias and beta == 1.0 and _is_row(ctx.shape(2), ctx.out_shape()):
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


def _is_row(bias: tuple[int, ...], out: tuple[int, ...]) -> bool:
    return bool(bias) and bias[-1] == out[-1] and prod(bias[:-1]) == 1


def einsum(ctx: Lowering) -> str:
    """One or two operands without ellipsis or repeated indices: permutes, one matmul, reshapes."""
    equation = str(ctx.attr("equation")).replace(" ", "")
    if "." in equation:
        raise NotMappedError("Einsum with an ellipsis")
    left, _, output = equation.partition("->")
    terms = left.split(",")
    if "->" not in equation:
        letters = "".join(terms)
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(terms) > 2 or any(len(set(t)) != len(t) for t in terms):
        raise NotMappedError(f"Einsum '{equation}'")
    operands = [_sum_out(ctx, ctx.x(i), t, set(output) | set("".join(terms[:i] + terms[i + 1 :])))
                for i, t in enumerate(terms)]  # fmt: skip
    if len(operands) == 1:
        x, letters = operands[0]
        return ctx.permute(x, [letters.index(c) for c in output])
    return _contract(ctx, operands[0], operands[1], output)


def _sum_out(ctx: Lowering, x: str, letters: str, needed: set[str]) -> tuple[str, str]:
    axes = tuple(i for i, c in enumerate(letters) if c not in needed)
    if not axes:
        return x, letters
    kept = "".join(c for c in letters if c in needed)
    return ctx.emit("sum", x, dim=axes, keepdim=False), kept


def _contract(ctx: Lowering, left: tuple[str, str], right: tuple[str, str], output: str) -> str:
    (a, la), (b, lb) = left, right
    size = {**dict(zip(la, ctx.vshape(a), strict=True)), **dict(zip(lb, ctx.vshape(b), strict=True))}
    batch = [c for c in la if c in lb and c in output]
    inner = [c for c in la if c in lb and c not in output]
    rows, columns = [c for c in la if c not in lb], [c for c in lb if c not in la]
    a = ctx.permute(a, [la.index(c) for c in [*batch, *rows, *inner]])
    b = ctx.permute(b, [lb.index(c) for c in [*batch, *inner, *columns]])
    outer = tuple(size[c] for c in batch)
    m, k, n = (prod(size[c] for c in group) for group in (rows, inner, columns))
    result = ctx.emit("matmul", ctx.reshape(a, (*outer, m, k)), ctx.reshape(b, (*outer, k, n)))
    result = ctx.reshape(result, tuple(size[c] for c in [*batch, *rows, *columns]) or (1,))
    letters = "".join([*batch, *rows, *columns])
    return ctx.permute(result, [letters.index(c) for c in output]) if output else result


OPS: dict[str, NodeMapping] = {"MatMul": matmul, "Gemm": gemm, "Einsum": einsum}
