"""WebGPU backend: variants become WGSL."""
