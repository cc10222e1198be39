"""Random tile DAGs through the kernel compiler and its witnesses; DST slots against an exhaustive search; times.

    python benchmarks/tile_dags.py [--count 500] [--execute 100] [--small 400] [--tight 100] [--spills 20]

Every DAG (1 to 20 ops, fan-out, several results, FPU and SFPU ops, blocks up to 9x7 tiles, 4 or 8 slots) is compiled
and run: `--execute` of them as C++, the rest in the interpreter. Bit for bit, the interpreter equals the meaning
rounded op by op, and the C++ equals the interpreter. Small DAGs (up to 6 values) are compared with the fewest slots
that any order, form, copy and reload can do. Exits 1 on a mismatch, a refusal that no exhaustive search confirms, fewer
than 95 % optima, or a compile time above its limit.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from optimizer.errors import InfeasibleError, TtoptError
from optimizer.kernels.tensix.dialect import SPILL
from optimizer.kernels.tensix.dst.dag import TileDag, renumbered, sub_dag, usable_forms
from optimizer.kernels.tensix.dst.plan import Relief, one_stage_plans, plan_body
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import TileCase, case_program, compile_case, read_cases
from optimizer.kernels.tensix.tile_forms import Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.witness.whole_tensors import Witnessed, witness

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "kernels" / "tensix"))
from sample_kernels import ROWS  # noqa: E402 - the kernels are the tests'
from test_cases import BODIES  # noqa: E402 - and so are the well-known bodies

KINDS = ("add", "sub", "mul", "max", "min", "where", "abs", "relu", "sigmoid", "tanh", "neg", "square")
ROOMY = KernelOptions(l1_bytes=1 << 26)
"""Blocks of 9 x 7 tiles in seven buffers of f32 are more than a core has L1; what they compute is compared anyway."""
LARGE, LARGE_SECONDS = 200, 2.0
"""Ops of the large regions that are timed, and what they may take."""
MEDIAN_SECONDS = 0.05
"""What half of the random regions may take to compile at most. Times are of the processor, plan and record included."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--execute", type=int, default=100, help="how many run as C++")
    parser.add_argument("--small", type=int, default=400, help="DAGs compared with the exhaustive search")
    parser.add_argument("--tight", type=int, default=100, help="DAGs with fewer slots than some ops need")
    parser.add_argument("--spills", type=int, default=20, help="DAGs that spill for lack of L1")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    generator = random.Random(args.seed)
    failures = [*run_known(), *run_random(args.count, args.execute, generator), *run_small(args.small, generator)]
    failures += [*run_tight(args.tight, generator), *run_spills(args.spills, 5, generator), *run_large(generator)]
    failures += run_costs(random.Random(args.seed))
    for line in failures:
        print(f"FAILED {line}")
    return 1 if failures else 0


def record(generator: random.Random, name: str, ops: int, block: tuple[int, int]) -> dict[str, Any]:
    """A random case. Recent values are read more often, so that chains and fan-out both occur."""
    inputs = [f"i{k}" for k in range(generator.randint(1, 4))]
    names, nodes = list(inputs), []
    for n in range(ops):
        kind = generator.choice(KINDS)
        pool = names[-5:] if generator.random() < 0.7 else names
        nodes.append(
            {"name": f"v{n}", "op": kind, "args": [generator.choice(pool) for _ in range(TILE_OPS[kind].arity)]}
        )
        names.append(f"v{n}")
    results = [names[-1], *(generator.choice(names) for _ in range(generator.randint(0, 2)))]
    return {
        "id": name,
        "inputs": inputs,
        "outputs": [f"o{k}" for k in range(len(results))],
        "ops": nodes,
        "yield": results,
        "block": list(block),
        "dtype": generator.choice(["bf16", "f32"]),
        "capacity": generator.choice([4, 8]),
    }


