"""Plan of a reduction over sliding windows along channels: its block, unrolled steps, chunk of channels, and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineMap

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured

MAX_UNROLLED_STEPS = 32
"""Maximum number of iterations of the innermost reductions that are unrolled; more make code that is too long."""

MAX_BLOCK_STEPS, MAX_BLOCK_POSITIONS = 100, 4
"""Maximum number of steps in the unrolled code of a block, positions * unrolled steps, and of the block's positions."""

MIN_CHANNELS = 8
"""Minimum number of channels for which vectors along channels pay."""

WEIGHTS_BYTES = 24 << 10
"""Maximum size of a window's weights for a chunk of channels: they stay in the first-level cache for all rows of a
tile."""

TILE_POSITIONS = 64
"""Maximum number of positions of a tile along the dimension before the channels. A tile computes its positions in
unrolled blocks."""

WORKGROUP_BYTES = 1 << 15
"""Maximum size in bytes of the results of a workgroup with several tiles; a larger maximum makes fewer workgroups. A
tile with larger results is a workgroup of its own."""


@dataclass(frozen=True)
class WindowPlan:
    """Plan of a reduction over sliding windows. A dimension (`_dim`) is the number of a loop of `generic`.

    `plan_of` creates it. For the depthwise convolution out[n, y, x, c] += image[n, y + ky, x + kx, c] * w[ky, kx, c] of
    f32, with loops (n, y, x, c, ky, kx), a result of 2 x 56 x 56 x 128 elements and windows of 3 x 3, the plan is

        channel_dim=3, position_dim=2, outer_dims=(0, 1), unrolled_dims=(4, 5), looped_dims=(), block_positions=4,
        channels_per_chunk=128

    so that vectors are along c, and the unrolled code of a block adds 9 steps to the sums of 4 neighbouring x.

    Attributes:
        generic: The reduction.
        channel_dim: The dimension that vectors are along, the innermost one of the result.
        position_dim: The dimension of the result before `channel_dim`, along which a block has several neighbouring
            indices; None if the result has no other dimension.
        outer_dims: The other dimensions of the result with a size above 1, outermost first.
        unrolled_dims: Reduced dimensions whose loops are unrolled: the innermost ones.
        looped_dims: Reduced dimensions that are loops around the unrolled ones.
        block_positions: Number of indices along `position_dim` of a block, whose sums are computed side by side.
        channels_per_chunk: Number of channels that are computed for all positions of a tile before the next channels
            are, so that their weights stay in the first-level cache.
    """

    generic: Structured
    channel_dim: int
    position_dim: int | None
    outer_dims: tuple[int, ...]
    unrolled_dims: tuple[int, ...]
    looped_dims: tuple[int, ...]
    block_positions: int
    channels_per_chunk: int


