"""Random programs on every device and code level at hand, compared with NumPy and so with each other.

Programs come from the generators of tests/ops and tests/conformance, with random operations, shapes,
element types and static or dynamic sizes. A program that a target says it cannot compile is counted as refused; a wrong
element, another exception or a dead process is a finding, named with the seed that makes it again.

    python tests/reliability/differential.py [--seconds 60 | --count N] [--seed S] [--targets NAME,NAME]
    python tests/reliability/differential.py --seed S --count 1      one program again, its text on a finding

The last line is one JSON object, as run.py reads it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "ops"), str(ROOT / "tests" / "conformance")]

import affine  # noqa: E402
import contractions  # noqa: E402
import convolutions  # noqa: E402
import generics  # noqa: E402
import moves  # noqa: E402
import numpy as np  # noqa: E402
import random_blocks  # noqa: E402
import random_programs  # noqa: E402
from harness import INTEGERS, LENGTHS, Body, close  # noqa: E402

import pydispatch as pd  # noqa: E402
from pydispatch import ir  # noqa: E402

FLOATS = ("f32", "f64", "f16", "bf16")
ELEMENTS = ("i1", "i8", "i16", "i32", "i64", "index", *FLOATS)
SIZES = ("static", "dynamic", "mixed")
EQUATIONS = (
    "mk,kn->mn",
    "km,nk->nm",
    "bmk,bnk->bmn",
    "mbk,bkn->mbn",
    "k,kn->n",
    "m,n->mn",
    "mkj,jkn->mn",
    "bk,bk->b",
    "k,k->",
)


class Case(NamedTuple):
    """A program of one function `f0`, its arguments, and what it has to return: array, rtol, atol (both 0: equal)."""

    text: str
    arguments: list[Any]
    wanted: list[tuple[Any, float, float]]


class Target(NamedTuple):
    """How a program is compiled, and where it runs."""

    device: str
    options: dict[str, Any]


def targets() -> dict[str, Target]:
    """Everything that runs here: the CPU by code levels, Vulkan, and the interpreter of PTX."""
    own = str(pd.device("cpu").describe()["level"])
    levels = ["generic", "native"]
    if own.startswith("x86-64-v"):
        levels[1:1] = [f"x86-64-v{n}" for n in range(2, int(own[-1]) + 1)]
    found = {f"cpu {level}": Target("cpu?workers=2", {"cpu": level}) for level in levels}
    found["vulkan"] = Target("vulkan:0", {"targets": "vulkan"})
    found["ptx-interpreter"] = Target("ptx-interpreter", {"targets": "cuda"})
    return found


def of_body(body: Body) -> Case:
    wanted = [(expected, rtol, atol) for _, expected, rtol, atol in body.wanted]
    return Case(body.function("f0"), [array for _, array in body.inputs], wanted)


# ---- generators: a random number generator to a case


def shape(rng: random.Random, least: int, most: int, limit: int = 20_000) -> list[int]:
    """Sizes whose product is at most `limit`."""
    while True:
        sizes = [rng.choice(LENGTHS) for _ in range(rng.randint(least, most))]
        if np.prod(sizes, dtype=np.int64) <= limit:
            return sizes


def new_body(rng: random.Random) -> Body:
    return Body(rng.choice(SIZES), seed=rng.randrange(1 << 30), constants=rng.choice([0.0, 0.0, 0.3]))


def elementwise(rng: random.Random) -> Case:
    body = new_body(rng)
    generics.elementwise(body, rng.choice([*generics.UNARY, *generics.BINARY]), shape(rng, 0, 3), rng.choice(FLOATS))
    return of_body(body)


def reduction(rng: random.Random) -> Case:
    body, op, sizes = new_body(rng), rng.choice([*generics.REDUCTIONS]), shape(rng, 1, 4)
    floats = op.endswith("f") and not op.endswith("xorif")
    axes = sorted(rng.sample(range(len(sizes)), rng.randint(1, len(sizes))))
    sizes = [min(n, 3) for n in sizes] if op == "arith.mulf" else sizes
    generics.reduction(body, op, sizes, axes, rng.choice(("f32", "f64") if floats else INTEGERS))
    return of_body(body)


def rows(rng: random.Random) -> Case:
    body, kind = new_body(rng), rng.randrange(3)
    if kind == 0:
        sizes = shape(rng, 1, 3)
        axis = rng.randrange(len(sizes))
        sizes[axis] = max(1, sizes[axis])
        generics.softmax(body, sizes, axis, rng.choice(FLOATS))
    elif kind == 1:
        generics.layer_norm(body, rng.choice(LENGTHS), rng.choice([n for n in LENGTHS if n > 1]))
    else:
        lengths = [n for n in LENGTHS if n <= 33]
        keys = rng.choice(lengths[1:])
        generics.attention(body, rng.choice([1, 2, 3]), rng.choice(lengths), keys, rng.choice(lengths))
    return of_body(body)


def contraction(rng: random.Random) -> Case:
    body, kind = new_body(rng), rng.randrange(3)
    m, n, k = (rng.choice([n for n in LENGTHS if n <= 33]) for _ in range(3))
    if kind == 0:
        sizes = {"m": m, "n": n, "k": k, "b": rng.choice([0, 1, 2, 3])}
        contractions.named(
            body, rng.choice([*contractions.NAMED]), sizes, *rng.choice(contractions.TYPES), rng.random() < 0.5
        )
    elif kind == 1:
        equation = rng.choice(EQUATIONS)
        order = sorted(set(equation) & set("mnkbj"))
        rng.shuffle(order)
        sizes = {"m": m, "n": n, "k": k, "b": rng.choice([1, 2, 3]), "j": rng.choice([1, 2, 5])}
        contractions.generic(body, equation, sizes, *rng.choice(contractions.TYPES), order)
    else:
        zeros = rng.randint(-128, 127), rng.randint(-128, 127)
        contractions.quantized(body, m, k, n, zeros, rng.choice([None, 1, 3]))
    return of_body(body)


def convolution(rng: random.Random) -> Case:
    body = new_body(rng)
    sizes = {d: rng.choice([1, 2, 3]) for d in "ncgmXYZ"} | {d: rng.choice([1, 2, 3, 7]) for d in "xyz"}
    sizes["f"] = rng.choice([1, 2, 5, 16, 17])
    steps, gaps = ([rng.choice([1, 2, 3]) for _ in range(3)] for _ in range(2))
    room = rng.choice([0, 0, 1, 3])
    if rng.random() < 0.5:
        if rng.random() < 0.2:
            sizes[rng.choice("ncxf")] = 0
        types = rng.choice(convolutions.TYPES)
        convolutions.convolution(
            body, rng.choice([*convolutions.NAMED]), sizes, steps, gaps, *types, rng.random() < 0.5, room
        )
    else:
        kind = rng.choice(["sum", "max", "min", "max_unsigned", "min_unsigned"])
        elements = INTEGERS if kind.endswith("unsigned") else ("f32", "i32", "i8", "f16", "bf16", "f64", "i64")
        layout = rng.choice([*convolutions.POOLED])
        convolutions.pooling(body, layout, kind, sizes, steps, gaps, rng.choice(elements), room)
    return of_body(body)


def maps(rng: random.Random) -> Case:
    """Any affine maps, in half of the programs with something after."""
    body = new_body(rng)
    pair = affine.any_generic(body, rng)
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        pair = rng.choice([affine.biased, *moves.MOVES])(body, pair, rng)
    body.expect(*pair)
    return of_body(body)


def chain(rng: random.Random) -> Case:
    """Moves of elements, each of whose values may be a result, too."""
    body, element = new_body(rng), rng.choice(ELEMENTS)
    sizes = [rng.choice([n for n in LENGTHS if n <= 17]) for _ in range(rng.randint(1, 3))]
    pair = body.numbers(sizes, element, 0, 2 if element == "i1" else 50)
    for _ in range(rng.randint(1, 7)):
        pair = rng.choice(moves.MOVES)(body, pair, rng)
        if pair[1].size > 100_000:
            break
        if rng.random() < 0.3:
            body.expect(*pair)
    body.expect(*pair)
    return of_body(body)


def fused(rng: random.Random) -> Case:
    """Programs of many operations over one element type, whatever is fused in them."""
    element = rng.choice(list(random_programs.TYPES))
    program = random_programs.Program(rng.randrange(1 << 30), dynamic=rng.random() < 0.5, element=element)
    program.grow()
    text = program.text().replace("@f(", "@f0(")
    return Case(text, [array for _, _, array in program.inputs], [(array, 0.0, 0.0) for _, _, array in program.results])


def network(rng: random.Random) -> Case:
    """Norms, softmax, attention, products and convolutions in any order, as frontends write them."""
    made = random_blocks.Network(rng.randrange(1 << 30), dynamic=rng.random() < 0.5)
    made.grow()
    module, arguments, results = made.finish("f0")
    bound = random_blocks.TOLERANCE
    return Case(ir.print_module(module), arguments, [(r, 0.0, bound * max(1.0, np.abs(r).max())) for r in results])


GENERATORS: tuple[Callable[[random.Random], Case], ...] = (
    elementwise, reduction, rows, contraction, convolution, maps, maps, maps, chain, chain, fused, fused, network,
    network,
)  # fmt: skip


# ---- running


def run_one(case: Case, target: Target, devices: dict[str, Any]) -> str:
    """Empty when everything was right, "refused: …" when the target cannot compile it, else what went wrong."""
    try:
        artifact = pd.compile(case.text, **target.options)
    except pd.CompileError as error:
        return f"refused: {str(error).splitlines()[0]}"
    if target.device not in devices:
        devices[target.device] = pd.device(target.device)
    with devices[target.device].load(artifact) as program:
        found = program["f0"](*case.arguments)
        found = found if isinstance(found, (tuple, list)) else [found]
        for i, ((expected, rtol, atol), got) in enumerate(zip(case.wanted, found, strict=True)):
            got = np.asarray(got)
            if got.shape != expected.shape:
                return f"result {i} is {got.shape}, expected {expected.shape}"
            try:
                if rtol or atol:
                    close(got, expected, rtol, atol, f"result {i}")
                else:
                    np.testing.assert_array_equal(got, expected, err_msg=f"result {i}")
            except AssertionError as error:
                return str(error)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, help="so many programs, however long they take")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000, help="of the first program")
    parser.add_argument("--targets", help="names from the table, with commas")
    args = parser.parse_args()
    chosen = {n: t for n, t in targets().items() if not args.targets or n in args.targets.split(",")}
    if not chosen:
        parser.error(f"no such target; there are: {', '.join(targets())}")
    ran, refused, findings, seconds = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    devices: dict[str, Any] = {}
    end = time.monotonic() + args.seconds
    seed = args.seed
    print(f"first seed {seed}", flush=True)
    while seed < args.seed + args.count if args.count else time.monotonic() < end:
        rng = random.Random(seed)
        case = rng.choice(GENERATORS)(rng)
        for name, target in chosen.items():
            start = time.monotonic()
            try:
                result = run_one(case, target, devices)
            except Exception as error:  # everything but what run_one expects is a finding
                result = f"{type(error).__name__}: {error}"
            seconds[name] += time.monotonic() - start
            ran[name] += not result.startswith("refused: ")
            refused[name] += result.startswith("refused: ")
            if result and not result.startswith("refused: "):
                findings[name] += 1
                print(f"FINDING {name}, --seed {seed} --count 1:\n{result}\n{case.text}", file=sys.stderr, flush=True)
            elif result and args.count == 1:
                print(f"{name}: {result}")
        seed += 1
    for name in chosen:
        print(f"{name:16} {ran[name]:7} run, {refused[name]} refused, {findings[name]} findings, {seconds[name]:.0f} s")
    rows = [
        {"name": f"differential {name}", "executions": ran[name], "findings": findings[name], "new": 0,
         "coverage": f"seeds {args.seed} to {seed - 1}, {refused[name]} refused"}
        for name in chosen
    ]  # fmt: skip
    print(json.dumps({"rows": rows}))
    return 1 if sum(findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