def run_random(count: int, execute: int, generator: random.Random) -> list[str]:
    executed = set(generator.sample(range(count), min(execute, count)))
    failures, seconds = [], []
    compared = 0
    for n in range(count):
        block = (generator.randint(1, 9), generator.randint(1, 7))
        made = record(generator, f"random-{n}", generator.randint(1, 20), block)
        case = read_cases({"cases": [made]})[0]
        started = time.process_time()
        error = compile_case(case, ROOMY).record["error"]
        seconds.append(time.process_time() - started)
        if error is not None:
            failures.append(f"{case.id}: {error}: {made}")
            continue
        try:
            found = witness(case_program(case), ROOMY, n, execute_cpp=n in executed)
        except TtoptError as refused:
            failures.append(f"{case.id}: {refused}: {made}")
            continue
        compared += found.elements if found.executed is not None else 0
        if found.interpreter or not found.agrees:
            failures.append(f"{case.id}: {_told(found)}: {made}")
    print(f"{count} random DAGs, {len(executed)} executed as C++: {len(failures)} failures")
    print(f"{compared} elements of the C++ equal the interpreter's bit for bit: {not failures}")
    print(f"compile time: median {statistics.median(seconds) * 1e3:.1f} ms, most {max(seconds) * 1e3:.0f} ms")
    if statistics.median(seconds) > MEDIAN_SECONDS:
        failures.append(f"half of the regions take more than {MEDIAN_SECONDS} s to compile")
    return failures


def _told(found: Witnessed) -> str:
    counts = (
        f"{found.interpreter} of the interpreter, {found.beyond} beyond the error bound, {found.executed} of the C++"
    )
    return f"of {found.elements} elements differ {counts}"


def run_known() -> list[str]:
    """The design document's cases and the rows of networks as C++."""
    document = json.loads((ROOT / "fixtures" / "kernels" / "tile_cases.json").read_text(encoding="utf-8"))
    programs = {case.id: case_program(case) for case in read_cases(document)} | {n: make() for n, make in ROWS.items()}
    failures, saved = [], {}
    for name, program in programs.items():
        ran = witness(program, KernelOptions())
        saved[name] = ran.round_trips_saved
        if ran.interpreter or not ran.agrees:
            failures.append(f"{name}: {_told(ran)}")
    print(f"{len(programs)} known kernels as C++: {len(failures)} failures")
    print("round trips through L1 saved: " + ", ".join(f"{name} {saved[name]}" for name in ROWS))
    return failures


def run_tight(count: int, generator: random.Random) -> list[str]:
    """DAGs with 1 to 3 slots: refused exactly if the exhaustive search finds an op that does not fit alone."""
    failures, refused = [], 0
    for n in range(count):
        made = record(generator, f"tight-{n}", generator.randint(1, 12), (2, 3))
        made["capacity"] = generator.randint(1, 3)
        case = read_cases({"cases": [made]})[0]
        dag = renumbered(case.dag)[0]
        alone = [fewest_slots(renumbered(sub_dag(dag, [v])[0])[0]) for v in dag.values]
        error = compile_case(case, KernelOptions()).record["error"]
        refused += error is not None
        if (error is not None) != (max(alone) > case.capacity):
            failures.append(f"{case.id}: {error}, ops need up to {max(alone)} of {case.capacity} slots: {made}")
        elif error is None and witness(case_program(case), KernelOptions(), n, execute_cpp=False).interpreter:
            failures.append(f"{case.id}: differs: {made}")
    print(f"{count} DAGs with 1 to 3 slots: {refused} refused, all for an op that needs more: {not failures}")
    return failures


def run_spills(count: int, execute: int, generator: random.Random) -> list[str]:
    """DAGs that fit in no order, with a tile less of L1 than a split takes; `execute` of those that spill as C++."""
    failures: list[str] = []
    found: Counter[str] = Counter()
    while found["spill"] < count:
        made = record(generator, f"spill-{found.total()}", generator.randint(8, 20), (3, generator.randint(1, 7)))
        made["capacity"] = generator.choice([3, 4])
        case = read_cases({"cases": [made]})[0]
        tiles = case.block[0] * case.block[1]
        plan = plan_body(case.dag, tiles, case.capacity)
        if plan.relief is not Relief.SPLIT or not plan.spilled:
            continue
        found["split"] += 1
        own = 2 * tiles * (len(case.inputs) + len(case.outputs))
        options = KernelOptions(l1_bytes=(own + plan.l1_tiles - 1) * case.dtype.tile_bytes)
        stages: dict[str, Op] = {}
        try:
            lower(case_program(case), options, stages.__setitem__)
            ran = witness(case_program(case), options, execute_cpp=found["spill"] < execute)
        except InfeasibleError as error:
            found["refused"] += 1
            if "bytes of L1" not in str(error):
                failures.append(f"{case.id}: {error}: {made}")
            continue
        spills = any(op.name == SPILL for op in walk(stages["assign-dst"]))
        found["spill" if spills else "other split"] += 1
        if ran.interpreter or not ran.agrees:
            failures.append(f"{case.id}: {_told(ran)}: {made}")
    print(f"DAGs that must be split, with less L1 than that takes: {dict(found)}, {len(failures)} failures")
    return failures


