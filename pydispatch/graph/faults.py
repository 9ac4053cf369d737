"""Translation of exceptions during the conversion of a node into CompileError, or InternalError for internal faults.

A CompileError names the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xdsl.utils.exceptions import VerifyException

from pydispatch.errors import CompileError
from pydispatch.faults import internal_error, is_fault
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import UndecidedError

_CONTRADICTIONS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError,
                   RecursionError, TypeError, ValueError, VerifyException)  # fmt: skip
"""Exceptions that a conversion raises if its operands do not fit each other and no check has refused them. They are
reported as a CompileError that lists the operands."""


@contextmanager
def guarded(
    builder: Builder, name: str, operands: Callable[[], str], stated: tuple[type[Exception], ...] = (UndecidedError,),
    note: str | None = None, outer: tuple[type[Exception], ...] = (),
) -> Iterator[None]:  # fmt: skip
    """Report exceptions that the conversion of a node raises as CompileError, or as InternalError for internal faults.

    A node is an operation of the model, such as `aten.add.Tensor`. The first of these rules that fits an exception
    decides:

    - A CompileError gets the name of the node, unless its message has it, and `note`. It is passed on without a note,
      and if it is of a nested node, such as one in a loop's body.
    - Exceptions of `outer` are passed on.
    - Those of `stated` become the CompileError "aten.add.Tensor: TEXT".
    - Those of `_CONTRADICTIONS`, such as ValueError, become the CompileError "aten.add.Tensor: its operands (f32[2],
      f32[3]) do not fit each other: ValueError: TEXT".
    - Others that `is_fault` calls faults of this package become an InternalError.
    - The rest, such as a missing package, is passed on.

    Args:
        builder: Builder; errors have its current location.
        name: Name of the node in error messages.
        operands: Returns the description of the operands that is added to errors other than `stated`.
        stated: Exceptions whose text is a complete message.
        note: Location of the node in the model, added to CompileErrors; None for none.
        outer: Exceptions that are passed on to the caller, even if `stated` or `_CONTRADICTIONS` has them.
    """
    try:
        yield
    except CompileError as error:
        # A node in a nested graph, such as a loop's body, has another location: its own `guarded` has added its note.
        is_of_nested_node = error.location != builder.location
        if note is None or is_of_nested_node:
            raise
        operator = name.removesuffix(".default").rpartition(".")[2]  # "aten.add.default" -> "add"
        message = error.message if operator in error.message else f"{name}: {error.message}"
        raise builder.fail(message, f"{error.note}\n{note}" if error.note else note) from error.__cause__
    except outer:
        raise
    except stated as fault:
        raise builder.fail(f"{name}: {fault}", note) from None
    except _CONTRADICTIONS as error:
        text = f"{name}: its operands ({operands()}) do not fit each other: {type(error).__name__}: {error}"
        raise builder.fail(text, note) from error
    except Exception as error:
        if not is_fault(error):  # such as a missing package or an error of the user's function
            raise
        raise internal_error(error, f"{name} ({operands()})", builder.location) from error
