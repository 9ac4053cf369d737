"""Operator conversions: one table per subject, from the name of an operator to its conversion."""

from __future__ import annotations

from collections.abc import Mapping

from pydispatch.frontends.onnx.operators import (
    attention,
    constants,
    control,
    elementwise,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    random,
    recurrent,
    reductions,
    resize,
    sampling,
    shapes,
    slices,
    spectral,
    text,
)
from pydispatch.frontends.onnx.operators.microsoft import attention as microsoft_attention
from pydispatch.frontends.onnx.operators.microsoft import fused
from pydispatch.frontends.onnx.trace import Conversion

SUBJECTS = {
    "elementwise": elementwise.TABLE,
    "constants": constants.TABLE,
    "shapes": shapes.TABLE,
    "slices": slices.TABLE,
    "reductions": reductions.TABLE,
    "indexing": indexing.TABLE,
    "products": products.TABLE,
    "pooling": pooling.TABLE,
    "normalization": normalization.TABLE,
    "quantization": quantization.TABLE,
    "attention": attention.TABLE,
    "control": control.TABLE,
    "recurrent": recurrent.TABLE,
    "resize": resize.TABLE,
    "sampling": sampling.TABLE,
    "spectral": spectral.TABLE,
    "random": random.TABLE,
    "text": text.TABLE,
}

OPERATORS: Mapping[str, Mapping[str, Conversion]] = {
    "": {
        **{name: conversion for table in SUBJECTS.values() for name, conversion in table.items()},
        "SimplifiedLayerNormalization": fused.rms_norm,  # onnxruntime writes it without a domain
    },
    "com.microsoft": {**fused.TABLE, **microsoft_attention.TABLE},
}
"""The conversions of each domain; "" is ai.onnx."""
