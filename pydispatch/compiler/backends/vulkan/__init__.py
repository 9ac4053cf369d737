"""Vulkan backend: variants become SPIR-V."""
