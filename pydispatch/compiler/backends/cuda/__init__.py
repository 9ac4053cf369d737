"""CUDA backend: variants become PTX or machine code for NVIDIA GPUs."""
