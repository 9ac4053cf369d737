"""Conversions of operators of the domain com.microsoft, which onnxruntime's graph optimizers and quantizers emit."""
