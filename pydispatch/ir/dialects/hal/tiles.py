"""`pyd.tiles = [256, 256, 0]` on an export: the bytes of each binding that a workgroup reads and writes.

Workgroup number i, x fastest, touches of binding b only the bytes from i * tiles[b] to (i + 1) * tiles[b], or to its
end; 0: any bytes. Dispatches of such exports may form chains (docs/program.md).
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

TILES = "pyd.tiles"
_TILE_BYTES_LIMIT = 1 << 31
"""Bytes of a tile that are too many for the field of a host program."""


def tiles_of(export: Operation) -> tuple[int, ...]:
    """Return the bytes of each binding that a workgroup accesses; () if the export does not state them."""
    stated = export.attributes.get(TILES)
    if not isinstance(stated, ArrayAttr):
        return ()
    return tuple(n.value.data if isinstance(n, IntegerAttr) else -1 for n in stated)


def check_tiles(export: Operation, bindings: int | None = None) -> None:
    """Raise VerifyException unless the attribute is a list with one number per binding.

    `bindings` is the number of bindings; None if it is not known.
    """
    stated = export.attributes.get(TILES)
    if stated is None:
        return
    sizes = tiles_of(export)
    if not sizes or not all(0 <= size < _TILE_BYTES_LIMIT for size in sizes):
        raise VerifyException(f"{TILES} is the bytes of each binding that a workgroup has, 0 for any, got {stated}")
    if bindings is not None and len(sizes) != bindings:
        raise VerifyException(f"{TILES} has {len(sizes)} sizes, the layout has {bindings} bindings")
