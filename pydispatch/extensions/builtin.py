"""Extension points as pydispatch itself fills them: frontends, back ends, devices and other parts."""

from __future__ import annotations

from pydispatch.extensions.parts import Extensions

DIALECTS = {
    "affine": "affine.dialect:Affine",
    "arith": "arith:Arith",
    "check": "check.dialect:Check",
    "chlo": "chlo.dialect:Chlo",
    "flow": "flow.dialect:Flow",
    "func": "func:Func",
    "gpu": "memref.dialect:GPU",
    "hal": "hal.dialect:Hal",
    "iree_codegen": "iree_codegen:Codegen",
    "iree_encoding": "iree_encoding:Encoding",
    "iree_linalg_ext": "iree_linalg_ext.dialect:LinalgExt",
    "iree_tensor_ext": "iree_tensor_ext:TensorExt",
    "interpreter": "interpreter:Interpreter",
    "linalg": "linalg.dialect:Linalg",
    "math": "math:Math",
    "memref": "memref.dialect:MemRef",
    "ml_program": "ml_program:MLProgram",
    "pdl": "pdl:PDL",
    "pyd": "pyd.dialect:Pyd",
    "quant": "quant:Quant",
    "scf": "scf.dialect:Scf",
    "sdy": "sdy:Sdy",
    "stablehlo": "stablehlo.dialect:Stablehlo",
    "stream": "stream:Stream",
    "tensor": "tensor.dialect:Tensor",
    "tm_tensor": "tm_tensor:TMTensor",
    "tosa": "tosa.dialect:Tosa",
    "transform": "transform.dialect:Transform",
    "util": "util.dialect:Util",
}
"""Prefix of a dialect's operations -> its module below `ir/dialects`, and the object in it."""

LIBRARY_DIALECTS = {
    "bufferization": "bufferization:Bufferization",
    "builtin": "builtin:Builtin",
    "cf": "cf:Cf",
    "complex": "complex:Complex",
    "pdl_interp": "pdl_interp:PDLInterp",
    "vector": "vector:Vector",
}
"""Further dialects that programs may use, which xDSL defines: prefix of their operations -> module below
`xdsl.dialects`, and the object in it."""

_EXT = ("iree_linalg_ext", "tm_tensor")
"""Dialects whose operations `linalg_ext.*` in CONVERSIONS replace: sorts, scatters and others that MLIR does not have
for tensors."""

CONVERSIONS = {
    "boundary": ("builtin",),
    "checks": ("check",),
    "custom": ("pyd",),
    "encodings": ("iree_encoding",),
    "flow": ("arith", "flow", "iree_tensor_ext", "util"),
    "globals": ("ml_program",),
    "linalg_ext.attention": _EXT,
    "linalg_ext.custom": _EXT,
    "linalg_ext.fft": _EXT,
    "linalg_ext.grouped": _EXT,
    "linalg_ext.indexing": _EXT,
    "linalg_ext.ordering": _EXT,
    "linalg_ext.scan": _EXT,
    "linalg_ext.winograd": _EXT,
    "moves": ("iree_linalg_ext", "linalg", "tensor"),
    "named": ("linalg",),
    "packed_bits": ("flow", "hal", "iree_codegen"),
    "softmax": ("linalg",),
}
"""Modules of `compiler/normalize` -> the dialects of the operations that they replace. A module is imported only for
programs with operations of such a dialect."""

TARGETS = {
    "cpu": "cpu", "local": "cpu", "llvm-cpu": "cpu", "cuda": "cuda", "nvptx": "cuda", "vulkan": "vulkan",
    "vulkan-spirv": "vulkan", "webgpu": "webgpu", "webgpu-wgsl": "webgpu",
}  # fmt: skip
"""Name of a backend in target attributes and in `targets=` -> its folder of `compiler/backends`."""

TENSOR_OPERATIONS = (
    "elementwise", "fills", "gathers", "generic", "joins", "recurrences", "scatters", "slices", "views",
)  # fmt: skip
"""Modules of `compiler/tensor_ops/rules`, each with rules for one group of tensor operations."""

DEVICES = {
    "cpu": "cpu", "local": "cpu", "local-sync": "cpu", "local-task": "cpu", "cuda": "cuda",
    "ptx-interpreter": "ptx_interpreter", "ptx_interpreter": "ptx_interpreter", "vulkan": "vulkan",
    "webgpu": "webgpu",
}  # fmt: skip
"""Prefix of device names, such as "vulkan" of "vulkan:0" -> the module of `runtime/devices`.

"local-sync" and "local-task" are IREE's names of CPU devices."""

FRONTENDS = ("onnx", "python", "stablehlo", "torch", "tosa")
"""Folders of `frontends`, each with a `FRONTEND` in `frontend.py`."""

SUBCOMMANDS = (
    "bench",
    "check",
    "compile",
    "completion",
    "devices",
    "export",
    "fatelf",
    "inspect",
    "match",
    "plugin",
    "run",
    "stubgen",
)
"""Subcommands of the `pydispatch` command; each is the module of this name in `cli`."""


def register(extensions: Extensions) -> None:
    """Register all parts of this package, by the names of their modules.

    A part is named as "module" or "module:attribute", so that it is imported only when it is used.
    """
    for name, place in DIALECTS.items():
        extensions.dialect(name, f"pydispatch.ir.dialects.{place}")
    for name, place in LIBRARY_DIALECTS.items():
        extensions.dialect(name, f"xdsl.dialects.{place}")
    for name, dialects in CONVERSIONS.items():
        extensions.conversions(f"pydispatch.compiler.normalize.{name}:ROWS", dialects)
    for name, folder in TARGETS.items():
        extensions.target(name, f"pydispatch.compiler.backends.{folder}.target:BACKEND")
    for name in TENSOR_OPERATIONS:
        extensions.tensor_operations(f"pydispatch.compiler.tensor_ops.rules.{name}:RULES")
    for scheme, module in DEVICES.items():
        extensions.device(scheme, f"pydispatch.runtime.devices.{module}")
    for name in FRONTENDS:
        extensions.frontend(name, f"pydispatch.frontends.{name}.frontend:FRONTEND")
    for name in SUBCOMMANDS:
        extensions.subcommand(name, f"pydispatch.cli.{name}")
