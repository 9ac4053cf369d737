"""A pass over whole programs."""

from xdsl.dialects.builtin import ModuleOp

from toy.dialect import ReverseOp


def remove_double_reverse(module: ModuleOp) -> None:
    """Replace two reversals along the same axis by the operand of the first one, as they cancel each other."""
    for op in list(module.walk()):
        if not isinstance(op, ReverseOp):
            continue
        inner = op.source.owner  # the operation that computes the operand
        if isinstance(inner, ReverseOp) and inner.axis == op.axis:
            op.result.replace_all_uses_with(inner.source)
            op.detach()
            op.erase()
            if not inner.result.uses.get_length():  # no other operation uses it
                inner.detach()
                inner.erase()
