"""PTX special registers, kernel parameters and addresses of local variables. A batch is the thread blocks of a launch
that are simulated together; values that differ between threads are arrays with an element for each of its n threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pydispatch.errors import ArtifactError
from pydispatch.runtime.simulators.ptx.builder import Special
from pydispatch.runtime.simulators.ptx.memory import PARAM
from pydispatch.runtime.simulators.ptx.threads import LANE_BITS, LANE_MASK, ThreadBatch, coordinates

_AXES = {"x": 0, "y": 1, "z": 2}
"""Component of a special register, such as the y of %tid.y → axis of a block or grid."""


def _thread_index(batch: ThreadBatch, axis: int) -> Any:
    """Return %tid of each thread along an axis: its index in its block."""
    thread_in_block = np.tile(np.arange(batch.threads_per_block), batch.count)
    return coordinates(thread_in_block, batch.launch.block)[axis].astype(np.uint32)


def _block_index(batch: ThreadBatch, axis: int) -> Any:
    """Return %ctaid of each thread along an axis: the index of its block in the grid."""
    block = batch.first + batch.block_indices()
    return coordinates(block, batch.launch.grid)[axis].astype(np.uint32)


def _lane(batch: ThreadBatch) -> Any:
    """Return the lane of each thread in its warp, 0 to 31."""
    return (batch.lane_numbers() & LANE_MASK).astype(np.uint32)


def _warp(batch: ThreadBatch) -> Any:
    """Return %warpid of each thread: the index of its warp in its block."""
    return (batch.lane_numbers() >> LANE_BITS).astype(np.uint32) % np.uint32(batch.warps_per_block)


def _mask(kind: str) -> Callable[[ThreadBatch], Any]:
    """Return the function that computes %lanemask_`kind` of each thread.

    kind: comparison with the thread's own lane that sets the bit of a lane: "eq", "lt", "le", "gt" or "ge".
    """

    def masks_of_threads(batch: ThreadBatch) -> Any:
        """Return for each thread the mask of the lanes that compare by `kind` with its own lane, uint32 [n]."""
        own = np.uint64(1) << _lane(batch).astype(np.uint64)
        below = own - np.uint64(1)
        masks = {"eq": own, "lt": below, "le": below | own, "gt": ~(below | own), "ge": ~below}
        return masks[kind].astype(np.uint32)

    return masks_of_threads


def _block_size(batch: ThreadBatch, axis: int) -> int:
    """Return the number of threads of a block along an axis: %ntid."""
    return batch.launch.block[axis]


def _grid_size(batch: ThreadBatch, axis: int) -> int:
    """Return the number of blocks of the grid along an axis: %nctaid and %nclusterid."""
    return batch.launch.grid[axis]


def _one(batch: ThreadBatch) -> int:
    """Return 1: a cluster has one block, and the simulated GPU one multiprocessor."""
    return 1


def _zero(batch: ThreadBatch) -> int:
    """Return 0: the rank in a cluster of one block, whether clusters were requested, or the id of the grid."""
    return 0


_THREADS: dict[str, Callable[[ThreadBatch], Any]] = {
    "%laneid": _lane,
    "%warpid": _warp,
    "%smid": lambda batch: np.zeros(batch.n, np.uint32),
    **{f"%lanemask_{kind}": _mask(kind) for kind in ("eq", "lt", "le", "gt", "ge")},
    **{f"%tid.{name}": partial(_thread_index, axis=axis) for name, axis in _AXES.items()},
    **{f"%ctaid.{name}": partial(_block_index, axis=axis) for name, axis in _AXES.items()},
}
"""Special registers whose value differs between threads → function that returns the value of each thread of a batch."""

_UNIFORM: dict[str, Callable[[ThreadBatch], int]] = {
    **{f"%ntid.{name}": partial(_block_size, axis=axis) for name, axis in _AXES.items()},
    **{f"%nctaid.{name}": partial(_grid_size, axis=axis) for name, axis in _AXES.items()},
    **{f"%cluster_nctaid.{name}": _one for name in _AXES},
    **{f"%cluster_ctaid.{name}": _zero for name in _AXES},
    **{f"%nclusterid.{name}": partial(_grid_size, axis=axis) for name, axis in _AXES.items()},
    "%cluster_ctarank": _zero,
    "%cluster_nctarank": _one,
    "%is_explicit_cluster": _zero,
    "%nwarpid": lambda batch: 64,  # warps of a multiprocessor, as on GPUs
    "%nsmid": _one,
    "%gridid": _zero,
    "%dynamic_smem_size": lambda batch: batch.launch.dynamic_shared,
    "%total_smem_size": lambda batch: batch.launch.shared_bytes,
    "%aggr_smem_size": lambda batch: batch.launch.shared_bytes,
    "WARP_SZ": lambda batch: 32,
}
"""Special registers with one value for all threads of a launch → function that returns it. A cluster is one block."""

CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
"""Special registers that count time."""


def is_special(name: str) -> bool:
    """Return whether a name is that of a special register, such as %tid.x, or of the constant WARP_SZ."""
    return name in _THREADS or name in _UNIFORM or name in CLOCKS


def clock(name: str) -> int:
    """Return the value of a register of `CLOCKS`: nanoseconds of the host, or their low or high 32 bits."""
    # %clock and %clock64 count from an unspecified time; %globaltimer is the time of day.
    now = time.perf_counter_ns() if "clock" in name else time.time_ns()
    if name.endswith("_hi"):
        return now >> 32
    return now if name in ("%clock64", "%globaltimer") else now & 0xFFFFFFFF


def value(batch: ThreadBatch, module: str, threads: Any, local_offset: int, special: Special) -> Any:
    """Return a special value: a scalar if it is uniform across threads, else an array over `threads`.

    A special value is one that only the launch or the thread determines: %tid.x is [0, 1, 2, ...] for the first threads
    of a block, and %ntid.x the scalar 128 in a launch with blocks of 128 threads.

    Args:
        batch: The threads that run.
        module: Name of the module, for errors.
        threads: Indices in the batch of the threads whose values are returned.
        local_offset: Where the function's local memory begins in the local memory of a thread, in bytes. As every
            thread has local memory of its own, such an offset is an address in it, the same for all threads.
        special: The value to return, by its name: a special register; or "parameter" (value in the memory of kernel
            parameters), "param" (generic address in that memory) or "local" (address of a local variable), at
            `special.offset` bytes from the start of the parameters or of the function's local memory.

    Raises:
        ArtifactError: There is no such register.
    """
    name, dtype = special.name, special.dtype
    launch = batch.launch
    if name == "parameter":
        # Zeros stand in for bytes that an instruction reads beyond the end of the parameters.
        data = launch.params.data[special.offset : special.offset + dtype.itemsize]
        return np.frombuffer(data.tobytes().ljust(dtype.itemsize, b"\0"), dtype)[0]
    if name == "param":
        return np.uint64(PARAM + special.offset).astype(dtype)
    if name == "local":
        return np.uint64(local_offset + special.offset).astype(dtype)
    if name in _UNIFORM:
        return np.uint64(_UNIFORM[name](batch)).astype(dtype)
    values_of = _THREADS.get(name)
    if values_of is None:
        raise ArtifactError(f"'{module}': the interpreter has no register {name}")
    values = batch.per_thread(name, lambda: values_of(batch))
    return values[threads].astype(dtype)
