"""Recorded plan: a list of wgpu calls (pieces), which is encoded for each run, since command buffers run only once.

A piece is a copy or a clear, a host command, or a list of launches that form one compute pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pydispatch._core.commands import Custom
from pydispatch.runtime.devices.webgpu.memory import Block

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice

Launch = tuple[Any, Any, Sequence[tuple[int, Any]], int, int, int]
"""Launch of a kernel: (WGPUComputePipeline, bind group 0 of its storage buffers, (index of the bind group, bind group)
of each uniform buffer, workgroups along x, y and z)."""


class HostCommands(Protocol):
    """Interface for calls of the host commands of a plan."""

    def waits(self, command: Custom) -> bool:
        """Return whether all earlier work must be complete before a host command is called."""

    def call(self, command: Custom, encoder: Any) -> None:
        """Call a host command. encoder: command encoder to record into; None if all earlier work is complete."""


class RecordedPlan:
    """Recorded plan as a list of pieces, which `run` encodes and submits, any number of times.

    A `PassRecorder` fills it. The owner keeps it alive until a run has been submitted; `release` ends it.

    Attributes:
        pieces: Pieces in order, each a list of `Launch` for one compute pass, a tuple (function of wgpu, its arguments
            after the command encoder, ...), or a host command (`Custom`).
        blocks: Memory that the recording owns.
        groups: Bind groups that the recording owns.
        marks: Number of pieces after each command, if commands are timed; else empty.
    """

    __slots__ = ("__weakref__", "blocks", "context", "groups", "marks", "pieces")

    def __init__(self, context: LogicalDevice) -> None:
        """Create an empty recording; `context` calls `release` on it when the device is closed."""
        self.pieces: list[Any] = []  # the recorded work in order
        self.blocks: list[Block] = []  # memory that the recording owns
        self.groups: list[Any] = []  # bind groups that the recording owns
        self.marks: list[int] = []  # number of pieces after each command, if commands are timed
        self.context = context
        context.recordings.add(self)

    def release(self) -> None:
        """Release the bind groups and blocks of the recording, which cannot run afterwards."""
        release, groups, blocks = self.context.lib.wgpuBindGroupRelease, self.groups, self.blocks
        self.groups, self.blocks = [], []
        self.context.garbage.extend((release, group) for group in groups)
        for block in blocks:
            self.context.release(block)

    def __del__(self) -> None:
        """Release the bind groups and blocks of the recording."""
        if hasattr(self, "context"):  # a signal handler's exception can leave __init__ anywhere
            self.release()

    def run(self, where: str, host: HostCommands | None = None) -> None:
        """Submit the whole recording.

        Args:
            where: Text that error messages begin with.
            host: Caller of the host commands in the recording; None if it has none.
        """
        self.submit(self.pieces, where, host)

    def submit(self, pieces: list[Any], where: str, host: HostCommands | None) -> None:
        """Submit consecutive pieces of the recording, and call the host commands among them.

        The pieces are one submission, which is split before each host command that requires all earlier work to be
        complete.

        Args:
            pieces: A range of `self.pieces`.
            where: Text that error messages begin with.
            host: Caller of the host commands; None for a plan without host commands.
        """
        first = 0  # index of the first piece that is not submitted yet
        for index, piece in enumerate(pieces):
            if type(piece) is Custom and host is not None and host.waits(piece):
                self._encode(pieces[first:index], where, host)
                self.context.wait()
                host.call(piece, encoder=None)
                first = index + 1
        if first < len(pieces):
            self._encode(pieces[first:], where, host)

    def _encode(self, pieces: list[Any], where: str, host: HostCommands | None) -> None:
        """Encode pieces into one command encoder and submit it; an exception abandons it.

        A list of launches becomes a compute pass. A tuple such as (wgpuCommandEncoderClearBuffer, buffer, 0, 64) is one
        call with the encoder as first argument. A host command is called, and records into the encoder by itself.

        where: text that error messages begin with. host: caller of the host commands; None for pieces without any.
        """
        context = self.context
        with context.lock:
            encoder = context.encoder()
            try:
                for piece in pieces:
                    if type(piece) is list:
                        self._launch(piece, encoder)
                    elif type(piece) is tuple:
                        piece[0](encoder, *piece[1:])
                    else:
                        assert host is not None
                        host.call(piece, encoder)
            except BaseException:
                context.abandon(encoder)  # releases it with what was encoded, so that nothing runs
                raise
            context.submit(encoder, where)

    def _launch(self, launches: list[Launch], encoder: Any) -> None:
        """Encode a compute pass with these launches."""
        lib, null = self.context.lib, self.context.ffi.NULL
        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
        dispatch_workgroups = lib.wgpuComputePassEncoderDispatchWorkgroups
        compute_pass = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
        current_pipeline = None  # set again only if it changes
        for pipeline, group, uniforms, x, y, z in launches:
            if pipeline is not current_pipeline:
                set_pipeline(compute_pass, pipeline)
                current_pipeline = pipeline
            # The arguments 0 and `null` mean: no dynamic offsets.
            set_bind_group(compute_pass, 0, group, 0, null)
            for group_index, uniform in uniforms:
                set_bind_group(compute_pass, group_index, uniform, 0, null)
            dispatch_workgroups(compute_pass, x, y, z)
        lib.wgpuComputePassEncoderEnd(compute_pass)
        lib.wgpuComputePassEncoderRelease(compute_pass)
