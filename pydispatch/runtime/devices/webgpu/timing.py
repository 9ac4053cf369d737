"""Time of each command of a WebGPU recording, by timestamps of the device or by the clock of the process."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch.runtime.devices.webgpu import api

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice
    from pydispatch.runtime.devices.webgpu.recorded_plan import HostCommands, RecordedPlan

_MAX_STAMPS = 4096
"""Timestamps of one query set at most, a limit of WebGPU."""


def seconds_of(context: LogicalDevice, recorded: RecordedPlan, host: HostCommands | None) -> list[float]:
    """Run a recording once, and return the seconds of each command.

    Without timestamps within an encoder, each command is a submission of its own, measured by the host's clock.

    Args:
        context: The device.
        recorded: Recording of a timed plan. Its `pieces` are compute passes, calls with an encoder, and host commands;
            `marks` has, for each command, the end of its range in `pieces`.
        host: Caller of the host commands in the recording; None if it has none.
    """
    bounds = [0, *recorded.marks]
    spans = [recorded.pieces[first:end] for first, end in itertools.pairwise(bounds)]  # the pieces of each command
    if "timestamp-query-inside-encoders" not in context.enabled:
        return [_time_alone(context, recorded, span, host) for span in spans]
    seconds: list[float] = []
    most_commands = _MAX_STAMPS - 1  # a stamp before the commands, and one after each
    for first in range(0, len(spans), most_commands):
        seconds += _time_with_stamps(context, recorded, spans[first : first + most_commands], host)
    return seconds


def _time_alone(context: LogicalDevice, recorded: RecordedPlan, span: list[Any], host: HostCommands | None) -> float:
    """Run one command in a submission of its own, and return its seconds by the host's clock, with the wait for it.

    span: the pieces of the recording that are the command.
    """
    context.wait()
    begin = time.perf_counter()
    recorded.submit(span, context.name, host)
    context.wait()
    return time.perf_counter() - begin


def _time_with_stamps(
    context: LogicalDevice, recorded: RecordedPlan, spans: list[list[Any]], host: HostCommands | None
) -> list[float]:
    """Run commands with a timestamp before the first and after each, and return the seconds of each.

    spans: the pieces of each command, at most _MAX_STAMPS - 1 commands. A piece is a compute pass, a host command, or a
    tuple (function, arguments after the encoder).
    """
    # Create the queries, the buffer that receives their values on the device, and a staging buffer for the host.
    ffi, lib, count = context.ffi, context.lib, len(spans) + 1
    query_info = ffi.new("WGPUQuerySetDescriptor*", {"type": api.TIMESTAMPS, "count": count})
    stamps = np.zeros(count, np.uint64)
    usage = api.QUERY_RESOLVE | api.COPY_SOURCE
    buffer_info = ffi.new("WGPUBufferDescriptor*", {"usage": usage, "size": stamps.nbytes})
    with ExitStack() as releases:
        with context.lock:
            context.errors.begin()
            queries = lib.wgpuDeviceCreateQuerySet(context.device, query_info)
            releases.callback(lib.wgpuQuerySetRelease, queries)
            buffer = lib.wgpuDeviceCreateBuffer(context.device, buffer_info)
            releases.callback(lib.wgpuBufferRelease, buffer)
            context.errors.end(f"{context.name}: {count} timestamps")
        stage = context.readback.acquire(stamps.nbytes)
        releases.callback(context.release, stage)
        # Run the commands with the queries between them, and read the values.
        write_timestamp: Any = lib.wgpuCommandEncoderWriteTimestamp
        pieces: list[Any] = [(write_timestamp, queries, 0)]
        for index, span in enumerate(spans):
            pieces += [*span, (write_timestamp, queries, index + 1)]
        pieces.append((lib.wgpuCommandEncoderResolveQuerySet, queries, 0, count, buffer, 0))
        pieces.append((lib.wgpuCommandEncoderCopyBufferToBuffer, buffer, 0, stage.buffer, 0, stamps.nbytes))
        recorded.submit(pieces, context.name, host)
        with context.lock:
            context.read_mapped(stage, stamps, stamps.nbytes)
    seconds_per_tick = lib.wgpuQueueGetTimestampPeriod(context.queue) * 1e-9
    # WebGPU allows timestamps that decrease; such a command counts as 0 seconds.
    return [max(0, int(end) - int(begin)) * seconds_per_tick for begin, end in itertools.pairwise(stamps)]
