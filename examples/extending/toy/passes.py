"""A pass over whole programs."""

from xdsl.dialects.builtin import ModuleOp

from toy.dialect import ReverseOp


def remove_double_reverse(module: ModuleOp) -> None:
    """Reversing twice along an axis is nothing."""
    for op in list(module.walk()):
        if not isinstance(op, ReverseOp):
            continue
        inner = op.source.owner
        if isinstance(inner, ReverseOp) and inner.axis == op.axis:
            op.result.replace_all_uses_with(inner.source)
            op.detach()
            op.erase()
            if not inner.result.uses.get_length():
                inner.detach()
                inner.erase()
