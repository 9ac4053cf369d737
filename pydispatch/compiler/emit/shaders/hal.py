"""The grid, and layout and executable constants as 32-bit words, in every shader language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.kernel_ir.readers import attribute, integer, symbol
from pydispatch.compiler.kernel_ir.types import bit_width


def constant_words(emitter: ShaderFunction[Any], op: Operation) -> int:
    """Return how many words a constant of the layout takes. CompileError where the layout has fewer."""
    ordinal, type_ = integer(op, "ordinal"), op.results[0].type
    count = _words(emitter, op, ordinal)
    if ordinal + count > emitter.layout.constants:
        raise emitter.error(
            f"constant {ordinal} of type {type_} lies outside the layout, which has {emitter.layout.constants} words"
        )
    return count


def _words(emitter: ShaderFunction[Any], op: Operation, ordinal: int) -> int:
    type_ = op.results[0].type
    if not isinstance(type_, IndexType):
        return 2 if bit_width(type_) > 32 else 1
    if attribute(op, "layout") is not None:
        return 1
    others = emitter.ops.get(op.name, ())
    taken = any(integer(other, "ordinal") == ordinal + 1 for other in others if other is not op)
    return 2 if ordinal + 1 < emitter.layout.constants and not taken else 1


def executable_constant(emitter: ShaderFunction[Any], op: Operation, constants: Sequence[str]) -> tuple[int, bool]:
    """Return (number of the first word, whether there are two) of an executable constant. CompileError for an unknown
    one.
    """
    key, type_ = symbol(op, "key"), op.results[0].type
    if key not in constants:
        known_keys = ", ".join(constants) or "none"
        raise emitter.error(
            f"executable constant '{key}' has no hal.executable.constant.block", f"defined are: {known_keys}"
        )
    ordinal = constants.index(key)
    wide = not isinstance(type_, IndexType) and bit_width(type_) > 32
    if wide and tuple(constants[ordinal : ordinal + 2]) != (key, key):
        raise emitter.error(f"executable constant '{key}' is one 32-bit word, got {type_}")
    return ordinal, wide


def grid(built_in: str) -> Callable[[ShaderFunction[Any], Operation], None]:
    """Return the lowering of a dimension of the grid, which is a component of a built-in of the language."""

    def lower(emitter: ShaderFunction[Any], op: Operation) -> None:
        emitter.define(op.results[0], emitter.component(built_in, integer(op, "dimension")))

    return lower


def workgroup_size(emitter: ShaderFunction[Any], op: Operation) -> None:
    """Define a dimension of the workgroup size as the size that the kernel's export declares.

    The emitter chooses the actual number of invocations in a workgroup.
    """
    emitter.define(op.results[0], max(1, emitter.declared_size[integer(op, "dimension")]))
