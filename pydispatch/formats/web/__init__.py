"""Programs as files that a page loads: docs/webgpu.md."""