def plan_of(generic: Structured, frame: Frame) -> WindowPlan | None:
    """Return the plan of a reduction over windows whose vectors are along channels; None for other reductions.

    The channels are the last dimension of the result whose size is not 1. Return None, too, if the channels are not
    contiguous or fewer than `MIN_CHANNELS`, if several elements of the result share a byte, or if a parallel loop
    indexes no result.

    Args:
        generic: The reduction.
        frame: The kernel of the dispatch function that has the reduction, with the values that it returns.
    """
    sizes = [s if isinstance(s, int) else None for s in loop_sizes(frame.elements, generic)]
    # `reduced_loops` are the loops that index no result: a parallel one among them is no reduction.
    has_unindexed_parallel_loop = any(generic.iterators[d] == "parallel" for d in generic.reduced_loops)
    shares_bytes = bits_of(tensor_type(generic.op.results[0]).element_type) < 8
    # The loops that index the result, outermost first, without loops of one iteration.
    dims = [r.position for r in generic.output_maps[0].results if isinstance(r, AffineDimExpr)]
    dims = [d for d in dims if sizes[d] != 1]
    if has_unindexed_parallel_loop or shares_bytes or not dims:
        return None
    channel_dim, position_dim = dims[-1], dims[-2] if len(dims) > 1 else None
    channel_count = sizes[channel_dim]
    has_few_channels = channel_count is not None and channel_count < MIN_CHANNELS
    if has_few_channels or not _has_windows_with_contiguous(generic, channel_dim, sizes):
        return None
    # The weights of a window for one channel are estimated as one element for each unrolled step.
    unrolled_dims = _unrolled(generic.reduced_loops, sizes)
    steps = max(1, prod(sizes[d] or 0 for d in unrolled_dims))  # `or 0` for the type only: these sizes are known
    element_bytes = max(bits_of(tensor_type(v).element_type) // 8 for v in (*generic.op.results, *frame.returned))
    return WindowPlan(
        generic=generic,
        channel_dim=channel_dim,
        position_dim=position_dim,
        outer_dims=tuple(d for d in dims if d not in (channel_dim, position_dim)),
        unrolled_dims=unrolled_dims,
        looped_dims=tuple(d for d in generic.reduced_loops if d not in unrolled_dims),
        block_positions=_positions_of_block(1 if position_dim is None else sizes[position_dim], steps),
        channels_per_chunk=_channels_of_chunk(channel_count, bytes_per_channel=element_bytes * steps),
    )


def _positions_of_block(position_count: int | None, steps: int) -> int:
    """Return the number of positions of a block, whose code has `steps` unrolled steps for each position.

    The number is the greatest for which the code has at most `MAX_BLOCK_STEPS` steps, up to `MAX_BLOCK_POSITIONS`, and
    to the `position_count` of the result (None if it is unknown).
    """
    most = max(1, min(MAX_BLOCK_POSITIONS, MAX_BLOCK_STEPS // steps))
    return most if position_count is None else max(1, min(most, position_count))


def _channels_of_chunk(channel_count: int | None, bytes_per_channel: int) -> int:
    """Return the number of channels of a chunk, so that the weights of its unrolled steps stay in the cache.

    `channel_count` is None if it is unknown. `bytes_per_channel` is the size of these weights for one channel.
    """
    channels = max(64, WEIGHTS_BYTES // bytes_per_channel // 64 * 64)  # multiples of 64 are whole vectors of any width
    # Up to twice as many channels are one chunk: otherwise the second of two chunks could be very short.
    if channel_count is not None and channel_count <= 2 * channels:
        return max(1, channel_count)
    return channels


def _unrolled(loops: Sequence[int], sizes: Sequence[int | None]) -> tuple[int, ...]:
    """Return the innermost of the reduced `loops`: as many as have at most `MAX_UNROLLED_STEPS` iterations in total.

    Args:
        loops: Numbers of the reduced loops, outermost first.
        sizes: Size of each loop of the reduction; None if it is unknown.
    """
    unrolled: tuple[int, ...] = ()
    steps = 1
    for dim in reversed(loops):
        size = sizes[dim]
        if size is None or steps * size > MAX_UNROLLED_STEPS:
            break
        unrolled = (dim, *unrolled)
        steps *= max(1, size)  # with a factor of 0, loops of any size around an empty loop would be unrolled
    return unrolled


def _has_windows_with_contiguous(generic: Structured, channels: int, sizes: Sequence[int | None]) -> bool:
    """Return whether the reduction has windows, and its inputs have adjacent channels next to each other in memory.

    An input with windows has a computed index, such as y + ky. At least one input must have windows, and all inputs
    with windows must depend on the loop `channels`, here c: image[n, y + ky, x + kx, c] with the weights w[ky, kx, c]
    is accepted. image[n, c, y + ky, x + kx] is not, since its neighbours in memory are those along x. Inputs that do
    not depend on `channels`, or that the body does not read, do not matter. `sizes` has the size of each loop, None if
    it is unknown.
    """
    # The maps of the tensors that the body reads. Those of tensors of rank 0 are empty, and have neither.
    used_inputs = [i for i in range(len(generic.inputs)) if generic.block.args[i].uses]
    maps = [generic.maps[i] for i in used_inputs if isinstance(generic.inputs[i].type, TensorType)]
    window_maps = [m for m in maps if any(isinstance(r, AffineBinaryOpExpr) for r in m.results)]
    if not window_maps or any(channels not in dims_in(m) for m in window_maps):
        return False
    channel_maps = [m for m in maps if channels in dims_in(m)]
    return all(_is_contiguous(m, channels, sizes) for m in channel_maps)


def _is_contiguous(map: AffineMap, dim: int, sizes: Sequence[int | None]) -> bool:
    """Return whether neighbours along loop `dim` are neighbours in the row-major memory of an input.

    The loop must be the last index of the input, dimensions of size 1 aside, and in no other index.

    Args:
        map: Indices of the loops -> indices of the input.
        dim: Number of the loop.
        sizes: Size of each loop; None if it is unknown.
    """
    indices = [r for r in map.results if not (isinstance(r, AffineDimExpr) and sizes[r.position] == 1)]
    indices_with_dim = [r for r in indices if any(x == AffineDimExpr(dim) for x in r.dfs())]
    return len(indices_with_dim) == 1 and indices[-1] == AffineDimExpr(dim)


class Division(NamedTuple):
    """Division of the rows of a result into tiles: a result [n, y, x, c] has n * y rows of x positions.

    Attributes:
        tiles_of_row: Number of tiles of a row.
        tile_length: Number of positions of a tile; the last tile of a row may have fewer.
        tiles: Number of tiles of all rows.
    """

    tiles_of_row: Index
    tile_length: Index
    tiles: Index


def division_of(plan: WindowPlan, build: Builder, sizes: Sequence[Index]) -> Division:
    """Return the division of the result's rows into tiles of at most `TILE_POSITIONS`, rounded up to whole blocks.

    If the length of a row is known, all its tiles have the same length, a multiple of the positions of a block: with
    blocks of 4, a row of 100 positions has 2 tiles of 52, of which the last one ends early. `sizes` has the size of
    each loop of the reduction.
    """
    row_length: Index = 1 if plan.position_dim is None else sizes[plan.position_dim]
    tile_length: Index = TILE_POSITIONS
    if isinstance(row_length, int):
        fewest_tiles = ceil_quotient(max(1, row_length), TILE_POSITIONS)
        equal_share = ceil_quotient(max(1, row_length), fewest_tiles)
        tile_length = ceil_quotient(equal_share, plan.block_positions) * plan.block_positions
    tiles_of_row = build.ceil_quotient(row_length, tile_length)
    rows = build.product([sizes[d] for d in plan.outer_dims])
    return Division(tiles_of_row=tiles_of_row, tile_length=tile_length, tiles=build.times(rows, tiles_of_row))


def tiles_of_workgroup(plan: WindowPlan, build: Builder, sizes: Sequence[Index]) -> Index:
    """Return the number of tiles of a workgroup, at least 1: as many as have `WORKGROUP_BYTES` of 4-byte results."""
    division = division_of(plan, build, sizes)
    tile_length = 1 if plan.position_dim is None else division.tile_length
    tile_bytes = build.times(build.times(tile_length, sizes[plan.channel_dim]), 4)
    return build.most(build.quotient(WORKGROUP_BYTES, build.most(tile_bytes, 1)), 1)


def workgroups_of(plan: WindowPlan, build: Builder, sizes: Sequence[Index]) -> Index:
    """Return the number of workgroups: the number of tiles, divided by the tiles of a workgroup and rounded up."""
    return build.ceil_quotient(division_of(plan, build, sizes).tiles, tiles_of_workgroup(plan, build, sizes))
