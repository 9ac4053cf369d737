"""Random programs over tensors, with what NumPy makes of them. Results are exact, whatever is fused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Sizes = tuple[str, ...]

TYPES: dict[str, Any] = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
INTEGER: dict[str, Callable[[Array, Array], Array]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.xori": np.bitwise_xor,
}
FLOAT: dict[str, Callable[[Array, Array], Array]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
}
"""No products: the sums of whole numbers stay exact in any order."""


class Program:
    """A function that grows line by line. element: of all tensors, one of TYPES; floats hold whole numbers."""

    def __init__(self, seed: int, dynamic: bool, element: str = "i32") -> None:
        self.rng = random.Random(seed)
        self.dynamic = dynamic
        self.element, self.dtype = element, TYPES[element]
        self.is_float = element.startswith("f")
        self.binary_ops = FLOAT if self.is_float else INTEGER
        self.add = "arith.addf" if self.is_float else "arith.addi"
        self.size = {"M": self.rng.choice([1, 2, 5, 8, 13]), "N": self.rng.choice([1, 3, 4, 7, 16, 33])}
        self.lines: list[str] = []
        self.values: list[tuple[str, Sizes, Array]] = []
        self.inputs: list[tuple[str, Sizes, Array]] = []
        numbers = np.random.default_rng(seed)
        for name, sizes in (("x", ("M", "N")), ("y", ("M", "N")), ("r", ("N",)), ("c", ("M",))):
            array = numbers.integers(-50, 50, self.shape(sizes)).astype(self.dtype)
            self.inputs.append((f"%{name}", sizes, array))
        self.values += self.inputs

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(int(np.prod([self.size[s] for s in n.split("*")])) for n in sizes)

    def type(self, sizes: Sizes) -> str:
        shown = "".join(f"{'?' if self.dynamic else n}x" for n in self.shape(sizes))
        return f"tensor<{shown}{self.element}>"

    def dims(self, sizes: Sizes) -> str:
        return ", ".join("%" + n.replace("*", "") for n in sizes) if self.dynamic else ""

    def pick(self, *wanted: Sizes) -> tuple[str, Sizes, Array]:
        fitting = [v for v in self.values if not wanted or v[1] in wanted]
        return self.rng.choice(fitting[-6:] if self.rng.random() < 0.7 else fitting)

    def give(self, line: str, sizes: Sizes, array: Array) -> None:
        name = f"%v{len(self.values)}"
        self.lines.append(f"{name} = {line}")
        self.values.append((name, sizes, np.asarray(array, self.dtype)))

    def number(self, value: int) -> str:
        return f"{value}.0" if self.is_float else str(value)

    def empty(self, sizes: Sizes, fill: int | None = None) -> str:
        name = f"%e{len(self.lines)}"
        self.lines.append(f"{name} = tensor.empty({self.dims(sizes)}) : {self.type(sizes)}")
        if fill is None:
            return name
        self.lines.append(f"{name}c = arith.constant {self.number(fill)} : {self.element}")
        type = self.type(sizes)
        self.lines.append(f"{name}f = linalg.fill ins({name}c : {self.element}) outs({name} : {type}) -> {type}")
        return f"{name}f"

    def step(self) -> None:
        kinds = [self.unary, self.binary, self.binary, self.binary, self.reduce, self.broadcast, self.transpose,
                 self.slice, self.pad, self.flatten, self.concat, self.insert]  # fmt: skip
        self.rng.choice(kinds)()

    def unary(self) -> None:
        a, sizes, array = self.pick()
        op = self.rng.choice([self.add] if self.is_float else ["arith.addi", "arith.muli"])
        self.give(f"{op} {a}, {a} : {self.type(sizes)}", sizes, self.binary_ops[op](array, array))

    def binary(self) -> None:
        a, sizes, left = self.pick()
        b, _, right = self.pick(sizes)
        op = self.rng.choice(list(self.binary_ops))
        self.give(f"{op} {a}, {b} : {self.type(sizes)}", sizes, self.binary_ops[op](left, right))

    def reduce(self) -> None:
        a, sizes, array = self.pick(("M", "N"), ("N", "M"))
        axis = self.rng.randrange(2)
        kept = (sizes[1 - axis],)
        largest = "arith.maximumf" if self.is_float else "arith.maxsi"
        op = self.rng.choice([self.add, largest, *([] if self.is_float else ["arith.xori"])])
        lowest = -(2**24) if self.is_float else int(np.iinfo(self.dtype).min)
        out = self.empty(kept, lowest if op == largest else 0)
        reduced = self.binary_ops[op].reduce(array, axis=axis, dtype=self.dtype)  # type: ignore[attr-defined]
        if op == largest:
            reduced = np.maximum(reduced, np.asarray(lowest, self.dtype))
        self.give(
            f"linalg.reduce {{ {op} }} ins({a} : {self.type(sizes)}) outs({out} : {self.type(kept)}) "
            f"dimensions = [{axis}]",
            kept, reduced,
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
        swapped = (sizes[1], sizes[0])
        out = self.empty(swapped)
        self.give(
            f"linalg.transpose ins({a} : {self.type(sizes)}) outs({out} : {self.type(swapped)}) permutation = [1, 0]",
            swapped, array.T,
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
        wider = f"tensor<{shape}x{self.element}>"
        self.lines += [
            f"%p{n}c = arith.constant {self.number(9)} : {self.element}",
            f"%p{n} = tensor.pad {a} low[0, 1] high[0, 0] {{",
            "^bb0(%i: index, %j: index):",
            f"  tensor.yield %p{n}c : {self.element}",
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
        self.give(f"{self.add} {name}, {name} : {self.type(flat)}", flat, array.reshape(-1) * 2)
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
        wide = f"tensor<{shape}x{self.element}>"
        self.lines.append(f"%w{n} = tensor.concat dim(1) {a}, {b} : ({self.type(sizes)}, {self.type(sizes)}) -> {wide}")
        out = self.empty(("M",), 0)
        self.give(
            f"linalg.reduce {{ {self.add} }} ins(%w{n} : {wide}) outs({out} : {self.type(('M',))}) dimensions = [1]",
            ("M",), np.concatenate([left, right], 1).sum(1, dtype=self.dtype),
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

    def grow(self) -> None:
        """Some random operations."""
        with np.errstate(over="ignore"):
            for _ in range(self.rng.randint(3, 12)):
                self.step()

    def text(self) -> str:
        """The program, which returns the last value and some others: `results`."""
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
