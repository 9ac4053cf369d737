"""One node test: reads its model and data with the package's own reader, compiles, runs, compares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pydispatch as pd
from pydispatch.frontends.onnx import model as messages
from pydispatch.frontends.onnx.read import read
from pydispatch.frontends.onnx.tensors import Files, ModelFault, array_of, dtype_of
from pydispatch.frontends.source import ReadOptions
from pydispatch.graph.dtypes import DType

RTOL, ATOL = 1e-3, 1e-7  # those of the tests' own runner
_COARSE = {"f16": 1e-3, "bf16": 8e-3}


def run_case(folder: Path, device: str, left_out: Sequence[str]) -> dict[str, Any]:
    """status: pass, fail or left out; why; operators: those of the graph; constants: inputs that had to be known."""
    model = messages.ModelProto.read(memoryview((folder / "model.onnx").read_bytes()))
    assert model.graph is not None
    operators = sorted({node.op_type for node in model.graph.node})
    result: dict[str, Any] = {"operators": operators, "constants": []}
    if any(name in left_out for name in operators) or not _all_tensors(model.graph):
        return {**result, "status": "left out"}
    try:
        for data in sorted(folder.glob("test_data_set_*")):
            result["constants"] = _run_set(folder / "model.onnx", model.graph, data, device)
    except _Different as different:
        return {**result, "status": "fail", "why": str(different)}
    except pd.Error as error:
        return {**result, "status": "fail", "why": f"{type(error).__name__}: {error}"}
    except Exception as error:
        return {**result, "status": "fail", "why": f"UNEXPECTED {type(error).__name__}: {error}"}
    return {**result, "status": "pass"}


class _Different(Exception):
    """A result is not the expected one."""


def _all_tensors(graph: messages.GraphProto) -> bool:
    types = [info.type.tensor_type if info.type else None for info in (*graph.input, *graph.output)]
    return all(type is not None and type.elem_type != 8 for type in types)


def _run_set(path: Path, graph: messages.GraphProto, data: Path, device: str) -> list[str]:
    inputs = dict(zip((i.name for i in graph.input), _arrays(data, "input", graph.input), strict=True))
    expected = _arrays(data, "output", graph.output)
    constants: list[str] = []
    while True:
        try:
            module = read(path, ReadOptions(constants={name: inputs[name][1] for name in constants}))
            break
        except pd.CompileError as error:
            wanted = re.search(r"constants=\{'(.*?)'", str(error))
            if wanted is None or wanted[1] in constants or wanted[1] not in inputs:
                raise
            constants.append(wanted[1])
    targets = {"ptx-interpreter": "sm_80", "cpu": None}.get(device, device)
    program = pd.device(device).load(pd.compile(module, targets=targets))
    found = program.main(*(_given(*value) for name, value in inputs.items() if name not in constants))
    found = found if isinstance(found, (tuple, list)) else [found]
    for info, got, (dtype, want) in zip(graph.output, found, expected, strict=True):
        _compare(info.name, np.asarray(got), dtype, want)
    return constants


def _arrays(
    data: Path, kind: str, infos: Sequence[messages.ValueInfoProto]
) -> list[tuple[DType, np.ndarray[Any, Any]]]:
    found = []
    for number, info in enumerate(infos):
        tensor = messages.TensorProto.read(memoryview((data / f"{kind}_{number}.pb").read_bytes()))
        assert info.type is not None and info.type.tensor_type is not None
        try:
            dtype, array = array_of(tensor, Files(data))
            declared = dtype_of(info.type.tensor_type.elem_type)
        except ModelFault as fault:
            raise _Different(f"the data of {kind} {number} cannot be read: {fault}") from None
        # Some files have bfloat16 numbers as the 16-bit integers of their bits.
        found.append((declared if array.dtype == declared.numpy else dtype, array))
    return found


def _typed(dtype: DType) -> Any:
    """The type of ml_dtypes where NumPy has none."""
    import ml_dtypes

    names = {"bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2": "float8_e5m2",
             "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E8M0FNU": "float8_e8m0fnu", "f4E2M1FN": "float4_e2m1fn",
             "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2"}  # fmt: skip
    return np.dtype(getattr(ml_dtypes, names[dtype.name])) if dtype.name in names else None


def _given(dtype: DType, array: np.ndarray[Any, Any]) -> Any:
    typed = _typed(dtype)
    if typed is None:
        return array
    return array.astype(typed) if dtype.is_integer else array.view(typed)


def _compare(name: str, got: np.ndarray[Any, Any], dtype: DType, want: np.ndarray[Any, Any]) -> None:
    if got.shape != want.shape:
        raise _Different(f"'{name}' has shape {got.shape}, expected {want.shape}")
    typed = _typed(dtype)
    if typed is not None:
        want = want.astype(typed) if dtype.is_integer else want.view(typed)
        if got.dtype.kind in "uiV" and not dtype.is_integer:
            got = got.view(typed)
    wide: Any = np.complex128 if dtype.is_complex else np.float64
    with np.errstate(all="ignore"):
        a, b = got.astype(wide), want.astype(wide)
        rtol = max(RTOL, _COARSE.get(dtype.name, 0))
        atol = max(ATOL, _COARSE.get(dtype.name, 0) * 0.1) if dtype.name in _COARSE else ATOL
        equal = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if not equal.all():
        place = tuple(int(i) for i in np.argwhere(~equal)[0])
        raise _Different(f"'{name}' ({dtype}): {(~equal).sum()} of {equal.size} differ, first at {place}: "
                         f"{a[place]} instead of {b[place]}")  # fmt: skip
