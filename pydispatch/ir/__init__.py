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
    """Parse and verify a program.

    Args:
        text: MLIR; operations outside of a module are put into one.
        filename: Name of the text in error messages.

    Returns:
        The module.

    Raises:
        CompileError: The text is malformed or an operation is invalid; with file, line and column, and a remedy if
            there is one.
    """
    # Imported here, as importing this package must not load the parser.
    from pydispatch.ir.core.parser import ProgramParser
    from pydispatch.ir.core.verifier import verify as check

    module = ProgramParser(context(), text, filename).parse_program()
    check(module)
    return module


def verify(module: Operation) -> None:
    """Verify every operation of a program; raise CompileError for the first invalid one."""
    from pydispatch.ir.core.verifier import verify as check
    from pydispatch.ir.core.walk import walk

    known = context()
    for name in {op.name for op in walk(module)}:
        known.get_optional_op(name)  # Loads the dialect, and with it the checks that it has for operations of xDSL.
    check(module)


def context() -> Context:
    """Return a context that knows every dialect; a dialect is imported when the context first needs it."""
    from pydispatch.ir.dialects import new_context

    return new_context()


def print_module(op: Operation, elide_bytes: int | None = None) -> str:
    """Return the text of an operation; parsing it gives an equal operation.

    Args:
        op: A module, or any operation.
        elide_bytes: Constants of more bytes are printed as `dense_resource<__elided__>`, which cannot be parsed
            again. None: all constants are printed.
    """
    from io import StringIO

    from pydispatch.ir.core.printer import ProgramPrinter

    out = StringIO()
    ProgramPrinter(out, elide_bytes).print_op(op)
    return out.getvalue() + "\n"
