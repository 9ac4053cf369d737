"""A target: kernels as the text of their kernel IR."""

from pydispatch.compiler.kernel_ir.kernel import Binary
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir import print_module


class Text(Backend):
    """Backend whose machine code is the text of the kernel IR.

    A backend for a real machine emits code from the same module, which `docs/kernel-ir.md` describes.
    """

    name = "toy-text"
    format = "toy-kernel-ir"
    emitter = "toy.target:compile_variant"
    workgroup_bytes = 4 << 10  # that a workgroup reads and writes; the size of grids is derived from it


def compile_variant(variant, *, dump=None):
    """Return the code of a variant. dump(suffix, content): writes an intermediate file if the caller wants any."""
    text = f"// {', '.join(export.name for export in variant.exports)}\n{print_module(variant.module)}"
    if dump is not None:
        dump(".txt", text)
    return Binary(text.encode(), ".txt", alignment=16)


BACKEND = Text()  # what `toy/__init__.py` registers
