"""A frontend: files with the suffix `.toy`, each line an operation on named vectors of f32.

input x n          a vector of n elements: a number, or a name for a size that each call decides
y = exp x
z = add x y
output z
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


class ToyFile(Frontend):
    """`.toy` files; the suffix alone tells them."""

    suffixes = (".toy",)

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        assert isinstance(source, Path)  # it reads no objects and no dialects
        try:
            lines = [line.split() for line in read_text(source).splitlines()]
        except UnicodeDecodeError as error:
            raise CompileError(f"this is not text: {error}", Location(str(source), 0, 0)) from None
        b = Builder(str(source), options.weights)
        inputs = [Input(line[1], F32, (size_of(line[2]),)) for line in lines if is_input(line)]
        values = dict(zip([spec.name for spec in inputs], b.begin(inputs), strict=True))
        outputs: dict[str, Tensor] = {}
        for line_number, line in enumerate(lines, 1):
            if not line or is_input(line):
                continue
            with b.at(f"line {line_number}"):  # what is written belongs to this line, and errors name it
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
    return int(word) if word.isdecimal() else word


def value_of(b: Builder, values: dict[str, Tensor], name: str) -> Tensor:
    if name not in values:
        raise b.fail(f"there is no vector '{name}' here")
    return values[name]


FRONTEND = ToyFile()
