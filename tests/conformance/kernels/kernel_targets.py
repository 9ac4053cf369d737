"""Kernels in kernel IR on each target: `load` compiles for the one that the fixture `target` has chosen."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[2]
for folder in ("emit", "cuda", "spirv", "wgsl"):
    if str(TESTS / folder) not in sys.path:
        sys.path.append(str(TESTS / folder))

import cuda_kernels  # noqa: E402
import kernels  # noqa: E402
import vulkan_kernels  # noqa: E402
import webgpu_kernels  # noqa: E402

LOADERS: dict[str, Any] = {
    "cpu": kernels.load, "cuda": partial(cuda_kernels.load, races=True), "vulkan": vulkan_kernels.load,
}  # fmt: skip
"""cuda: on the interpreter of PTX, with the search for data races. vulkan: on lavapipe with the validation layer, each
module checked by spirv-val."""
if os.environ.get("PYDISPATCH_WEBGPU"):  # what the suite `web` runs
    LOADERS = {"webgpu": webgpu_kernels.load}

chosen = [next(iter(LOADERS))]


def load(source: str, **options: Any) -> Any:
    """The compiled kernels of a module, ready to run."""
    return LOADERS[chosen[0]](source, **options)


REFUSED = {
    "vulkan": {
        "test_blocks": "branches between blocks",
        "test_blocks_of_cf_in_uniform_code": "branches between blocks",
        **{f"test_reductions_in_loops[blocks-{count}]": "branches between blocks" for count in (48, 64, 256)},
        "test_regions_and_views": "branches between blocks",
    },
}
REFUSED["webgpu"] = {
    **REFUSED["vulkan"],
    "test_integer_atomics[64]": "atomic 'addi' on i64",
    **{f"test_float_atomics[{kind}-f64]": f"atomic '{kind}' on f64"
       for kind in ("maximumf", "minimumf", "maxnumf", "minnumf")},
}  # fmt: skip
"""Target -> tests that are a CompileError on it -> a part of the message."""

ELSEWHERE = {
    "cpu": {
        "test_every_point_once": "workgroups have no size",
        "test_private_memory": "there are no invocations",
    },
    "vulkan": {
        "test_unary": "takes 58 buffers, devices have fewer: test_math_accuracy.py, test_math_doubles.py",
        "test_fma_rounds_once": "Fma is fused where the device does so",
        "test_float_operations": "remf comes from the device: the others are in test_math_accuracy.py",
        "test_grid_constants_offsets": "looks into the tables of an ELF",
        "test_every_op_has_a_lowering": "of LLVM: test_refusals.py",
        "test_vectors": "reads the assembly of a CPU",
        "test_order_is_kept_without_flags": "reads the assembly of a CPU",
    },
    "cuda": {
        "test_grid_constants_offsets": "looks into the tables of an ELF: test_cuda_generated.py",
        "test_every_op_has_a_lowering": "is about the tables of the CPU",
        "test_vectors": "reads the assembly of a CPU",
        "test_order_is_kept_without_flags": "reads the assembly of a CPU",
        "test_table_agrees_with_ml_dtypes": "runs no kernel",
    },
}
_ON_F64 = "functions of f64 are thousands of integer operations, for which lavapipe's compiler takes minutes"
ELSEWHERE["webgpu"] = {
    **ELSEWHERE["vulkan"],
    **dict.fromkeys(("test_unary", "test_several_operands", "test_special_values"), _ON_F64),
    "test_table_agrees_with_ml_dtypes": "runs no kernel",
}
"""Target -> tests that it has no part in -> why."""
