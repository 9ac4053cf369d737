"""Functions of the programs in this folder, inputs as on the command line, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Oracle = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One call. peer: the program is valid for IREE as it stands and means the same there; loose: relative error."""

    program: str
    function: str
    inputs: tuple[str, ...]
    oracle: Oracle
    peer: bool = True
    loose: float = 0

    def __str__(self) -> str:
        sizes = [text.partition("=")[0] if "=" in text else text for text in self.inputs]
        return f"{self.program}-{self.function}-{'-'.join(sizes) or 'nothing'}"


def values(kind: str, shape: Sequence[int], seed: int = 0) -> str:
    """A tensor of small numbers that every element type holds exactly."""
    rng = np.random.default_rng(seed)
    low = 0 if kind == "i1" else -8
    numbers = rng.integers(low, 2 if kind == "i1" else 9, int(np.prod(shape)))
    words = [f"{n:02x}" for n in numbers] if kind == "i1" else [str(n) for n in numbers]
    size = "x".join([*(str(d) for d in shape), kind])
    return f"{size}={' '.join(words)}" if len(words) else size


def halves(seed: int, *shape: int) -> str:
    return values("f32", shape, seed)


def mixed(a: Any, b: Any) -> Any:
    return (a * b + b) * (a * b)


def counting(*shape: int) -> Any:
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def full(value: int) -> Oracle:
    return lambda size: np.full(int(size), value, np.int32)


def int_mix(a: Any, b: Any) -> Any:
    return np.maximum((a * a.dtype.type(3) + b) ^ a, b)


def spilled(*given: Any) -> Any:
    numbers = [float(v) for v in given]
    return np.array([abs(numbers[0]), *numbers[1:], numbers[4]])


F32, SIZES = "f32", (0, 1, 63, 64, 65, 200)
CASES: list[Case] = []


def case(program: str, function: str, oracle: Oracle, *inputs: str, peer: bool = True, loose: float = 0) -> None:
    CASES.append(Case(program, function, inputs, oracle, peer, loose))


for n in SIZES:
    pair = halves(1, n), halves(2, n)
    case("layout_sets", "main", mixed, *pair, peer=False)
    case("layout_flat", "main", lambda a, b: a - b, *pair)
    case("binding_order", "swapped", lambda a, b: b - a, *pair, peer=False)
    case("binding_order", "by_export", lambda a, b: b - a, *pair, peer=False)
    case("binding_order", "by_name", lambda a, b: a - b, *pair, peer=False)
    case("calls", "mul", lambda a, b: a * b, *pair)
case("calls", "odd_columns", lambda a: a[:, 1::2].T, halves(3, 4, 6))
case(
    "calls", "results", lambda i, j, x, y: np.array([i + 1, j + (1 << 40), x / 2, y / 2, 42.0]),
    "5", "-6", "7.5", "9.25",
)  # fmt: skip
case("calls", "tail", lambda a, b: np.concatenate([b[:4], a[4:] * b[4:]]), halves(4, 8), halves(5, 8))

# The peer's runner reads f16 and bf16 scalars as integers.
case("scalars", "spill", spilled, "1", "-3", "-300", "-70000", "9000000000", "1.5", "2.5", "3.25", "4.125", peer=False)
# The peer passes narrow integers to C without extending them.
for narrow, peer in ((("3", "300"), True), (("-3", "-300"), False)):
    case(
        "scalars", "through_c", lambda *given: np.array([*(float(v) for v in given), float(given[3])]),
        *narrow, "-70000", "9000000000", "3.25", "4.125", peer=peer,
    )  # fmt: skip
case("scalars", "host", lambda i, j, x: (3 * i, j + 3 * i, x / 2, min(i, 3)), "2", "9000000000", "3.25")

case("grids", "ids2", lambda a: counting(*a.shape), "2x3xi32")
case("grids", "ids2", lambda a: counting(*a.shape), "0x3xi32")
case("grids", "ids2", lambda a: counting(*a.shape), "70x33xi32")
case("grids", "ids3", lambda d, h, w: counting(int(d), int(h), int(w)), "2", "3", "4")
case("grids", "ids3", lambda d, h, w: counting(int(d), int(h), int(w)), "5", "0", "4")

