"""Random kernels over tiles, and the same as functions of NumPy."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
from bad_kernel_works import executed

SIDE = 8
FUNCTIONS = """\
def halve(t):
    u = t + 1
    t = u * 2 - u
    return t
def small(t):
    return pd.where(t > 8, 1.0 + 0 * t, pd.where(t < -8, -2.0 + 0 * t, t))
"""


class Padded:
    """A view: what is read outside of the array is 0, and what is written there is nowhere."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def _places(self, slices: tuple[slice, slice]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, columns = (np.arange(each.start, each.stop) for each in slices)
        y, x = np.meshgrid(rows, columns, indexing="ij")
        return y, x, (y >= 0) & (x >= 0) & (y < self.array.shape[0]) & (x < self.array.shape[1])

    def __getitem__(self, slices: tuple[slice, slice]) -> np.ndarray:
        y, x, inside = self._places(slices)
        found = np.zeros(y.shape, self.array.dtype)
        found[inside] = self.array[y[inside], x[inside]]
        return found

    def __setitem__(self, slices: tuple[slice, slice], value: Any) -> None:
        y, x, inside = self._places(slices)
        self.array[y[inside], x[inside]] = np.broadcast_to(value, y.shape)[inside]


def _reduction(name: str) -> Any:
    return lambda t, axis=None, keepdims=False: getattr(t, name)(axis, keepdims=keepdims)


NUMPY = SimpleNamespace(
    where=np.where, sum=_reduction("sum"), max=_reduction("max"), min=_reduction("min"), group_id=lambda axis: 0
)  # fmt: skip


class Program:
    """A kernel `k(x, y, c)`; what it computes are small whole numbers."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = random.Random(seed), itertools.count(2)
        self.lines = ["p = pd.group_id(0) + c", "t0 = x[0:8, 0:8]", "t1 = y[2:2 + 8, p:p + 8]"]
        names = self._statements(["t0", "t1"], 0, self.random.randrange(3, 6))
        for number, name in enumerate(self.random.sample(names, min(len(names), 3))):
            self.lines.append(f"y[0:8, {2 * number}:{2 * number} + 8] = {name}")

    def kernel(self) -> Any:
        head = 'def k(x: pd.f32["a", "b"], y: pd.f32["d", "e"], c: pd.i32):\n    '
        return executed(f"{FUNCTIONS}@pd.kernel(grid=1)\n{head}" + "\n    ".join(self.lines) + "\n")

    def expected(self, x: np.ndarray, y: np.ndarray, c: int) -> np.ndarray:
        names: dict[str, Any] = {"pd": NUMPY}
        exec(f"{FUNCTIONS}def k(x, y, c):\n    " + "\n    ".join(self.lines) + "\n", names)
        found = y.copy()
        names["k"](Padded(x), Padded(found), c)
        return found

    def _slice(self, view: str = "") -> str:
        i, j = self.random.choice("0p3"), self.random.choice("0p5")
        return f"{view or self.random.choice('xy')}[{i}:{i} + 8, {j}:{j} + 8]"

    def _tile(self, names: list[str]) -> str:
        return self.random.choice(names) if self.random.random() < 0.65 else self._slice()

    def _expression(self, names: list[str], depth: int = 0) -> str:
        tile = lambda: self._tile(names)  # noqa: E731
        if depth == 2:
            return tile()
        inner, axis = self._expression(names, depth + 1), self.random.choice([0, 1])
        return self.random.choice([
            f"({inner} + {tile()})", f"({inner} - {tile()})", f"({tile()} @ {tile()})", f"{tile()}.T", tile(),
            f"({inner} + {tile()} @ {tile()}.T)", f"pd.where({tile()} > 0, {inner}, {tile()})",
            f"({inner} - pd.{self.random.choice(['sum', 'max', 'min'])}({tile()}, axis={axis}, keepdims=True))",
            f"(halve({tile()}) + pd.max({inner}, axis=1)[:, None])",
        ])  # fmt: skip

    def _statements(self, names: list[str], depth: int, count: int) -> list[str]:
        indent = "    " * depth
        for _ in range(count):
            kind, one, value = self.random.random(), self.random.choice(names), self._expression(names)
            if kind < 0.3:
                names = [*names, f"t{next(self.numbers)}"]
                self.lines.append(f"{indent}{names[-1]} = {f'small({value})' if kind < 0.25 else one}")
            elif kind < 0.45:
                self.lines.append(f"{indent}{one} = small({value})")
            elif kind < 0.55:
                factors = f"{self._tile(names)} @ {self._tile(names)}"
                self.lines += [f"{indent}{one} = {one} + {factors}", f"{indent}{one} = small({one})"]
            elif kind < 0.62:
                other = self.random.choice(names)
                self.lines.append(f"{indent}{one}, {other} = {other}, small({value})")
            elif kind < 0.75 or depth == 2:
                self.lines.append(f"{indent}{self._slice('y')} = small({value})")
            elif kind < 0.88:
                self.lines.append(f"{indent}for i{depth} in range({self.random.choice([0, 1, 3])}):")
                self._statements(names, depth + 1, self.random.randrange(1, 4))
            else:
                condition = self.random.choice(["c > 0", f"pd.sum({self._tile(names)}) > 0"])
                self.lines.append(f"{indent}if {condition}:")
                self._statements(names, depth + 1, self.random.randrange(1, 3))
                self.lines.append(f"{indent}else:")
                self._statements(names, depth + 1, self.random.randrange(1, 3))
        return names
