"""Programs as objects: the dialects, the parser and the printer.

The libraries that this package uses are imported when one of its functions is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

__all__ = ["context", "parse", "print_module", "verify"]


def parse(text: str, filename: str = "<text>") -> ModuleOp:
    """Read and verify a program.

    text: MLIR; operations outside of a module are put into one. filename: what errors call it.
    Raises CompileError with file, line, column and, where there is one, a remedy.
    """
    from pydispatch.ir.core.parser import ProgramParser
    from pydispatch.ir.core.verifier import verify as check

    module = ProgramParser(context(), text, filename).parse_program()
    check(module)
    return module


def verify(module: Operation) -> None:
    """Check every operation of a program. Raises CompileError at the first that is wrong."""
    from pydispatch.ir.core.verifier import verify as check
    from pydispatch.ir.core.walk import walk

    known = context()
    for name in {op.name for op in walk(module)}:
        known.get_optional_op(name)  # Loads the dialect, and with it the checks that it has for operations of xDSL.
    check(module)


def context() -> Context:
    """Return a context with every dialect that programs may use; a dialect is loaded when it is first met."""
    from pydispatch.ir.dialects import new_context

    return new_context()


def print_module(op: Operation, elide_bytes: int | None = None) -> str:
    """Return the text of a program; parsing it gives an equal program.

    Args:
        op: a module, or any operation.
        elide_bytes: constants of more bytes are written as `dense_resource<__elided__>`, which cannot be parsed again.
            None: all constants are written.
    """
    from io import StringIO

    from pydispatch.ir.core.printer import ProgramPrinter

    out = StringIO()
    ProgramPrinter(out, elide_bytes).print_op(op)
    return out.getvalue() + "\n"
