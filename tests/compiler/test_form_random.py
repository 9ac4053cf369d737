"""Random programs over tensors, run and compared with NumPy: whatever is fused, nothing changes."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import pydispatch as pd

Array = NDArray[np.int32]
Sizes = tuple[str, ...]

UNARY: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "double": ("arith.addi {0}, {0}", lambda a: a + a),
    "square": ("arith.muli {0}, {0}", lambda a: a * a),
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.xori": np.bitwise_xor,
}


class Program:
    """A function that grows line by line, with what NumPy makes of it. i32 throughout, so that results are exact."""

    def __init__(self, seed: int, dynamic: bool) -> None:
        self.rng = random.Random(seed)
        self.dynamic = dynamic
        self.size = {"M": self.rng.choice([1, 2, 5, 8, 13]), "N": self.rng.choice([1, 3, 4, 7, 16, 33])}
        self.lines: list[str] = []
        self.values: list[tuple[str, Sizes, Array]] = []
        self.inputs: list[tuple[str, Sizes, Array]] = []
        numbers = np.random.default_rng(seed)
        for name, sizes in (("x", ("M", "N")), ("y", ("M", "N")), ("r", ("N",)), ("c", ("M",))):
            array = numbers.integers(-50, 50, self.shape(sizes), dtype=np.int32)
            self.inputs.append((f"%{name}", sizes, array))
        self.values += self.inputs

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(int(np.prod([self.size[s] for s in n.split("*")])) for n in sizes)

    def type(self, sizes: Sizes) -> str:
        shown = "".join(f"{'?' if self.dynamic else n}x" for n in self.shape(sizes))
        return f"tensor<{shown}i32>"

    def dims(self, sizes: Sizes) -> str:
        return ", ".join("%" + n.replace("*", "") for n in sizes) if self.dynamic else ""

    def pick(self, *wanted: Sizes) -> tuple[str, Sizes, Array]:
        fitting = [v for v in self.values if not wanted or v[1] in wanted]
        return self.rng.choice(fitting[-6:] if self.rng.random() < 0.7 else fitting)

    def give(self, line: str, sizes: Sizes, array: Array) -> None:
        name = f"%v{len(self.values)}"
        self.lines.append(f"{name} = {line}")
        self.values.append((name, sizes, np.asarray(array, np.int32)))

    def empty(self, sizes: Sizes, fill: int | None = None) -> str:
        name = f"%e{len(self.lines)}"
        self.lines.append(f"{name} = tensor.empty({self.dims(sizes)}) : {self.type(sizes)}")
        if fill is None:
            return name
        self.lines.append(f"{name}c = arith.constant {fill} : i32")
        self.lines.append(
            f"{name}f = linalg.fill ins({name}c : i32) outs({name} : {self.type(sizes)}) -> {self.type(sizes)}"
        )
        return f"{name}f"

    def step(self) -> None:
        kinds = [self.unary, self.binary, self.binary, self.binary, self.reduce, self.broadcast, self.transpose,
                 self.slice, self.pad, self.flatten, self.concat, self.insert]  # fmt: skip
        self.rng.choice(kinds)()

    def unary(self) -> None:
        a, sizes, array = self.pick()
        text, fn = self.rng.choice(list(UNARY.values()))
        self.give(f"{text.format(a)} : {self.type(sizes)}", sizes, fn(array))

    def binary(self) -> None:
        a, sizes, left = self.pick()
        b, _, right = self.pick(sizes)
        op = self.rng.choice(list(BINARY))
        self.give(f"{op} {a}, {b} : {self.type(sizes)}", sizes, BINARY[op](left, right))

    def reduce(self) -> None:
        a, sizes, array = self.pick(("M", "N"), ("N", "M"))
        axis = self.rng.randrange(2)
        kept = (sizes[1 - axis],)
        op = self.rng.choice(["arith.addi", "arith.maxsi", "arith.xori"])
        out = self.empty(kept, -(2**31) if op == "arith.maxsi" else 0)
        fn = {"arith.addi": np.add, "arith.maxsi": np.maximum, "arith.xori": np.bitwise_xor}[op]
        self.give(
            f"linalg.reduce {{ {op} }} ins({a} : {self.type(sizes)}) outs({out} : {self.type(kept)}) "
            f"dimensions = [{axis}]",
            kept, fn.reduce(array, axis=axis, dtype=np.int32),
        )  # fmt: skip

    def broadcast(self) -> None:
        a, (size,), array = self.pick(("N",), ("M",))
        sizes = ("M", "N") if self.rng.random() < 0.7 else ("N", "M")
        axis = 1 - sizes.index(size)
        out = self.empty(sizes)
        self.give(
            f"linalg.broadcast ins({a} : {self.type((size,))}) outs({out} : {self.type(sizes)}) dimensions = [{axis}]",
            sizes, np.broadcast_to(np.expand_dims(array, axis), self.shape(sizes)),
        )  # fmt: skip

    def transpose(self) -> None:
        a, sizes, array = self.pick(("M", "N"), ("N", "M"))
        turned = (sizes[1], sizes[0])
        out = self.empty(turned)
        self.give(
            f"linalg.transpose ins({a} : {self.type(sizes)}) outs({out} : {self.type(turned)}) permutation = [1, 0]",
            turned, array.T,
        )  # fmt: skip

    def slice(self) -> None:
        """Rows or columns in reverse halves are too many cases: the first column, then as a vector."""
        a, sizes, array = self.pick(("M", "N"), ("N", "M"))
        size = "%" + sizes[0] if self.dynamic else str(self.size[sizes[0]])
        kept = (sizes[0],)
        self.give(
            f"tensor.extract_slice {a}[0, 0] [{size}, 1] [1, 1] : {self.type(sizes)} to {self.type(kept)}",
            kept, array[:, 0],
        )  # fmt: skip

    def pad(self) -> None:
        """Pads by one and cuts the other end off, so that the sizes stay."""
        a, sizes, array = self.pick(("M", "N"))
        n = len(self.lines)
        shape = "?x?" if self.dynamic else f"{self.size[sizes[0]]}x{self.size[sizes[1]] + 1}"
        wider = f"tensor<{shape}xi32>"
        self.lines += [
            f"%p{n}c = arith.constant 9 : i32",
            f"%p{n} = tensor.pad {a} low[0, 1] high[0, 0] {{",
            "^bb0(%i: index, %j: index):",
            f"  tensor.yield %p{n}c : i32",
            f"}} : {self.type(sizes)} to {wider}",
        ]
        inner = ", ".join(f"%{s}" if self.dynamic else str(self.size[s]) for s in sizes)
        self.give(
            f"tensor.extract_slice %p{n}[0, 0] [{inner}] [1, 1] : {wider} to {self.type(sizes)}",
            sizes, np.pad(array, ((0, 0), (1, 0)), constant_values=9)[:, :-1],
        )  # fmt: skip

    def flatten(self) -> None:
        a, sizes, array = self.pick(("M", "N"))
        flat = ("M*N",)
        self.give(f"tensor.collapse_shape {a} [[0, 1]] : {self.type(sizes)} into {self.type(flat)}", flat,
                  array.reshape(-1))  # fmt: skip
        name = self.values[-1][0]
        self.give(f"arith.addi {name}, {name} : {self.type(flat)}", flat, array.reshape(-1) * 2)
        name = self.values[-1][0]
        shape = ", ".join(f"%{s}" if self.dynamic else str(self.size[s]) for s in sizes)
        self.give(
            f"tensor.expand_shape {name} [[0, 1]] output_shape [{shape}] : {self.type(flat)} into {self.type(sizes)}",
            sizes, array * 2,
        )  # fmt: skip

    def concat(self) -> None:
        """Two matrices beside each other, summed to a column."""
        a, sizes, left = self.pick(("M", "N"))
        b, _, right = self.pick(("M", "N"))
        n = len(self.lines)
        shape = "?x?" if self.dynamic else f"{self.size['M']}x{2 * self.size['N']}"
        wide = f"tensor<{shape}xi32>"
        self.lines.append(f"%w{n} = tensor.concat dim(1) {a}, {b} : ({self.type(sizes)}, {self.type(sizes)}) -> {wide}")
        out = self.empty(("M",), 0)
        self.give(
            f"linalg.reduce {{ arith.addi }} ins(%w{n} : {wide}) outs({out} : {self.type(('M',))}) dimensions = [1]",
            ("M",), np.concatenate([left, right], 1).sum(1, dtype=np.int32),
        )  # fmt: skip

    def insert(self) -> None:
        """A vector as the last column or the first row."""
        a, sizes, array = self.pick(("M", "N"))
        along = self.rng.randrange(2)
        b, _, vector = self.pick((sizes[along],))
        size = f"%{sizes[along]}" if self.dynamic else str(self.size[sizes[along]])
        shape = f"{size}, 1" if along == 0 else f"1, {size}"
        result = array.copy()
        result[(slice(None), 0) if along == 0 else (0, slice(None))] = vector
        self.give(
            f"tensor.insert_slice {b} into {a}[0, 0] [{shape}] [1, 1] : {self.type((sizes[along],))} into "
            f"{self.type(sizes)}",
            sizes, result,
        )  # fmt: skip

    def text(self) -> str:
        arguments = ", ".join(f"{name}: {self.type(sizes)}" for name, sizes, _ in self.inputs)
        made = self.values[len(self.inputs) :]
        self.results = [made[-1], *self.rng.sample(made, min(len(made), self.rng.randrange(3)))]
        types = ", ".join(self.type(sizes) for _, sizes, _ in self.results)
        names = ", ".join(name for name, _, _ in self.results)
        head = [
            "%i0 = arith.constant 0 : index", "%i1 = arith.constant 1 : index",
            f"%M = tensor.dim %x, %i0 : {self.type(('M', 'N'))}", f"%N = tensor.dim %x, %i1 : {self.type(('M', 'N'))}",
        ]  # fmt: skip
        body = "\n  ".join([*head, *self.lines, f"return {names} : {types}"])
        return f"func.func @f({arguments}) -> ({types}) {{\n  {body}\n}}\n"


@pytest.mark.parametrize("seed", range(40))
def test_fusion_changes_nothing(seed: int) -> None:
    program = Program(seed, dynamic=seed % 2 == 1)
    with np.errstate(over="ignore"):
        for _ in range(program.rng.randint(3, 12)):
            program.step()
    text = program.text()
    loaded = pd.device("local").load(pd.compile(text))
    found = loaded.f(*[array for _, _, array in program.inputs])
    found = found if isinstance(found, (tuple, list)) else [found]
    for (name, _, expected), got in zip(program.results, found, strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected, err_msg=f"{name} of\n{text}")
