"""A frontend for files with the suffix `.toy`. Each line is an operation on named vectors of f32.

input x n          an argument: a vector of n elements. n is a number, or the name of a size that each call determines
y = exp x
z = add x y
output z           a result
"""

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from pydispatch.errors import CompileError, Location
from pydispatch.files import read_text
from pydispatch.frontends.source import Frontend, ReadOptions
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import F32
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise

OPERATIONS = {
    "add": elementwise.binary, "sub": elementwise.binary, "mul": elementwise.binary, "div": elementwise.binary,
    "abs": elementwise.unary, "exp": elementwise.unary, "tanh": elementwise.unary,
}  # fmt: skip
"""Word of a line -> function that builds its operation."""


class ToyFile(Frontend):
    """Reader of `.toy` files, which are recognized by their suffix."""

    suffixes = (".toy",)

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        """Return the program of a file: one function `main`. CompileError names the line."""
        assert isinstance(source, Path)  # objects and dialects, which other frontends read, are never passed
        try:
            lines = [line.split() for line in read_text(source).splitlines()]
        except UnicodeDecodeError as error:
            raise CompileError(f"this is not text: {error}", Location(str(source), 0, 0)) from None
        b = Builder(str(source), options.weights)
        # Inputs first: they are the arguments of the function, whichever lines they are on.
        inputs = [Input(line[1], F32, (size_of(line[2]),)) for line in lines if is_input(line)]
        values = dict(zip([spec.name for spec in inputs], b.begin(inputs), strict=True))
        outputs: dict[str, Tensor] = {}
        for line_number, line in enumerate(lines, 1):
            if not line or is_input(line):
                continue
            with b.at(f"line {line_number}"):  # the location of the operations that are emitted, and of errors
                match line:
                    case [name, "=", operation, *operands] if operation in OPERATIONS:
                        if len(operands) != (2 if OPERATIONS[operation] is elementwise.binary else 1):
                            raise b.fail(f"'{operation}' does not take {len(operands)} operand(s)")
                        operands_of_line = [value_of(b, values, operand) for operand in operands]
                        values[name] = OPERATIONS[operation](b, operation, *operands_of_line)
                    case ["output", name]:
                        outputs[name] = value_of(b, values, name)
                    case _:
                        raise b.fail(f"'{' '.join(line)}' is no line of a toy file",
                                     f"operations: {', '.join(OPERATIONS)}")  # fmt: skip
        b.finish("main", outputs)
        return b.module


def is_input(line: list[str]) -> bool:
    return len(line) == 3 and line[0] == "input"


def size_of(word: str) -> int | str:
    """Return a static size, or the name of a dynamic one."""
    return int(word) if word.isdecimal() else word


def value_of(b: Builder, values: dict[str, Tensor], name: str) -> Tensor:
    """Return the vector that an earlier line has defined."""
    if name not in values:
        raise b.fail(f"there is no vector '{name}' here")
    return values[name]


FRONTEND = ToyFile()  # what `toy/__init__.py` registers