case("tensors", "chain", lambda a, b: np.maximum(-(np.exp(a * b) + a), b), halves(6, 3, 5), "3x5xf32=0.25", loose=1e-6)
for kind in ("f16", "bf16", "f64"):
    pair = values(kind, (5,)), values(kind, (5,), 1)
    case("tensors", f"float_{kind}", lambda a, b: a * a.dtype.type(0.5) + b - a, *pair)
for kind in ("i8", "i16", "i64"):
    case("tensors", f"int_{kind}", int_mix, values(kind, (5,)), values(kind, (5,), 1))
case("tensors", "less", lambda a, b: a < b, halves(7, 6), halves(8, 6))
case("tensors", "both", lambda a, b: ~(a & b), values("i1", (4,)), values("i1", (4,), 3))
case("tensors", "choose", np.where, values("i1", (4,), 5), values("i32", (4,)), values("i32", (4,), 1))
case("tensors", "relu", lambda a: np.maximum(a, 0), halves(9, 6))
case("tensors", "casts", lambda a: (a.astype("f8"), a.astype("i8"), a.astype("f2")), values("i8", (4,)))
case("tensors", "point", lambda a, b: a + b, "f32=1.5", "f32=2")
case("tensors", "deep", lambda a: a * a, halves(10, 2, 1, 3, 2))
case("tensors", "weights", lambda a: a + np.arange(1, 7, dtype="f4").reshape(2, 3), halves(11, 2, 3))
case("tensors", "fixed", lambda: np.array([1, 2, 3], "i4"))
case("tensors", "filled", lambda: np.full(3, 7, "i4"))
case("tensors", "same", lambda a: a, halves(12, 3))
case("tensors", "unused", lambda a, b, c: a + a, halves(13, 3), halves(14, 2), "4")
case("tensors", "twice_returned", lambda a: (a + a, a + a), halves(15, 3))
case("tensors", "splat_operand", lambda a: (np.sqrt(np.abs(a)), len(a)), halves(16, 9))
case("tensors", "splat_operand", lambda a: (np.sqrt(np.abs(a)), len(a)), "0xf32")

for n in (0, 1, 100):
    a, b = halves(17, n), halves(18, n)
    case("ties", "of_argument", lambda a: 2 * a, a)
    case("ties", "needed_again", lambda a: (4 * a, 2 * a), a)
    case("ties", "beside", lambda a, b: (a + b, a), a, b)
    case("ties", "three_times", lambda a: 8 * a, a)
    case("functions", "plain", lambda a: -(a + 1), a)
    case("functions", "helped", lambda a, s: (((a + 1) ** 2 + 1) ** 2, 4 * s), a, "1.5")
    case("functions", "util_helped", lambda a: a + a, a)

for size in ("0", "3", "130"):
    case("conditions", "main", full(3), size)
    case("entry_points", "main", full(5), size)
    case("queries", "main", full(1), size)
    case("queries", "special", full(1), size, peer=False)
    case("queries", "usual", full(3), size, peer=False)
case("derived", "open", lambda a, b: np.array([a, b]), "-7", "-9000000000", peer=False)
case("derived", "words", lambda a, b: np.array([a, b]), "9000000000", "-9000000000", peer=False)
case("derived", "narrow", lambda n: np.array([n]), "4000000000", peer=False)
case("keys", "main", lambda x: np.array(x + 1, np.int32), "41")
case("constants", "main", lambda: np.array([42, 1, 7], np.int32), peer=False)
case("targets", "main", lambda x: np.array(2 * x, np.int32), "-21", peer=False)
case("half", "f16", lambda a: (a.astype("f4") / np.float32(3)).astype("f2"), values("f16", (70,), 2))
case("half", "bf16", lambda a: np.array([1.234375, -8.25, 0, 3.390625]), "4xf32=1.2345 -8.25 0 3.3939")
case("edges", "retyped", lambda a: 2 * a.reshape(2, 2), halves(20, 4))
case("edges", "of_constant", lambda: (np.arange(2, 9, 2, dtype="f4"), np.arange(1, 5, dtype="f4")))
case("edges", "twice", lambda a: 4 * a, halves(21, 4))
case("edges", "limits", lambda a: np.where(a >= 0, np.inf, -np.inf).astype("f4"), halves(22, 4))
case("edges", "indices", lambda a: 2 * a.astype("i8"), values("i32", (4,), 3))
case("edges", "scalars", lambda a, b, c: (not a, -b, np.int8(2 * c)), "1", "2.5", "-3", peer=False)
case("edges", "nothing", lambda: ())
