"""Variants for Vulkan → SPIR-V."""
