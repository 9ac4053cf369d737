"""Operators of the domain com.microsoft that optimizers and quantizers of onnxruntime write."""
