"""PTX instructions in which the lanes of a warp exchange values: shfl, vote, match, redux, elect. A handler returns a
closure `step(regs)`, which runs the instruction for all threads of a frame: those that execute it together. A slot is
an index in `regs`: regs[slot] is an operand, an array with an element per thread or a scalar for all of them, and
regs[FRAME_SLOT] is the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step, pair
from pydispatch.runtime.simulators.ptx.elements import BOOL, UNSIGNED, dtype_of
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.registry import handles
from pydispatch.runtime.simulators.ptx.threads import LANE_BITS, LANE_MASK, WARP_LANES


def _require_in_mask(instruction: Instruction, frame: Frame, masks: Any, lane: Any) -> None:
    """Report a fault for a thread that is not in its own member mask: its result is undefined.

    Args:
        instruction: The instruction, for the message.
        frame: The threads that execute it.
        masks: Member mask of each thread, u32 [n], or one for all.
        lane: Lane of each thread in its warp, 0 to 31, int64 [n].
    """
    excluded = (masks >> lane.astype(np.uint32)) & np.uint32(1) == 0
    if excluded.any():
        position = int(np.argmax(excluded))
        frame.fault(
            instruction,
            position,
            f"the mask {int(np.broadcast_to(masks, frame.n)[position]):#010x} leaves out lane {int(lane[position])}",
        )


def _ballot(frame: Frame, values: Any, masks: Any) -> tuple[Any, Any]:
    """Return two sets of lanes for each thread, u32 [n] with a bit for each lane of its warp.

    The first has the lanes in the thread's mask whose value is true, the second all lanes in the mask that execute the
    instruction.

    Args:
        frame: The threads that execute the instruction.
        values: Predicate of each thread, bool [n], or one for all.
        masks: Member mask of each thread, u32 [n], or one for all.
    """
    lanes = frame.batch.lane_numbers()[frame.threads]  # numbered through all warps of the batch
    bits = np.zeros((2, frame.batch.warps * WARP_LANES), bool)
    bits[0, lanes] = values
    bits[1, lanes] = True
    words = np.packbits(bits, axis=1, bitorder="little").view("<u4")[:, lanes >> LANE_BITS]
    return words[0] & masks, words[1] & masks


ALL_LANES = 0xFFFFFFFF
"""Member mask with all 32 lanes of a warp."""
SEGMENT_SHIFT = 8
"""Position in the last operand of shfl of the mask of segments; its low bits are the last lane of a segment."""


SourceLanes = Callable[[Any, Any, Any, Any], tuple[Any, Any]]
"""Function (lane, distance, segment, limit) → (lane that it reads, whether that is in range).

