"""Products by block-scaled weights as programs in NumPy, for tests of several folders."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import ml_dtypes
import numpy as np

import pydispatch as pd

Array = np.ndarray[Any, Any]
_SCALES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


_SUPER_BLOCK = 4
"""Blocks of a super-block."""


@dataclass(frozen=True)
class Case:
    """x @ ((q - zero) * scale + offset).T, with weights of 8 bits, or two of 4 bits in a byte.

    Attributes:
        rows: Sizes of x before the last one.
        n, k: Sizes of the weights.
        block: Steps of K that share a scale.
        bits: Bits of a weight.
        terms: What there is beside scales: "", "number", "bytes" or "floats" (zero points), "offset", or "super":
            bytes scale blocks and minima, and the scales are those of super-blocks, as in GGUF's Q4_K.
        order: Which weights share a byte: "pairs" of neighbours, or "halves" of each block.
        scale: Type of the scales.
    """

    rows: tuple[int, ...]
    n: int
    k: int
    block: int
    bits: int = 4
    terms: str = ""
    order: str = "pairs"
    scale: str = "f32"

    @property
    def per_block(self) -> tuple[int, int]:
        return self.n, self.k // self.block

    def arguments(self, seed: int = 0) -> dict[str, Array]:
        """Random arguments, by name."""
        rng = np.random.default_rng(seed)
        made: dict[str, Array] = {"x": rng.standard_normal((*self.rows, self.k)).astype(np.float32)}
        low, kind = (-127, np.int8) if self.bits == 8 else (0, np.uint8)
        made["q"] = rng.integers(low, 128 if self.bits == 8 else 256, (self.n, self.k * self.bits // 8)).astype(kind)
        made["s"] = rng.uniform(0.01, 0.03, self.per_block).astype(_SCALES[self.scale])
        if self.terms == "super":
            made["s"] = (made["s"][:, ::_SUPER_BLOCK] / 63).astype(_SCALES[self.scale])
            made["z"] = rng.integers(0, 64, self.per_block).astype(np.uint8)
        if self.terms == "bytes":
            made["z"] = rng.integers(0, 1 << self.bits - 1, self.per_block).astype(np.uint8)
        elif self.terms in ("floats", "offset"):
            made["z"] = rng.uniform(-1, 1, self.per_block).astype(np.float32)
        return made

    def numbers(self, q: Any) -> Any:
        """The stored integers, [n, k]."""
        if self.bits == 8:
            return q
        low, high = q & 15, q >> 4
        if self.order == "pairs":
            return np.stack([low, high], -1).reshape(self.n, self.k)
        halves = [half.reshape(*self.per_block, self.block // 2) for half in (low, high)]
        return np.concatenate(halves, 2).reshape(self.n, self.k)

    def weights(self, q: Any, s: Any, z: Any = None) -> Any:
        """The weights, [n, k]."""
        value = self.numbers(q).astype(np.float32).reshape(*self.per_block, self.block)
        if self.terms == "super":
            s, z = s.astype(np.float32).reshape(self.n, -1, 1), z.reshape(self.n, -1, _SUPER_BLOCK)
            scales, minima = ((s * t.astype(np.float32)).reshape(*self.per_block, 1) for t in (z, 63 - z))
            return (value * scales - minima).reshape(self.n, self.k)
        per_block = (*self.per_block, 1)
        if self.terms == "number":
            value = value - 8
        elif self.terms in ("bytes", "floats"):
            value = value - z.astype(np.float32).reshape(per_block)
        value = value * s.astype(np.float32).reshape(per_block)
        if self.terms == "offset":
            value = value + z.reshape(per_block)
        return value.reshape(self.n, self.k)

    def program(self) -> Any:
        """The program with all arrays as arguments."""
        shapes = {name: _parameter(array) for name, array in self.arguments().items()}

        def with_terms(x, q, s, z):  # type: ignore[no-untyped-def]
            return x @ self.weights(q, s, z).T

        def without(x, q, s):  # type: ignore[no-untyped-def]
            return x @ self.weights(q, s).T

        function: Callable[..., Any] = with_terms if "z" in shapes else without
        function.__annotations__ = {**shapes, "return": np.ndarray}
        function.__name__ = function.__qualname__ = "f"
        return pd.program(function)

    def text(self, constants: dict[str, Array]) -> str:
        """The program with some arrays as constants."""
        text = self.program().mlir()
        for name, array in constants.items():
            found = re.search(rf", %{name}: (tensor<[^>]*>) {{[^}}]*}}", text)
            assert found is not None
            text = text.replace(found[0], "")
            head, body = text.split("{\n", 2)[:2], text.split("{\n", 2)[2]
            constant = f'    %{name} = arith.constant dense<"0x{array.tobytes().hex()}"> : {found[1]}\n'
            text = "{\n".join([*head, constant + body])
        return text

    def check(self, got: Any, arguments: dict[str, Array], tolerance: float = 1e-6) -> None:
        """Compare a result with the exact one. tolerance: of the sum of the absolute products."""
        x, rest = arguments["x"], [v for name, v in arguments.items() if name != "x"]
        weights = self.weights(*rest).astype(np.float64)
        room = np.abs(x).max(-1, keepdims=True) * np.abs(weights).sum(1)
        assert np.all(np.abs(np.asarray(got) - x @ weights.T) <= tolerance * room)


def _parameter(array: Array) -> Any:
    kinds = {"float32": pd.f32, "float16": pd.f16, "bfloat16": pd.bf16, "int8": pd.i8, "uint8": pd.u8}
    return Annotated[np.ndarray, kinds[array.dtype.name][array.shape]]
