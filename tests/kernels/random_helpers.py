"""Random kernels of numbers whose statements are in inlined functions, and the same run by Python."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
from bad_kernel_works import PRELUDE, executed


class Program:
    """A kernel `k(x, y)` of vectors of one type, "i32" or "f32"; all values are whole numbers from -9 to 9.

    Parameters get literals, elements and named tuples, and are assigned again in loops and conditions. Functions return
    at any place where kernels permit it, with a value or, as `store` and the kernel itself, without one.
    """

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = random.Random(seed), itertools.count()
        self.type = self.random.choice(["i32", "f32"])
        self.lines: list[str] = []
        self._function("def inner(x, q):", ["x", "q"], "a value")
        self._function("def outer(x, y, q, p):", ["x", "y", "q", "p.x", "p.y"], "a value")
        self._function("def store(y, i, x, q):", ["y[i]", "x", "q"], "none")
        call = f"outer(a, y[i], {self._literal()}, P({self._literal()}, {self._literal()}))"
        self._function(
            "def body(x, y, i):",
            ["y[i]", "a"],
            "none",
            ["a = x[i]", f"y[i] = {self._small(call)}", f"store(y, i, a, {self._literal()})"],
        )
        self.functions = "\n".join(self.lines) + "\n"

    def kernel(self) -> Any:
        vector = f'pd.{self.type}["n"]'
        head = f"@pd.kernel\ndef k(x: {vector}, y: {vector}):\n"
        return executed(
            f"{self.functions}{head}    i = pd.global_id(0)\n    if i < x.shape[0]:\n        body(x, y, i)\n"
        )

    def expected(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        names: dict[str, Any] = {}
        exec(PRELUDE + self.functions, names)
        values, found = x.tolist(), y.tolist()
        for i in range(len(values)):
            names["body"](values, found, i)
        return np.array(found, y.dtype)

    def _literal(self) -> str:
        return f"{self.random.randrange(-3, 5)}{'.0' if self.type == 'f32' else ''}"

    def _small(self, value: str) -> str:
        least, most = ("-9.0", "9.0") if self.type == "f32" else ("-9", "9")
        return f"max({least}, min({most}, {value}))"

    def _operand(self, names: list[str]) -> str:
        return self.random.choice(names) if self.random.random() < 0.75 else self._literal()

    def _value(self, names: list[str]) -> str:
        a, b, c = (self._operand(names) for _ in range(3))
        forms = [a, f"{a} + {b}", f"{a} - {b}", f"{a} * {b} - {c}", f"({a} if {b} < {c} else {b})"]
        if self.function == "outer":
            forms.append(f"inner({a}, {b})")
        return self._small(self.random.choice(forms))

    def _condition(self, names: list[str]) -> str:
        a, b, c = (self._operand(names) for _ in range(3))
        return self.random.choice([f"{a} < {b}", f"{a} == {b}", f"{a} > {b} and {b} != {c}", f"not {a} < {b}"])

    def _function(self, head: str, names: list[str], result: str, first: list[str] | None = None) -> None:
        self.function = head.partition(" ")[2].partition("(")[0]
        self.result = result
        self.lines += [head, *(f"    {line}" for line in first or ())]
        names = self._statements(names, 1, "", self.random.randrange(3, 7))
        self.lines.append(f"    return {self._value(names) if result == 'a value' else ''}".rstrip())

    def _statements(self, names: list[str], depth: int, around: str, count: int) -> list[str]:
        """Add statements of a block, and return the names that have values after it.

        around: The innermost loop around the block: "", "loop", "unrolled" or "loop in unrolled". Kernels have no exit
        of an unrolled loop.
        """
        for _ in range(count):
            names = self._statement(names, "    " * depth, depth, around)
        return names

    def _statement(self, names: list[str], indent: str, depth: int, around: str) -> list[str]:
        add, kind = self.lines.append, self.random.random()
        inside = lambda more=(), around=around: self._statements(  # noqa: E731
            [*names, *more], depth + 1, around, self.random.randrange(1, 4)
        )
        if depth == 4 or kind < 0.3:
            self._assignment(names, indent)
        elif kind < 0.4:  # a new variable
            names = [*names, f"t{next(self.numbers)}"]
            add(f"{indent}{names[-1]} = {self._value(names[:-1])}")
        elif kind < 0.55:
            add(f"{indent}if {self._condition(names)}:")
            inside()
            self._exit(names, indent, around)
            if self.random.random() < 0.4:
                add(f"{indent}else:")
                inside()
                self._exit(names, indent, around)
        elif kind < 0.65:  # a variable that gets its value in both branches
            new = f"t{next(self.numbers)}"
            for head in (f"if {self._condition(names)}:", "else:"):
                add(f"{indent}{head}")
                inside()
                add(f"{indent}    {new} = {self._operand(names)}")
            names = [*names, new]
        elif kind < 0.8:
            counter = f"j{next(self.numbers)}"
            add(f"{indent}for {counter} in range({self.random.choice(['0', '2', '3', '3, 0, -1'])}):")
            inside(around="loop in unrolled" if "unrolled" in around else "loop")
        elif kind < 0.9:
            counter = f"n{next(self.numbers)}"
            add(f"{indent}{counter} = 0")
            add(f"{indent}while {counter} < 4 and {self._condition(names)}:")
            add(f"{indent}    {counter} += 1")
            inside(around="loop in unrolled" if "unrolled" in around else "loop")
        else:
            item = f"w{next(self.numbers)}"
            add(f"{indent}for {item} in ({self._operand(names)}, {self._operand(names)}):")
            inside([item], around="unrolled")
        return names

    def _assignment(self, names: list[str], indent: str) -> None:
        """Add an assignment of one variable, of two at once or of the named tuple `p`."""
        targets = [name for name in names if not name.startswith("p.")]
        one, other = self.random.choice(targets), self.random.choice(targets)
        kind = self.random.random()
        if "p.x" in names and kind < 0.3:
            self.lines.append(f"{indent}p = P({self._value(names)}, {self._value(names)})")
        elif kind < 0.5 and one != other:
            self.lines.append(f"{indent}{one}, {other} = {other}, {self._value(names)}")
        else:
            self.lines.append(f"{indent}{one} = {self._value(names)}")

    def _exit(self, names: list[str], indent: str, around: str) -> None:
        """Add an exit at the end of a branch, or none."""
        exits = {"": ["return"], "loop": ["break", "continue", "return"], "loop in unrolled": ["break", "continue"]}
        if around in exits and self.random.random() < 0.5:
            leave = self.random.choice(exits[around])
            if leave == "return" and self.result == "a value":
                if around:  # a value that is returned inside of a loop is refused
                    return
                leave = f"return {self.random.choice([self._value(names), self._operand(names)])}"
            self.lines.append(f"{indent}    {leave}")