All are arrays over the threads. `segment` is a mask of the bits of a lane's number that name its segment: 0b11000 for
four segments of 8 lanes. `limit` is the index in the segment of the last lane that may be read (for "up", of the first
one). For "idx" the distance is an index in the segment.
"""


def _lane_above(lane: Any, distance: Any, segment: Any, limit: Any) -> tuple[Any, Any]:
    """Return the source lane of shfl.up, lane - distance, and whether it is at least lane `limit` of its segment."""
    source = lane - distance
    return source, source >= _in_segment(lane, limit, segment)


def _lane_below(lane: Any, distance: Any, segment: Any, limit: Any) -> tuple[Any, Any]:
    """Return the source lane of shfl.down, lane + distance, and whether it is at most lane `limit` of its segment."""
    source = lane + distance
    return source, source <= _in_segment(lane, limit, segment)


def _lane_across(lane: Any, distance: Any, segment: Any, limit: Any) -> tuple[Any, Any]:
    """Return the source lane of shfl.bfly, lane XOR distance, and whether it is at most lane `limit` of its segment."""
    source = lane ^ distance
    return source, source <= _in_segment(lane, limit, segment)


def _lane_at(lane: Any, index: Any, segment: Any, limit: Any) -> tuple[Any, Any]:
    """Return the source lane of shfl.idx, `index` in the segment, and whether it is at most lane `limit` of it."""
    source = _in_segment(lane, index, segment)
    return source, source <= _in_segment(lane, limit, segment)


def _in_segment(lane: Any, index: Any, segment: Any) -> Any:
    """Return the lane at an index in the segment of a lane.

    segment: mask of the bits of a lane's number that name its segment; the other bits are the index. With the mask
    0b11000, index 2 in the segment of lane 13 (0b01101) is lane 10 (0b01010).
    """
    return (lane & segment) | (index & ~segment)


_SHUFFLES: dict[str, SourceLanes] = {
    "up": _lane_above, "down": _lane_below, "bfly": _lane_across, "idx": _lane_at,
}  # fmt: skip
"""Modifier of shfl → function that returns the lane to read."""


@handles("shfl")
def shuffle(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Return the closure of shfl, such as `shfl.sync.down.b32 d|p, value, distance, clamp, mask`.

    Lane l reads `value` of another lane: l - distance (up), l + distance (down) or l XOR distance (bfly); for idx, the
    third operand is the index of that lane in the reader's segment. p is whether the lane is in range; if not, d is the
    reader's own value. The value of a lane that does not execute the instruction is undefined; here it is the reader's
    own.

    `clamp` divides the warp into segments. Its bits 8 to 12 are the mask of those bits of a lane that name its segment.
    Its bits 0 to 4 are the index in a segment of the last lane that may be read (of the first one for up).

    Example:
        0x181f: the segment bits 0b11000 make four segments of 8 lanes. shfl.down by 3 in lane 6 would read lane 9,
        beyond lane 7, the last of its segment: d is the value of lane 6, and p is false. 0x1f: one segment of 32 lanes.
    """
    words = [m for m in instruction.modifiers if m != "sync"]
    if len(words) != 2 or words[0] not in _SHUFFLES or words[1] != "b32":
        builder.fail(instruction)
    sync = "sync" in instruction.modifiers
    destination, value, lane_operand, clamp, *masks = builder.operands(instruction, 5 if sync else 4)
    value_result, valid_result = pair(destination)  # d and p of `d|p`
    value_slot = builder.source(instruction, value, "u32")
    lane_slot = builder.source(instruction, lane_operand, "u32")
    clamp_slot = builder.source(instruction, clamp, "u32")
    mask = builder.source(instruction, masks[0], "u32") if sync else -1  # -1: no mask
    target = builder.target(instruction, value_result, "u32")
    valid_target = builder.target(instruction, valid_result, BOOL) if valid_result is not None else -1
    source_of = _SHUFFLES[words[0]]

    def read_lanes(regs: list[Any]) -> None:
        """Store the value of another lane for each thread, and whether that lane is in range.

        `source_of` is the function of the mode (up, down, bfly, idx), a `SourceLanes`. It returns the lane to read and
        whether that is in range, from the own lane, the distance, and the two fields of `clamp`. `mask` and
        `valid_target` are -1 if the instruction has no member mask, or no predicate as a result.
        """
        frame = regs[FRAME_SLOT]
        lane_indices = frame.batch.lane_numbers()[frame.threads]  # warp * 32 + lane, numbered through the batch
        lane = lane_indices & LANE_MASK  # in the warp, 0 to 31
        if mask >= 0:
            _require_in_mask(instruction, frame, regs[mask], lane)
        # Find the lane that each thread reads.
        clamps = regs[clamp_slot].astype(np.int64)
        segment, limit = (clamps >> SEGMENT_SHIFT) & LANE_MASK, clamps & LANE_MASK
        distance = regs[lane_slot].astype(np.int64) & LANE_MASK
        source, valid = source_of(lane, distance, segment, limit)
        source = np.where(valid, source, lane)
        # Read its value. Arrays are indexed by position in the frame, which is -1 for a lane whose thread does not
        # execute the instruction. `lane_indices & ~LANE_MASK` is the first lane of the thread's warp.
        source_positions = frame.lanes()[(lane_indices & ~LANE_MASK) + source]
        source_positions = np.where(source_positions < 0, np.arange(frame.n), source_positions)
        regs[target][...] = np.broadcast_to(regs[value_slot], frame.n)[source_positions]
        if valid_target >= 0:
            regs[valid_target][...] = valid

    return read_lanes


