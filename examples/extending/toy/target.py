"""A target: kernels as the text of their kernel IR."""

from pydispatch.compiler.kernel_ir.kernel import Binary
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir import print_module


class Text(Backend):
    """What emits code for another machine begins at the same place: `docs/kernel-ir.md` says what a module holds."""

    name = "toy-text"
    format = "toy-kernel-ir"
    emitter = "toy.target:compile_variant"
    workgroup_bytes = 4 << 10  # of what a workgroup reads and writes: grids follow from it


def compile_variant(variant, *, dump=None):
    """The text of a variant."""
    text = f"// {', '.join(export.name for export in variant.exports)}\n{print_module(variant.module)}"
    if dump is not None:
        dump(".txt", text)
    return Binary(text.encode(), ".txt", alignment=16)


BACKEND = Text()