def run_small(count: int, generator: random.Random) -> list[str]:
    optimal, worse = 0, []
    for n in range(count):
        made = small_record(generator, n)
        dag = renumbered(read_cases({"cases": [made]})[0].dag)[0]
        least = fewest_slots(dag)
        ours = next(k for k in range(least, 17) if plan_body(dag, 1, k).relief in (Relief.NONE, Relief.REORDER))
        optimal += ours == least
        if ours != least:
            worse.append(
                f"small-{n}: {ours} slots, {least} suffice: {made['ops']} -> {made['yield']} ({made['dtype']})"
            )
    share = optimal / max(1, count)
    print(f"{count} DAGs of up to 6 values: {share:.1%} fit the fewest slots")
    for line in worse[:5]:
        print(f"  {line}")
    return [] if share >= 0.95 else [f"only {share:.1%} of small DAGs are optimal"]


def small_record(generator: random.Random, n: int) -> dict[str, Any]:
    """A case of at most 6 values, inputs included."""
    inputs = [f"i{k}" for k in range(generator.randint(1, 3))]
    names, nodes = list(inputs), []
    for k in range(generator.randint(1, 6 - len(inputs))):
        kind = generator.choice(KINDS)
        args = [generator.choice(names) for _ in range(TILE_OPS[kind].arity)]
        nodes.append({"name": f"v{k}", "op": kind, "args": args})
        names.append(f"v{k}")
    results = [names[-1], *(generator.choice(names) for _ in range(generator.randint(0, 2)))]
    outputs = [f"o{k}" for k in range(len(results))]
    dtype = generator.choice(["bf16", "f32"])
    return {"id": f"small-{n}", "inputs": inputs, "outputs": outputs, "ops": nodes, "yield": results, "dtype": dtype}


def fewest_slots(dag: TileDag) -> int:
    """The least number of slots with which some sequence of loads, copies and ops ends with all results in DST."""
    return next(k for k in range(1, 17) if reachable(dag, k))


def reachable(dag: TileDag, slots: int) -> bool:
    """Search over (nodes that have run, values in DST); each node runs once."""
    start: tuple[int, tuple[int, ...]] = (0, ())
    seen, pending = {start}, [start]
    everything = (1 << len(dag.nodes)) - 1
    while pending:
        done, held = pending.pop()
        if done == everything and all(y in held for y in dag.yields):
            return True
        for state in moves(dag, done, held, slots):
            if state not in seen:
                seen.add(state)
                pending.append(state)
    return False


def moves(dag: TileDag, done: int, held: tuple[int, ...], slots: int) -> list[tuple[int, tuple[int, ...]]]:
    """Everything that may happen next."""
    found = [(done, tuple(sorted((*held[:k], *held[k + 1 :])))) for k in range(len(held))]
    room = len(held) < slots
    if room:
        found += [(done, tuple(sorted((*held, v)))) for v in {*range(dag.inputs), *held}]
    for n, node in enumerate(dag.nodes):
        if done >> n & 1:
            continue
        value = dag.inputs + n
        for index in usable_forms(dag, value):
            form = node.definition.forms[index]
            needed = [a for a, place in zip(node.args, form.places, strict=True) if place is Place.DST]
            if any(a not in held for a in needed):
                continue
            victims = [node.args[form.in_place]] if form.in_place is not None else sorted(set(needed))
            for victim in victims:
                rest = list(held)
                rest.remove(victim)
                found.append((done | 1 << n, tuple(sorted((*rest, value)))))
            if form.in_place is None and room:
                found.append((done | 1 << n, tuple(sorted((*held, value)))))
    return found