@handles("vote")
def vote(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of vote over the lanes of a mask: whether a predicate holds in all of them (.all), in any
    (.any), in all or none (.uni), or the mask of the lanes where it holds (.ballot).
    """
    words = [m for m in instruction.modifiers if m != "sync"]
    sync = "sync" in instruction.modifiers
    if len(words) != 2 or (words[0], words[1]) not in (
        ("all", "pred"), ("any", "pred"), ("uni", "pred"), ("ballot", "b32"),
    ):  # fmt: skip
        builder.fail(instruction)
    mode = words[0]
    result_type, mask_types = "u32" if mode == "ballot" else BOOL, ["u32"] if sync else []
    d, a, *masks = builder.bind(instruction, result_type, BOOL, *mask_types)
    mask = masks[0] if sync else builder.constant(np.uint32(ALL_LANES))

    def store_vote(regs: list[Any]) -> None:
        """Store the result of the vote in d for each thread: a mask for .ballot, else a bool.

        `a` and `mask` are the slots of the predicate and the member mask, which only a vote with .sync (`sync`) has.
        """
        frame = regs[FRAME_SLOT]
        if sync:
            _require_in_mask(instruction, frame, regs[mask], frame.batch.lane_numbers()[frame.threads] & LANE_MASK)
        # Masks of lanes: those in the mask whose predicate is true, and all in the mask that run the instruction.
        lanes_that_hold, lanes_present = _ballot(frame, regs[a], regs[mask])
        if mode == "ballot":
            regs[d][...] = lanes_that_hold
        elif mode == "all":
            regs[d][...] = lanes_that_hold == lanes_present
        elif mode == "any":
            regs[d][...] = lanes_that_hold != 0
        else:  # .uni: the predicate has the same value in all lanes
            regs[d][...] = (lanes_that_hold == 0) | (lanes_that_hold == lanes_present)

    return store_vote


def _groups(frame: Frame, masks: Any) -> Any:
    """Return the number of each thread's group, int64 [n]. A group is the threads of a warp that have the same mask."""
    warp = frame.batch.lane_numbers()[frame.threads] >> LANE_BITS
    keys = warp * (1 << 32) + np.broadcast_to(masks, frame.n).astype(np.int64)
    return np.unique(keys, return_inverse=True)[1].reshape(-1)


def _lanes_of_class(classes: Any, lane: Any) -> Any:
    """Return for each thread the mask of the lanes of all threads of its class, int64 [n].

    Args:
        classes: Number of the class of each thread, from 0; all its threads are in one warp.
        lane: Lane of each thread in its warp.
    """
    masks = np.zeros(int(classes.max()) + 1, np.int64)
    np.bitwise_or.at(masks, classes, np.int64(1) << lane)
    return masks[classes]


@handles("match")
def match(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of match over the lanes of a mask.

    `match.any d, a, mask` returns the mask of the lanes with the same value of a. `match.all d|p, a, mask` returns the
    mask if all lanes have the same value, else 0; p is whether they have it.

    Example:
        With the mask 0b1111 and a = 5, 7, 5, 5 in lanes 0 to 3, match.any returns 0b1101 in lanes 0, 2 and 3, and
        0b0010 in lane 1. match.all returns 0 in all of them.
    """
    forms = [(mode, "sync", type_) for mode in ("any", "all") for type_ in ("b32", "b64")]
    if instruction.modifiers not in forms:
        builder.fail(instruction)
    mode, _, type_ = instruction.modifiers
    destination, value, mask_operand = builder.operands(instruction, 3)
    mask_result, agree_result = pair(destination)  # d and p of `d|p`
    value_slot = builder.source(instruction, value, type_)
    mask = builder.source(instruction, mask_operand, "u32")
    target = builder.target(instruction, mask_result, "u32")
    agree_target = builder.target(instruction, agree_result, BOOL) if agree_result is not None else -1
    is_all = mode == "all"

    def match_values(regs: list[Any]) -> None:
        """Store the lanes of the mask that have a thread's value; with `all`, the mask if all have it, else 0.

        `value_slot`, `mask`, `target` and `agree_target` are the slots of the value, the member mask, the result, and
        the predicate of match.all (-1 for none).
        """
        frame = regs[FRAME_SLOT]
        lane = frame.batch.lane_numbers()[frame.threads] & LANE_MASK
        _require_in_mask(instruction, frame, regs[mask], lane)
        groups = _groups(frame, regs[mask])  # threads with the same number are in one warp and have the same mask
        # Number the distinct values 0, 1, ..., and then the distinct pairs (group, value).
        values = np.unique(np.broadcast_to(regs[value_slot], frame.n), return_inverse=True)[1].reshape(-1)
        # An index of a value is less than frame.n, so different pairs have different sums.
        group_and_value = np.unique(groups * frame.n + values, return_inverse=True)[1].reshape(-1)
        # The mask of the lanes whose threads have the same number.
        lanes_with_value = _lanes_of_class(group_and_value, lane)
        if is_all:
            agree = lanes_with_value == _lanes_of_class(groups, lane)
            regs[target][...] = np.where(agree, np.broadcast_to(regs[mask], frame.n), 0)
            if agree_target >= 0:
                regs[agree_target][...] = agree
        else:
            regs[target][...] = lanes_with_value

    return match_values


_REDUX: dict[str, Callable[..., Any]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
"""Modifier of redux → NumPy function that combines two values."""


@handles("redux")
def redux(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of redux, such as `redux.sync.add.s32 d, a, mask`: a reduction of a over the lanes of a mask.

    Each lane gets the result for its own mask.
    """
    words = [m for m in instruction.modifiers if m != "sync"]
    if len(words) != 2 or words[0] not in _REDUX or words[1] not in ("u32", "s32", "b32"):
        builder.fail(instruction)
    d, a, mask = builder.bind(instruction, words[1], words[1], "u32")
    ufunc, dtype = _REDUX[words[0]], dtype_of(words[1])

    def reduce_lanes(regs: list[Any]) -> None:
        """Store in d, for each thread, the values of a in all lanes of the thread's mask, combined by `ufunc`."""
        frame = regs[FRAME_SLOT]
        _require_in_mask(instruction, frame, regs[mask], frame.batch.lane_numbers()[frame.threads] & LANE_MASK)
        groups = _groups(frame, regs[mask])  # number of the group of each thread: the lanes of one mask
        values = np.broadcast_to(regs[a], frame.n)
        # The total of a group begins as the value of its first thread, because not all operations have a neutral
        # element; then the values of the group's other threads are combined with it.
        first_of_group = np.unique(groups, return_index=True)[1]
        total = values[first_of_group].copy()
        is_other = np.ones(frame.n, bool)
        is_other[first_of_group] = False
        ufunc.at(total, groups[is_other], values[is_other])  # type: ignore[attr-defined]
        regs[d][...] = total[groups].astype(dtype)

    return reduce_lanes


@handles("elect")
def elect(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `elect.sync d|p, mask`: d is the lowest lane of the mask, p whether it is the own lane."""
    if instruction.modifiers != ("sync",):
        builder.fail(instruction)
    destination, mask_operand = builder.operands(instruction, 2)
    lane_result, is_elected_result = pair(destination)  # d and p of `d|p`
    mask, target = builder.source(instruction, mask_operand, "u32"), builder.target(instruction, lane_result, "u32")
    is_elected_target = builder.target(instruction, is_elected_result, BOOL)

    def elect_lane(regs: list[Any]) -> None:
        """Store the lowest lane of the mask that executes the instruction, and whether the thread has that lane."""
        frame = regs[FRAME_SLOT]
        lane = frame.batch.lane_numbers()[frame.threads] & LANE_MASK
        _, participants = _ballot(frame, np.ones(frame.n, bool), regs[mask])
        lowest_bit = participants & (~participants + np.uint32(1))  # x & -x
        lowest = np.bitwise_count(lowest_bit - np.uint32(1))  # its index: the ones of 0b1000 - 1 are the bits below
        regs[target][...] = lowest
        regs[is_elected_target][...] = lowest == lane

    return elect_lane


@handles("bar", "barrier")
def warp_barrier(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Simulate bar.warp.sync. The scheduler runs it once all lanes in the mask have arrived."""
    if instruction.modifiers != ("warp", "sync"):
        builder.fail(instruction)
    mask = builder.source(instruction, builder.operands(instruction, 1)[0], UNSIGNED[4])

    def check_lanes(regs: list[Any]) -> None:
        """Check that the mask contains the executing lanes. There is nothing to wait for: the threads of a frame run
        together.
        """
        frame = regs[FRAME_SLOT]
        lane_in_warp = frame.batch.lane_numbers()[frame.threads] & LANE_MASK  # lanes are numbered through the batch
        _require_in_mask(instruction, frame, regs[mask], lane_in_warp)
        if frame.batch.races is not None:
            frame.batch.races.warp_sync(frame)

    return check_lanes
