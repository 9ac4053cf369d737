"""Functions of doubles in loops that become vectors: the bits of the functions called for one element at a time."""

from __future__ import annotations

import numpy as np
from devlib_driver import BY_NAME, Library, samples

import pydispatch as pd

NAMES = {**dict.fromkeys((
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1",
    "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh",
), 1), "atan2": 2, "powf": 2}  # fmt: skip
"""Functions of `math` -> how many arguments they have."""

CHUNKS = 64
"""What several workers share is a workgroup of some thousands of elements: arguments are repeated as often."""
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, -1e300, 2.0**1023,
           6381956970095103 * 2.0**797, 103993.0, 3.0000001e15]  # fmt: skip


def source() -> str:
    """A function over tensors for each of NAMES."""
    text = ""
    for name, count in NAMES.items():
        operands = ", ".join(f"%a{i}" for i in range(count))
        typed = ", ".join(f"%a{i}: tensor<?xf64>" for i in range(count))
        text += f"func.func @{name}({typed}) -> tensor<?xf64> {{\n"
        text += f"  %r = math.{name} {operands} : tensor<?xf64>\n  return %r : tensor<?xf64>\n}}\n"
    return text


def test_lanes_compute_what_one_element_does(library: Library) -> None:
    # Machines with fused multiply-add have one set of bits, those without another.
    for cpu in ("generic",) if library.cpu == "generic" else ("x86-64-v3", "native"):
        artifact = pd.compile(source(), cpu=cpu)
        program, shared = (pd.device(f"cpu?workers={workers}").load(artifact) for workers in (1, 3))
        for name, count in NAMES.items():
            c_name = {"powf": "pow"}.get(name, name)
            specials = np.meshgrid(*[np.array(SPECIAL)] * count)
            drawn = samples(BY_NAME[c_name], "", 200)
            arguments = [np.concatenate([s.ravel(), d]) for s, d in zip(specials, drawn, strict=True)]
            wanted = library(c_name, "", *arguments)
            for start in (0, 1, 5):  # other lanes, and other remainders after the last whole vector
                got, expected = getattr(program, name)(*[a[start:] for a in arguments]), wanted[start:]
                nan = np.isnan(expected)
                np.testing.assert_array_equal(np.isnan(got), nan, err_msg=f"{name} for {cpu}")
                same = (got.view(np.uint64) == expected.view(np.uint64)) | nan
                assert same.all(), (name, cpu, [a[start:][~same][:3] for a in arguments])
            many = [np.tile(a, CHUNKS) for a in arguments]
            one, three = (getattr(each, name)(*many) for each in (program, shared))
            assert one.tobytes() == three.tobytes(), f"{name} for {cpu}: one and three workers"