def run_costs(generator: random.Random) -> list[str]:
    """The plan chosen against the one of fewest sections: the document's cases, well-known bodies, random ones."""
    document = json.loads((ROOT / "fixtures" / "kernels" / "tile_cases.json").read_text(encoding="utf-8"))
    cases = [*read_cases(document), *map(well_known, BODIES)]
    for n in range(44):
        block = (generator.randint(1, 5), generator.randint(1, 5))
        cases += read_cases({"cases": [record(generator, f"cost-{n}", generator.randint(1, 8), block)]})
    saved: list[tuple[float, str]] = []
    failures: list[str] = []
    for case in cases:
        dag, tiles = renumbered(case.dag)[0], case.block[0] * case.block[1]
        plans = one_stage_plans(dag, tiles, case.capacity)
        if not plans:
            continue
        fewest = min(plans, key=lambda p: (p.sections, p.max_dst if tiles == 1 else 0, p.cost))
        chosen = plan_body(case.dag, tiles, case.capacity)
        cheapest = min(plan.cost for plan in plans)
        if chosen.cost > cheapest:
            failures.append(f"{case.id}: the plan costs {chosen.cost}, another {cheapest}")
        if chosen.cost < fewest.cost:
            saved.append((1 - chosen.cost / fewest.cost, case.id))
    told = ", ".join(f"{name} {share:.0%}" for share, name in sorted(saved, reverse=True))
    print(f"{len(cases)} bodies: {len(saved)} cost less than with the fewest sections: {told}")
    print(f"of which another plan is cheaper than the one chosen: {len(failures)}")
    return failures


def well_known(name: str) -> TileCase:
    """A body of the tests as a case."""
    inputs, ops, block, dtype, capacity = BODIES[name]
    nodes = [{"name": v, "op": op, "args": args.split()} for v, op, args in ops]
    made = {"id": name, "inputs": inputs, "outputs": ["o"], "ops": nodes, "yield": ["r"], "block": list(block)}
    return read_cases({"cases": [{**made, "dtype": dtype, "capacity": capacity}]})[0]


def large_record(generator: random.Random, n: int) -> dict[str, Any]:
    """A case of `LARGE` ops that all count: what nobody reads is added up at the end."""
    inputs = [f"i{k}" for k in range(4)]
    names, nodes = list(inputs), []
    unread: list[str] = []

    def add(kind: str, args: list[str]) -> None:
        name = f"v{len(nodes)}"
        nodes.append({"name": name, "op": kind, "args": args})
        unread[:] = [v for v in unread if v not in args] + [name]
        names.append(name)

    while len(nodes) + len(unread) <= LARGE:
        kind = generator.choice(KINDS)
        first = generator.choice(unread) if unread and generator.random() < 0.5 else generator.choice(names[-8:])
        add(kind, [first, *(generator.choice(names[-8:]) for _ in range(TILE_OPS[kind].arity - 1))])
    while len(unread) > 1:
        add("max", unread[:2])
    case = {"id": f"large-{n}", "inputs": inputs, "outputs": ["o"], "ops": nodes, "yield": [names[-1]], "block": [2, 2]}
    return {**case, "dtype": ("bf16", "f32", "bf16")[n % 3], "capacity": (8, 4, 4)[n % 3]}


def run_large(generator: random.Random) -> list[str]:
    """Regions of many ops: that they compile in time and compute what they say."""
    failures = []
    for n in range(3):
        case = read_cases({"cases": [large_record(generator, n)]})[0]
        live = len(renumbered(case.dag)[0].nodes)
        started = time.process_time()
        record = compile_case(case, KernelOptions()).record
        seconds = time.process_time() - started
        error = record["error"]
        agrees = error is None and witness(case_program(case), KernelOptions(), n, execute_cpp=False).interpreter == 0
        outcome = "agrees" if agrees else error or "differs"
        print(f"{live} ops, {case.capacity} slots: {seconds:.2f} s, {record['spills']} values through L1, {outcome}")
        if not agrees:
            failures.append(f"large-{n}: {error or 'differs'}")
        if seconds > LARGE_SECONDS:
            failures.append(f"large-{n}: compiled in {seconds:.2f} s")
    return failures


if __name__ == "__main__":
    sys.exit(main())
