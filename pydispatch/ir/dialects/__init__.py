"""The dialects that programs may use. One is imported when its name is first met."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from xdsl.context import Context
from xdsl.ir import Dialect

# Dialect, then the module and object that define it.
_OURS = {
    "scf": "scf:Scf",
    "tensor": "tensor.dialect:Tensor",
    "gpu": "memref.dialect:GPU",
    "memref": "memref.dialect:MemRef",
    "affine": "affine.dialect:Affine",
    "arith": "arith:Arith",
    "check": "check:Check",
    "flow": "flow.dialect:Flow",
    "func": "func:Func",
    "hal": "hal.dialect:Hal",
    "iree_codegen": "iree_codegen:Codegen",
    "linalg": "linalg.dialect:Linalg",
    "iree_tensor_ext": "iree_tensor_ext:TensorExt",
    "math": "math:Math",
    "ml_program": "ml_program:MLProgram",
    "pdl": "pdl:PDL",
    "pyd": "pyd.dialect:Pyd",
    "stream": "stream:Stream",
    "transform": "transform.dialect:Transform",
    "util": "util.dialect:Util",
}
_LIBRARY = {
    "builtin": "builtin:Builtin",
    "bufferization": "bufferization:Bufferization",
    "cf": "cf:Cf",
    "complex": "complex:Complex",
    "pdl_interp": "pdl_interp:PDLInterp",
    "vector": "vector:Vector",
}


def _load(package: str, place: str) -> Callable[[], Dialect]:
    module, name = place.split(":")

    def load() -> Dialect:
        dialect = getattr(importlib.import_module(f"{package}.{module}"), name)
        assert isinstance(dialect, Dialect)
        return dialect

    return load


def new_context() -> Context:
    """A fresh context with every dialect registered."""
    ctx = Context()
    for name, place in _LIBRARY.items():
        ctx.register_dialect(name, _load("xdsl.dialects", place))
    for name, place in _OURS.items():
        ctx.register_dialect(name, _load(__name__, place))
    return ctx
