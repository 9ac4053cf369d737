"""ONNX: model files → programs, read without the package onnx."""
