"""`pyd.tiles = [256, 256, 0]` on an export: the bytes of each binding that a workgroup reads and writes.

Workgroup i, counted with x fastest, accesses of binding b only the bytes from i * tiles[b] up to, but not including,
(i + 1) * tiles[b] or the binding's end. tiles[b] = 0 permits any bytes. Dispatches of such exports may form chains,
which run tile by tile through all of them while the tile is in a cache (docs/program.md).
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

TILES = "pyd.tiles"  # attribute of an export
_TILE_BYTES_LIMIT = 1 << 31
"""Exclusive maximum of the bytes of a tile; a host program stores them in the 32-bit field `tile_bytes`."""


def tiles_of(export: Operation) -> tuple[int, ...]:
    """Return for each binding the number of bytes that one workgroup accesses; () if the export does not state them.

    The number 0 states that a workgroup may access any bytes of the binding. An element of the attribute that is no
    integer is returned as -1, which `check_tiles` rejects.
    """
    stated = export.attributes.get(TILES)
    if not isinstance(stated, ArrayAttr):
        return ()
    return tuple(n.value.data if isinstance(n, IntegerAttr) else -1 for n in stated)


def check_tiles(export: Operation, bindings: int | None = None) -> None:
    """Raise VerifyException if an export has `pyd.tiles` that are not a list with one valid size per binding.

    `bindings` is the number of bindings; None if it is not known, so that only the sizes are checked.
    """
    stated = export.attributes.get(TILES)
    if stated is None:
        return
    sizes = tiles_of(export)
    if not sizes or not all(0 <= size < _TILE_BYTES_LIMIT for size in sizes):
        raise VerifyException(f"{TILES} is the bytes of each binding that a workgroup has, 0 for any, got {stated}")
    if bindings is not None and len(sizes) != bindings:
        raise VerifyException(f"{TILES} has {len(sizes)} sizes, the layout has {bindings} bindings")
