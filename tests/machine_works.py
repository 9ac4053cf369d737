"""Contractions of every kind in one program, which machine models have to compute alike: operands that share cache sets
or pages, few rows, transposed operands, quantized ones, convolutions, depthwise convolutions, unknown rows."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Work:
    """A function of two arguments. op: with `ins` and `outs` left out; shapes: of the arguments and the result; steps:
    products that are added up; equation: for np.einsum, over windows where `window` is the size of one, its stride 1;
    rows: for which sizes of the first dimension it runs, where only the call knows it; signs: s or u for the bytes of
    each argument; weights: the type of the second argument where it is another one, which is widened."""

    name: str
    op: str
    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    equation: str
    type: str = "f32"
    window: int = 0
    rows: tuple[int, ...] = ()
    signs: str = "ss"
    weights: str = ""

    @property
    def sums(self) -> str:
        return "i32" if self.type == "i8" else self.type

    @property
    def text(self) -> str:
        types = self.type, self.weights or self.type, self.sums
        a, b, c = (self._tensor(s, t) for s, t in zip(self.shapes, types, strict=True))
        if self.rows:
            a, c = (t.replace(f"<{s[0]}x", "<?x", 1) for t, s in ((a, self.shapes[0]), (c, self.shapes[2])))
        zero = "0.0" if self.sums[0] == "f" else "0"
        size = "%d" if self.rows else ""
        region = _widened_body(self.weights) if self.weights else ""
        region = _unsigned_body(self.signs) if "u" in self.signs else region
        body = f"{region} -> {c}"
        return f"""
