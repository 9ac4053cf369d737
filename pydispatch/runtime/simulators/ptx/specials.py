"""Special registers, kernel parameters and addresses of local variables, for the threads of a frame."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pydispatch.errors import ArtifactError
from pydispatch.runtime.simulators.ptx.builder import Special
from pydispatch.runtime.simulators.ptx.memory import PARAM
from pydispatch.runtime.simulators.ptx.threads import LANE_BITS, LANE_MASK, ThreadBatch

_AXES = {"x": 0, "y": 1, "z": 2}


def _thread(batch: ThreadBatch, axis: int) -> Any:
    x, y, _ = batch.launch.block
    inside = np.tile(np.arange(batch.threads_per_block), batch.count)
    return (inside % x, inside // x % y, inside // (x * y))[axis].astype(np.uint32)


def _block(batch: ThreadBatch, axis: int) -> Any:
    x, y, _ = batch.launch.grid
    block = batch.first + batch.block_slots()
    return (block % x, block // x % y, block // (x * y))[axis].astype(np.uint32)


def _lane(batch: ThreadBatch) -> Any:
    """Return the lane of each thread in its warp."""
    return (batch.lane_numbers() & LANE_MASK).astype(np.uint32)


def _warp(batch: ThreadBatch) -> Any:
    """Return the warp of each thread in its block."""
    return (batch.lane_numbers() >> LANE_BITS).astype(np.uint32) % np.uint32(batch.warps_per_block)


def _mask(kind: str) -> Callable[[ThreadBatch], Any]:
    """Return a function that makes the mask of the lanes that are in the relation `kind` to the thread's own."""

    def make(batch: ThreadBatch) -> Any:
        """Return the masks of the lanes that are equal to, below or above each thread's own."""
        one = np.uint64(1) << _lane(batch).astype(np.uint64)
        below = one - np.uint64(1)
        masks = {"eq": one, "lt": below, "le": below | one, "gt": ~(below | one), "ge": ~below}
        return masks[kind].astype(np.uint32)

    return make


def _size(batch: ThreadBatch, of: str, axis: int) -> int:
    return (batch.launch.block if of == "block" else batch.launch.grid)[axis]


def _one(batch: ThreadBatch) -> int:
    return 1


def _zero(batch: ThreadBatch) -> int:
    return 0


_THREADS: dict[str, Callable[[ThreadBatch], Any]] = {
    "%laneid": _lane,
    "%warpid": _warp,
    "%smid": lambda batch: np.zeros(batch.n, np.uint32),
    **{f"%lanemask_{kind}": _mask(kind) for kind in ("eq", "lt", "le", "gt", "ge")},
    **{f"%tid.{a}": partial(_thread, axis=k) for a, k in _AXES.items()},
    **{f"%ctaid.{a}": partial(_block, axis=k) for a, k in _AXES.items()},
}

_UNIFORM: dict[str, Callable[[ThreadBatch], int]] = {
    **{f"%ntid.{a}": partial(_size, of="block", axis=k) for a, k in _AXES.items()},
    **{f"%nctaid.{a}": partial(_size, of="grid", axis=k) for a, k in _AXES.items()},
    **{f"%cluster_nctaid.{a}": _one for a in _AXES},
    **{f"%cluster_ctaid.{a}": _zero for a in _AXES},
    **{f"%nclusterid.{a}": partial(_size, of="grid", axis=k) for a, k in _AXES.items()},
    "%cluster_ctarank": _zero,
    "%cluster_nctarank": _one,
    "%is_explicit_cluster": _zero,
    "%nwarpid": lambda batch: 64,
    "%nsmid": _one,
    "%gridid": _zero,
    "%dynamic_smem_size": lambda batch: batch.launch.dynamic_shared,
    "%total_smem_size": lambda batch: batch.launch.shared_bytes,
    "%aggr_smem_size": lambda batch: batch.launch.shared_bytes,
    "WARP_SZ": lambda batch: 32,
}
CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


def is_special(name: str) -> bool:
    return name in _THREADS or name in _UNIFORM or name in CLOCKS


def clock(name: str) -> int:
    """Nanoseconds of the machine: the low or high half for the registers of 32 bits."""
    now = time.perf_counter_ns() if "clock" in name else time.time_ns()
    if name.endswith("_hi"):
        return now >> 32
    return now if name in ("%clock64", "%globaltimer") else now & 0xFFFFFFFF


def value(batch: ThreadBatch, module: str, threads: Any, local: int, what: Special) -> Any:
    """Return a scalar for values uniform across threads, else an array over `threads`.

    module: its name, for errors. local: where local memory of the function begins.
    """
    name, dtype = what.name, what.dtype
    launch = batch.launch
    if name == "parameter":
        data = launch.params.data[what.offset : what.offset + dtype.itemsize]
        return np.frombuffer(data.tobytes().ljust(dtype.itemsize, b"\0"), dtype)[0]
    if name == "param":
        return np.uint64(PARAM + what.offset).astype(dtype)
    if name == "local":
        return np.uint64(local + what.offset).astype(dtype)
    if name in _UNIFORM:
        return np.uint64(_UNIFORM[name](batch)).astype(dtype)
    make = _THREADS.get(name)
    if make is None:
        raise ArtifactError(f"'{module}': the interpreter has no register {name}")
    values = batch.per_thread(name, lambda: make(batch))
    return values[threads].astype(dtype)
