"""The options of `pydispatch.compile`, for type checkers; what they mean is in its docstring."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict


class CompileOptions(TypedDict, total=False):
    """Keyword arguments of `pydispatch.compile`, `from_jax` and `from_torch`, to be given or collected and passed on:

    options: CompileOptions = {"targets": "cpu", "cpu": "native"}
    artifact = pydispatch.compile("model.onnx", **options)
    """

    targets: str | Sequence[str] | None
    cpu: str | Sequence[str] | None
    cpu_features: str
    object_search_path: Sequence[str | os.PathLike[str]]
    dump: str | os.PathLike[str] | None
    transform_spec: Any
    pdl_spec: Any
    patterns: Sequence[Any]
    require_match: bool
    explain: bool
    reassociate: bool
    kernels: Mapping[str, Any] | None
    weights: str
    inputs: Mapping[str, Sequence[int | str]] | None
    constants: Mapping[str, Any] | None
    progress: Callable[[Any], object] | None
    tune: float | None
    tune_on: Any