func.func @{self.name}(%a: {a}, %b: {b}) -> {c} {{
  %zero = arith.constant {zero} : {self.sums}
  %c0 = arith.constant 0 : index
  {f"%d = tensor.dim %a, %c0 : {a}" if self.rows else ""}
  %e = tensor.empty({size}) : {c}
  %z = linalg.fill ins(%zero : {self.sums}) outs(%e : {c}) -> {c}
  %r = {self.op} ins(%a, %b : {a}, {b}) outs(%z : {c}) {body}
  return %r : {c}
}}
"""

    @staticmethod
    def _tensor(shape: Sequence[int], type_: str) -> str:
        return f"tensor<{'x'.join(map(str, shape))}x{type_}>"

    def inputs(self, whole: bool, rows: int = 0) -> list[Array]:
        """Arguments. whole: of small integers, whose sums are exact in whatever order."""
        rng = np.random.default_rng(len(self.name))
        first = (rows, *self.shapes[0][1:]) if rows else self.shapes[0]
        if self.type == "i8":
            return [rng.integers(-128, 128, s, dtype=np.int8) for s in (first, self.shapes[1])]
        shapes = (first, self.type), (self.shapes[1], self.weights or self.type)
        drawn = [(rng.integers(-4, 5, s) if whole else rng.standard_normal(s), type_) for s, type_ in shapes]
        return [each.astype(DTYPES[type_]) for each, type_ in drawn]

    def expected(self, a: Array, b: Array) -> Array:
        """In f64 or i64, which is exact for integers."""
        wide = np.float64 if self.type[0] == "f" else np.int64
        x, y = (v.view(np.uint8 if s == "u" else v.dtype).astype(wide) for v, s in zip((a, b), self.signs, strict=True))
        if self.window:
            x = np.lib.stride_tricks.sliding_window_view(x, (self.window, self.window), axis=(1, 2))
        return np.asarray(np.einsum(self.equation, x, y, optimize=True))

    def check(self, found: Array, a: Array, b: Array) -> None:
        """Integers are exact; floats within the error of a sum in any order, K units in the last place of the sum of
        absolute values."""
        expected = self.expected(a, b)
        if self.type[0] != "f":
            np.testing.assert_array_equal(found, expected.astype(np.int32), err_msg=self.name)
            return
        steps = a.size * b.size // max(1, expected.size) if not self.window else b.size // b.shape[-1]
        bound = steps * np.finfo(found.dtype).eps * self.expected(np.abs(a), np.abs(b))
        assert np.all(np.abs(found - expected) <= bound), f"{self.name}: {np.max(np.abs(found - expected))}"


def _maps(a: str, b: str) -> str:
    maps = ", ".join(f"affine_map<(m, n, k) -> ({dims})>" for dims in (a, b, "m, n"))
    return f"linalg.matmul indexing_maps = [{maps}]"


GENERIC = """linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}"""


def _unsigned_body(signs: str) -> str:
    """The region of a product of bytes with these signs."""
    first, second = (f"arith.ext{sign}i" for sign in signs)
    return f"""{{
    ^bb0(%x: i8, %y: i8, %s: i32):
      %u = {first} %x : i8 to i32
      %v = {second} %y : i8 to i32
      %p = arith.muli %u, %v : i32
      %t = arith.addi %s, %p : i32
      linalg.yield %t : i32
  }}"""


def _widened_body(weights: str) -> str:
    """The region of a product of f32 with weights of a shorter type."""
    return f"""{{
    ^bb0(%x: f32, %y: {weights}, %s: f32):
      %v = arith.extf %y : {weights} to f32
      %p = arith.mulf %x, %v : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
  }}"""


_CONFIG = "{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}"
_CONV = f"linalg.conv_2d_nhwc_hwcf {_CONFIG}"
_WINDOWS = "nhwcyx,yxcf->nhwf"

F32 = (
    Work("shares_sets", "linalg.matmul", ((61, 70), (70, 512), (61, 512)), "mk,kn->mn"),
    Work("few_rows", "linalg.matmul", ((3, 128), (128, 96), (3, 96)), "mk,kn->mn"),
    Work("halves", GENERIC, ((29, 75), (75, 37), (29, 37)), "mk,kn->mn", weights="f16"),
    Work("streamed", "linalg.matmul", ((9, 260), (260, 1030), (9, 1030)), "mk,kn->mn"),
    Work("seven_rows", "linalg.matmul", ((7, 40), (40, 130), (7, 130)), "mk,kn->mn"),
    Work("transposed_b", _maps("m, k", "n, k"), ((70, 130), (48, 130), (70, 48)), "mk,nk->mn"),
    Work("transposed_b_few_rows", _maps("m, k", "n, k"), ((19, 130), (48, 130), (19, 48)), "mk,nk->mn"),
    Work("transposed_a", _maps("k, m", "k, n"), ((90, 50), (90, 64), (50, 64)), "km,kn->mn"),
    Work("convolution", _CONV, ((1, 11, 11, 16), (3, 3, 16, 32), (1, 9, 9, 32)), _WINDOWS,
         window=3),
    Work("two_images", _CONV, ((2, 11, 9, 16), (3, 3, 16, 72), (2, 9, 7, 72)), _WINDOWS, window=3),
    Work("pointwise", _CONV, ((1, 7, 7, 64), (1, 1, 64, 96), (1, 7, 7, 96)), _WINDOWS,
         window=1),
    Work("depthwise", f"linalg.depthwise_conv_2d_nhwc_hwc {_CONFIG}", ((1, 14, 14, 24), (3, 3, 24), (1, 12, 12, 24)),
         "nhwcyx,yxc->nhwc", window=3),
)  # fmt: skip
"""Those of f32 and known sizes."""

INTEGERS = (
    Work("bytes", "linalg.matmul", ((29, 75), (75, 37), (29, 37)), "mk,kn->mn", "i8"),
    *(Work(f"bytes_{signs}", GENERIC, ((29, 75), (75, 37), (29, 37)), "mk,kn->mn", "i8", signs=signs)
      for signs in ("uu", "us", "su")),
    Work("bytes_few_rows", "linalg.matmul", ((3, 75), (75, 52), (3, 52)), "mk,kn->mn", "i8"),
    *(Work(f"bytes_deep_{signs}", GENERIC, ((70, 160), (160, 41), (70, 41)), "mk,kn->mn", "i8", signs=signs)
      for signs in ("uu", "us", "su")),
    Work("bytes_deep", "linalg.matmul", ((70, 160), (160, 41), (70, 41)), "mk,kn->mn", "i8"),
    Work("bytes_all_rows", "linalg.matmul", ((19, 100), (100, 70), (19, 70)), "mk,kn->mn", "i8"),
    Work("integers", "linalg.matmul", ((17, 33), (33, 37), (17, 37)), "mk,kn->mn", "i32"),
)  # fmt: skip

EVERYTHING = {"aarch64": "max", "riscv64": "rv64,v=true,vext_spec=v1.0,vlen=512,Zfh=true"}
"""The emulator's model with all that the CPUs of the table have."""

WORKS = (
    *F32,
    *INTEGERS,
    Work("large", "linalg.matmul", ((130, 784), (784, 512), (130, 512)), "mk,kn->mn"),
    Work("streamed_wide", "linalg.matmul", ((23, 1000), (1000, 1100), (23, 1100)), "mk,kn->mn"),
    Work(
        "unknown_rows_streamed",
        "linalg.matmul",
        ((64, 600), (600, 1030), (64, 1030)),
        "mk,kn->mn",
        rows=(1, 2, 7, 13, 64),
    ),
    Work("one_row_in_parts", "linalg.matmul", ((1, 1501), (1501, 700), (1, 700)), "mk,kn->mn"),
    Work("long", "linalg.matmul", ((40, 5000), (5000, 64), (40, 64)), "mk,kn->mn"),
    Work("doubles", "linalg.matmul", ((61, 100), (100, 256), (61, 256)), "mk,kn->mn", "f64"),
    Work("quantized", "linalg.matmul", ((61, 75), (75, 130), (61, 130)), "mk,kn->mn", "i8"),
    Work("bytes_long", "linalg.matmul", ((40, 9000), (9000, 64), (40, 64)), "mk,kn->mn", "i8"),
    Work(
        "bytes_unknown_rows",
        "linalg.matmul",
        ((64, 96), (96, 80), (64, 80)),
        "mk,kn->mn",
        "i8",
        rows=(1, 5, 31, 32, 200),
    ),
    Work("bytes_windows", _CONV, ((1, 11, 11, 32), (3, 3, 32, 40), (1, 9, 9, 40)), _WINDOWS, "i8", window=3),
    Work("unknown_rows", "linalg.matmul", ((64, 96), (96, 512), (64, 512)), "mk,kn->mn", rows=(1, 5, 13, 64, 200)),
)


