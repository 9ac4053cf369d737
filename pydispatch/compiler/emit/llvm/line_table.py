"""Debug locations of one LLVM function: the source line of each instruction."""

from __future__ import annotations

from pathlib import PurePath

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.module import ModuleWriter
from pydispatch.errors import Location
from pydispatch.ir.core.locations import line_of, location_of


class LineTable:
    """Debug information of one function: the source line of each instruction (`!dbg`).

    LLVM turns it into the `.loc` directives of assembler. The kernel IR of the function has the lines, as locations.

    Attributes:
        subprogram: Metadata node of the function.
    """

    def __init__(self, module: ModuleWriter, function: FuncOp) -> None:
        """Add the debug information of `function` and of its file to the metadata of `module`."""
        self._module, self._function = module, function
        self._nodes: dict[tuple[int, int], int] = {}  # (line, column) -> number of its DILocation
        location = location_of(function) or Location("kernel", 1, 1)
        path = PurePath(location.file)
        file = module.metadata(f"!DIFile(filename: {_string(path.name)}, directory: {_string(str(path.parent))})")
        unit = module.compile_unit(file)
        types = module.metadata("!{null}")
        signature = module.metadata(f"!DISubroutineType(types: !{types})")
        name = _string(function.sym_name.data)
        self.subprogram = module.metadata(
            f"distinct !DISubprogram(name: {name}, scope: !{file}, file: !{file}, line: {max(location.line, 1)}, "
            f"type: !{signature}, spFlags: DISPFlagDefinition, unit: !{unit})"
        )

    def mark(self, lines: list[str], start: int, op: Operation) -> None:
        """Add the location of `op` to the instructions in `lines` that have none, from index `start` on.

        `lines` is the text of the function. Labels, without indentation, and reserved empty lines get no location.
        """
        location = line_of(op, self._function)
        if location is None:
            return
        key = location.line, location.column
        node = self._nodes.get(key)
        if node is None:
            text = f"!DILocation(line: {location.line}, column: {location.column}, scope: !{self.subprogram})"
            node = self._nodes[key] = self._module.metadata(text)
        for index in range(start, len(lines)):
            if lines[index].startswith("  ") and "!dbg" not in lines[index]:
                lines[index] += f", !dbg !{node}"


def _string(text: str) -> str:
    r"""Return a string literal of LLVM IR: `a"é` as `"a\22\C3\A9"`. Bytes that are no letters are in hexadecimal."""
    plain = {byte: chr(byte) for byte in range(0x20, 0x7F) if chr(byte) not in '"\\'}
    data = text.encode(errors="surrogateescape")  # the bytes of a path that is no UTF-8
    return '"' + "".join(plain.get(byte, f"\\{byte:02X}") for byte in data) + '"'
