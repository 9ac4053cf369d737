"""Generated CUDA kernels with functions of the user: what can be linked now is, the rest is left for loading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pydispatch.compiler.kernel import Variant
from pydispatch.errors import CompileError

Dump = Callable[[str, "bytes | str"], None]


@dataclass(frozen=True)
class Linked:
    """Generated kernels, linked with their objects.

    data, kind: PTX, or machine code ("cubin"). imports: what it needs when it is loaded, '?' in front of optional ones;
    calls: the same for people, as the manifest has it. blocks: block size by export; shared: dynamic bytes by export.
    """

    data: bytes
    kind: str
    imports: tuple[str, ...] = ()
    calls: list[dict[str, object]] = field(default_factory=list)
    blocks: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)


def generate(variant: Variant, arch: str, dump: Dump | None = None) -> Linked:
    """The kernels of a variant for an architecture, linked with its objects. CompileError."""
    raise CompileError("kernels cannot be generated for CUDA yet", variant.location, "give whole kernels as objects")