def program(works: Sequence[Work]) -> str:
    return "".join(work.text for work in works)


def check_here(cpu: str, features: str = "") -> None:
    """The results of code for a CPU that this machine runs, the same bits for one and for several workers."""
    import pydispatch as pd

    artifact = pd.compile(program(WORKS), targets="cpu", cpu=cpu, cpu_features=features)
    one, three = (pd.device(f"cpu?workers={workers}").load(artifact) for workers in (1, 3))
    for work in WORKS:
        for rows in work.rows or (0,):
            inputs = work.inputs(whole=False, rows=rows)
            found = getattr(one, work.name)(*inputs)
            work.check(found, *inputs)
            assert found.tobytes() == getattr(three, work.name)(*inputs).tobytes(), work.name


class Emulated:
    """A program for a CPU of another architecture, each function one dispatch; its functions run in an emulator.
    runner: the command that runs a library. Functions that derive constants are executables after the first."""

    def __init__(self, text: str, arch: str, cpu: str, folder: Path, runner: Sequence[str], features: str = "") -> None:
        import pydispatch as pd
        from pydispatch.compiler.driver.pipeline import compile_to

        artifact = pd.compile(text, targets=arch, cpu=cpu, cpu_features=features)
        executable, *_ = artifact.executables
        (variant,) = executable.variants
        (folder / "f.so").write_bytes(artifact.read(variant.member))
        self.folder, self.words = folder, [*runner, str(folder / "f.so")]
        self.listing = compile_to("program", text, targets=arch, cpu=cpu, cpu_features=features)

    def run(
        self, name: str, inputs: Sequence[Array], shape: Sequence[int], model: str, backwards: bool = False
    ) -> Array:
        """The result of a function on a model of the emulator, every bit of it: of f32, for integers of i32. backwards:
        the last workgroup is the first."""
        _, _, of_function = self.listing.partition(f"function public @{name} ")
        numbers = dict(re.findall(r"(r\d+) = (\d+)\n", of_function.partition("\nfunction ")[0]))
        found = re.search(r"dispatch export (r\d+) \[(r\d+), (r\d+), (r\d+)\]", of_function)
        assert found, self.listing
        number, *grid = (int(numbers[register]) for register in found.groups())
        (export,) = re.findall(rf"^export {number} @\w+::@(\w+):", self.listing, re.MULTILINE)
        result = np.dtype(np.float32 if inputs[0].dtype.kind == "f" else np.int32)
        bindings = []
        for number, x in enumerate(inputs):
            file = self.folder / f"{number}.bin"
            file.write_bytes(x.tobytes())
            count = f"{x.nbytes}xi8" if x.dtype == np.float16 else f"{x.size}x{NAMES[x.dtype]}"
            bindings.append(f"--binding={count}=@{file}")
        which = [f"--export={export}", f"--grid={'x'.join(map(str, grid))}", f"--print={len(inputs)}",
                 f"--backwards={int(backwards)}"]  # fmt: skip
        words = [*self.words, *bindings, f"--binding={int(np.prod(shape))}x{NAMES[result]}", *which]
        environment = {**os.environ, "QEMU_CPU": model}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{name} on {model}: {done.stderr}"
        values = [float(v) for v in done.stdout.rpartition("=")[2].split()]
        return np.array(values).astype(result).reshape(shape)


def check_emulated(arch: str, cpu: str, folder: Path, runner: Sequence[str], works: Sequence[Work]) -> None:
    """The results of code for a CPU of another architecture, in an emulator of all that the architecture has: the same
    bits in whatever order workgroups run."""
    emulated = Emulated(program(works), arch, cpu, folder, runner)
    for work in works:
        inputs = work.inputs(whole=False)
        found, again = (emulated.run(work.name, inputs, work.shapes[2], EVERYTHING[arch], b) for b in (False, True))
        work.check(found, *inputs)
        assert found.tobytes() == again.tobytes(), work.name
