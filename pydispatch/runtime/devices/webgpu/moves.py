"""Shaders for copies and fills that WebGPU commands cannot express: unaligned ones, and copies within one buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydispatch.formats.wgsl.interface import CONSTANTS

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice

WORDS = 6
"""32-bit words of the uniform structure `Move` in the shaders."""
_TEXT = """\
// Bytes start .. start + size of the target; invocations write a word each, whose other bytes stay.
struct Move { start: u32, size: u32, first: u32, low: u32, high: u32, unused: u32 }
@group(3) @binding(0) var<uniform> job: Move;
@group(0) @binding(0) var<storage, read_write> target_words: array<u32>;
@group(0) @binding(1) var<storage, read_write> source_words: array<u32>;

// The bits of word `w` that are to be written.
fn mask_of(w: u32) -> u32 {
  var mask = 0xffffffffu;
  if (4u * w < job.start) { mask &= 0xffffffffu << (8u * (job.start & 3u)); }
  let end = job.start + job.size;
  if (4u * w + 4u > end) { mask &= 0xffffffffu >> (8u * (4u * w + 4u - end)); }
  return mask;
}

// Bytes skip .. skip + 4 of two words.
fn shifted(low: u32, high: u32, skip: u32) -> u32 {
  if (skip == 0u) { return low; }
  return (low >> (8u * skip)) | (high << (32u - 8u * skip));
}

fn write(w: u32, value: u32) {
  let mask = mask_of(w);
  if (mask == 0xffffffffu) { target_words[w] = value; }
  else { target_words[w] = (target_words[w] & ~mask) | (value & mask); }
}

@compute @workgroup_size(64)
fn fill(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  for (var w = job.start / 4u + id.x; 4u * w < job.start + job.size; w += 64u * groups.x) {
    let skip = (4u * w - job.start) & 7u;
    if (skip < 4u) { write(w, shifted(job.low, job.high, skip)); }
    else { write(w, shifted(job.high, job.low, skip - 4u)); }
  }
}

// `first`: the byte of the source that comes to byte 0 of the target, modulo 2^32.
@compute @workgroup_size(64)
fn copy(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  for (var w = job.start / 4u + id.x; 4u * w < job.start + job.size; w += 64u * groups.x) {
    let byte = 4u * w + job.first;
    let at = bitcast<u32>(bitcast<i32>(byte) >> 2u);
    write(w, shifted(source_words[at], source_words[at + 1u], byte & 3u));
  }
}
"""
"""WGSL with two entry points for ranges of bytes that are not aligned to the 4-byte words of WebGPU's own commands.

`fill` repeats the 8 bytes `low`, `high`; `copy` moves bytes between any two offsets. `job` is the uniform buffer with
the arguments, packed by `PassRecorder._dispatch_move`. An invocation writes a word of 4 bytes. The range may cover the
first and the last word in part: `mask_of` selects their bytes that are written.

In `copy`, `byte` is negative by up to 3 if the first word of the target begins before the range. So it is shifted as a
signed number. The bytes that are read outside of the source are before the range, and `mask_of` excludes them."""


class Moves:
    """Compute pipelines for copies and fills at any byte, also within one buffer. They are created on first use."""

    def __init__(self, context: LogicalDevice) -> None:
        """Create an empty set of pipelines."""
        self.context = context
        self._pipelines: dict[str, tuple[Any, Any]] = {}  # entry point → (pipeline, bind group layout)

    def release(self) -> None:
        """Hand the pipelines to the garbage of the device, which releases them later."""
        pipelines, self._pipelines = self._pipelines, {}
        self.context.garbage.extend(
            (self.context.lib.wgpuComputePipelineRelease, pipeline) for pipeline, _ in pipelines.values()
        )

    def pipeline(self, name: str) -> tuple[Any, Any]:
        """Return the pipeline and the bind group layout of "fill" (one binding) or "copy" (two bindings)."""
        cached = self._pipelines.get(name)
        if cached is None:
            pipelines = self.context.pipelines
            buffer_count = 1 if name == "fill" else 2
            group_layout, layout = pipelines.layout(
                read_only=(False,) * buffer_count, uniforms=frozenset([CONSTANTS.group])
            )
            module = pipelines.module(_TEXT, f"{self.context.name}: {name}")
            pipeline = pipelines.pipeline(module, entry=name, layout=layout, values={}, label=name, where=name)
            cached = self._pipelines[name] = pipeline, group_layout
            self.context.lib.wgpuShaderModuleRelease(module)  # the pipeline holds a reference of its own
        return cached
