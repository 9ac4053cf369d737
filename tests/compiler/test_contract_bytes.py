"""Products of bytes into i32: every sign and zero point, with and without instructions for them, exact modulo 2^32."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import machine_levels
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_contract import FORMS, shapes_of, tensor
from xdsl.dialects import func

import pydispatch as pd
from pydispatch.compiler.constants.grouped import grouped_factor
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.compiler.kernel_ir.kernel import Target
from pydispatch.compiler.kernels.matmul.cpu.arithmetic import arithmetic_of
from pydispatch.compiler.kernels.matmul.cpu.kernel import contraction_in
from pydispatch.compiler.kernels.matmul.cpu.tiles import level_of
from pydispatch.compiler.target.cpu import machine_of
from pydispatch.formats.program.program import disassemble
from pydispatch.ir import parse

Array = np.ndarray[Any, Any]
LEVELS = [
    (level, features)
    for level, features in (
        ("generic", ""), ("generic", "+avx"), ("x86-64-v3", ""), ("x86-64-v3", "+avxvnni"), ("x86-64-v4", ""),
        ("x86-64-v4", "+avx512vnni"), ("native", ""),
    )
    if machine_levels.runs(level, features)
]  # fmt: skip
VPDPBUSD = re.compile(rb"\x62[\x00-\xff]{3}\x50")
"""An EVEX instruction with the opcode of vpdpbusd."""
SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 13, 15, 16, 17, 31, 33, 67, 97])
EDGES = {"s": (-128, 127), "u": (0, 255)}


def bytes_of(rng: np.random.Generator, shape: tuple[int, ...], sign: str, extreme: bool) -> Array:
    """Bytes as wide integers; extreme: only the least and the greatest."""
    low, high = EDGES[sign]
    return rng.choice([low, high], shape) if extreme else rng.integers(low, high, shape, endpoint=True)


def product(
    form: str, shapes: list[tuple[int, ...]], signs: str, zeros: tuple[int, int] = (0, 0), dynamic: bool = False
) -> str:
    """C + A·B of bytes with signs such as "su", without constant zero points."""
    maps, iterators, _ = FORMS[form]
    ta, tb, tc = (tensor(s, t, dynamic) for s, t in zip(shapes, ("i8", "i8", "i32"), strict=True))
    loops = ", ".join({"p": '"parallel"', "r": '"reduction"'}[i] for i in iterators)
    affine = ", ".join(f"affine_map<{m}>" for m in maps)
    extends = [f"arith.ext{'si' if sign == 's' else 'ui'}" for sign in signs]
    return f"""
func.func @f(%a: {ta}, %b: {tb}, %c: {tc}) -> {tc} {{
  %za = arith.constant {zeros[0]} : i32
  %zb = arith.constant {zeros[1]} : i32
  %r = linalg.generic {{indexing_maps = [{affine}], iterator_types = [{loops}]}}
      ins(%a, %b : {ta}, {tb}) outs(%c : {tc}) {{
    ^bb0(%x: i8, %y: i8, %s: i32):
      %u = {extends[0]} %x : i8 to i32
      %v = {extends[1]} %y : i8 to i32
      %p = arith.subi %u, %za : i32
      %q = arith.subi %v, %zb : i32
      %t = arith.muli %p, %q : i32
      %w = arith.addi %s, %t : i32
      linalg.yield %w : i32
  }} -> {tc}
  return %r : {tc}
}}
"""


def run(text: str, level: tuple[str, str], *arguments: Any, workers: int = 2) -> Array:
    cpu, features = level
    artifact = pd.compile(text, targets="cpu", cpu=cpu, cpu_features=features)
    result: Array = pd.device(f"cpu?workers={workers}").load(artifact).f(*arguments)
    return result


def check(
    form: str, sizes: dict[str, int], signs: str, level: tuple[str, str], zeros: tuple[int, int] = (0, 0),
    dynamic: bool = False, extreme: bool = False,
) -> None:  # fmt: skip
    rng = np.random.default_rng(3)
    shapes = shapes_of(form, sizes)
    a, b = (bytes_of(rng, s, sign, extreme) for s, sign in zip(shapes[:2], signs, strict=True))
    c = rng.integers(-(1 << 31), 1 << 31, shapes[2]).astype(np.int32)
    total = np.einsum(FORMS[form][2], a - zeros[0], b - zeros[1]) + c
    expected = total.astype(np.uint64).astype(np.uint32).view(np.int32)
    found = run(product(form, shapes, signs, zeros, dynamic), level, a.astype(np.int8), b.astype(np.int8), c)
    np.testing.assert_array_equal(found, expected)


CASES = st.fixed_dictionaries({d: SIZES for d in "mnk"} | dict.fromkeys("bj", st.sampled_from([1, 3])))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("form", ["matmul", "transpose b", "transposed result", "batch", "vecmat", "two reductions"])
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(sizes=CASES, signs=st.sampled_from(["ss", "us", "su", "uu"]), level=st.sampled_from(LEVELS),
       zeros=st.tuples(st.sampled_from([0, 3, -128, 255]), st.sampled_from([0, -7, 127, 200])),
       extreme=st.booleans())  # fmt: skip
def test_forms(
    form: str, dynamic: bool, sizes: dict[str, int], signs: str, level: tuple[str, str], zeros: tuple[int, int],
    extreme: bool,
) -> None:  # fmt: skip
    check(form, sizes, signs, level, zeros, dynamic, extreme)


@pytest.mark.parametrize("level", LEVELS, ids=" ".join)
@pytest.mark.parametrize("signs", ["ss", "us", "su", "uu"])
def test_sums_that_wrap(signs: str, level: tuple[str, str]) -> None:
    """Equal extremes: no instruction may saturate, and a long K comes in parts."""
    check("matmul", {"m": 5, "n": 37, "k": 34001}, signs, level, extreme=True)
    check("matmul", {"m": 131, "n": 300, "k": 2051}, signs, level, zeros=(-128, 200))


@pytest.mark.parametrize("level", LEVELS, ids=" ".join)
@pytest.mark.parametrize("signs", ["ss", "us", "su", "uu"])
def test_single_sum_of_as_many_steps_as_a_vector_has_lanes(signs: str, level: tuple[str, str]) -> None:
    """The lanes of one vector of products are the sum, which begins with zero: nothing but their addition follows."""
    rng = np.random.default_rng(2)
    for steps in (4, 8, 16):
        text = product("matmul", [(1, steps), (steps, 1), (1, 1)], signs)
        text = text.replace(", %c: tensor<1x1xi32>", "").replace(
            "{\n", "{\n  %c = arith.constant dense<0> : tensor<1x1xi32>\n", 1
        )
        a, b = bytes_of(rng, (1, steps), signs[0], False), bytes_of(rng, (steps, 1), signs[1], False)
        np.testing.assert_array_equal(run(text, level, a.astype(np.int8), b.astype(np.int8)), a @ b)


@pytest.mark.parametrize("level", LEVELS, ids=" ".join)
def test_rows_that_only_the_call_knows(level: tuple[str, str]) -> None:
    text = product("matmul", [(0, 45), (45, 37), (0, 37)], "us", (9, 0)).replace("tensor<0x", "tensor<?x")
    rng = np.random.default_rng(1)
    b = rng.integers(-128, 128, (45, 37))
    for rows in (0, 1, 2, 5, 13, 14, 15, 40):
        a, c = rng.integers(0, 256, (rows, 45)), np.zeros((rows, 37), np.int32)
        found = run(text, level, a.astype(np.int8), b.astype(np.int8), c)
        np.testing.assert_array_equal(found, (a - 9) @ b)


@pytest.mark.parametrize(
    ("level", "features", "instruction"),
    [("x86-64-v4", "+avx512vnni", True), ("x86-64-v3", "+avxvnni", True), ("x86-64-v4", "", False)],
)
def test_which_instruction(level: str, features: str, instruction: bool) -> None:
    """Only where the CPU has it is it required."""
    text = product("matmul", [(64, 64), (64, 64), (64, 64)], "ss")
    artifact = pd.compile(text, targets="cpu", cpu=level, cpu_features=features)
    requires = {f for e in artifact.executables for v in e.variants for f in v.requires}
    assert (features.lstrip("+") in requires) == instruction if features else not requires & {"avx512vnni", "avxvnni"}
    if "avx512f" in requires:
        code = b"".join(artifact.read(v.member) for e in artifact.executables for v in e.variants)
        assert bool(VPDPBUSD.search(code)) == instruction


def test_values_are_known_through_what_computes_them() -> None:
    """A zero point that another operation takes off, and a pad of it: the product is still one of bytes."""
    text = """
#map = affine_map<(i, j) -> (i, j)>
func.func @f(%a: tensor<20x60xi8>, %b: tensor<64x64xi8>) -> tensor<20x64xi32> {
  %pad = arith.constant 200 : i8
  %p = tensor.pad %a low[0, 1] high[0, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %pad : i8
  } : tensor<20x60xi8> to tensor<20x64xi8>
  %e = tensor.empty() : tensor<20x64xi32>
  %w = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<20x64xi8>) outs(%e : tensor<20x64xi32>) {
  ^bb0(%x: i8, %o: i32):
    %u = arith.extui %x : i8 to i32
    linalg.yield %u : i32
  } -> tensor<20x64xi32>
  %s = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<20x64xi32>) outs(%e : tensor<20x64xi32>) {
  ^bb0(%x: i32, %o: i32):
    %z = arith.constant 117 : i32
    %d = arith.subi %x, %z : i32
    linalg.yield %d : i32
  } -> tensor<20x64xi32>
  %f = tensor.empty() : tensor<64x64xi32>
  %v = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<64x64xi8>) outs(%f : tensor<64x64xi32>) {
  ^bb0(%x: i8, %o: i32):
    %u = arith.extsi %x : i8 to i32
    linalg.yield %u : i32
  } -> tensor<64x64xi32>
  %c = arith.constant dense<0> : tensor<20x64xi32>
  %r = linalg.matmul ins(%s, %v : tensor<20x64xi32>, tensor<64x64xi32>) outs(%c : tensor<20x64xi32>)
      -> tensor<20x64xi32>
  return %r : tensor<20x64xi32>
}
"""
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 256, (20, 60), np.uint8), rng.integers(-128, 128, (64, 64), np.int8)
    padded = np.pad(a, ((0, 0), (1, 3)), constant_values=200).astype(np.int32)
    for level in LEVELS:
        found = run(text, level, a.view(np.int8), b)
        np.testing.assert_array_equal(found, (padded - 117) @ b.astype(np.int32))
    artifact = pd.compile(text, targets="cpu", cpu="x86-64-v4", cpu_features="+avx512vnni")
    (executable,) = artifact.executables
    code = artifact.read(executable.variants[0].member)
    assert VPDPBUSD.search(code), "the product is none of bytes"


def constant(text: str, b: Array) -> str:
    """The product with its right-hand side as a constant of the program."""
    type_ = f"tensor<{b.shape[0]}x{b.shape[1]}xi8>"
    made = f'%b = arith.constant dense<"0x{b.astype(np.int8).tobytes().hex()}"> : {type_}'
    return text.replace(f", %b: {type_}", "").replace("  %za =", f"  {made}\n  %za =", 1)


@pytest.mark.parametrize("level", LEVELS, ids=" ".join)
@pytest.mark.parametrize("form", ["matmul", "transpose b"])
@pytest.mark.parametrize(("signs", "zeros"), [("us", (128, 0)), ("ss", (0, 0)), ("uu", (3, 120)), ("su", (-7, 0))])
def test_constant_factors_are_packed_once(
    form: str, signs: str, zeros: tuple[int, int], level: tuple[str, str]
) -> None:
    """In groups as the instruction takes them: bytes, or pairs of i16. The same bits for any number of workers."""
    rng = np.random.default_rng(5)
    for m, k, n in ((1, 64, 96), (5, 36, 64), (17, 132, 32)):
        shapes = shapes_of(form, {"m": m, "n": n, "k": k})
        a, b = (bytes_of(rng, s, sign, False) for s, sign in zip(shapes[:2], signs, strict=True))
        c = rng.integers(-(1 << 31), 1 << 31, shapes[2]).astype(np.int32)
        total = np.einsum(FORMS[form][2], a - zeros[0], b - zeros[1]) + c
        expected = total.astype(np.uint64).astype(np.uint32).view(np.int32)
        artifact = pd.compile(
            constant(product(form, shapes, signs, zeros), b), targets="cpu", cpu=level[0], cpu_features=level[1]
        )
        assert "derived by function" in disassemble(artifact.read("program.bin"))
        for workers in (1, 2):
            found = pd.device(f"cpu?workers={workers}").load(artifact).f(a.astype(np.int8), c)
            np.testing.assert_array_equal(found, expected)


def test_levels_that_pack_differently_share_the_constant_as_it_is() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(-128, 128, (5, 64)), rng.integers(-128, 128, (64, 64))
    text = constant(product("matmul", [(5, 64), (64, 64), (5, 64)], "ss"), b)
    artifact = pd.compile(text, targets="cpu", cpu=["x86-64-v3", "native"], cpu_features="")
    found = pd.device("cpu").load(artifact).f(a.astype(np.int8), np.zeros((5, 64), np.int32))
    np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize(("cpu", "signs", "instruction"), [
    ("neoverse-n1", "ss", "sdot"), ("neoverse-n1", "uu", "udot"), ("neoverse-n1", "us", "sdot"),
    ("neoverse-v1", "ss", "smmla"), ("neoverse-v1", "uu", "ummla"), ("neoverse-v1", "us", "usmmla"),
    ("neoverse-v1", "su", "usmmla"),
])  # fmt: skip
def test_instructions_of_arm(cpu: str, signs: str, instruction: str, tmp_path: Path) -> None:
    """Bytes are multiplied as they are where the machine has an instruction for their signs: nothing is taken off."""
    text = product("matmul", [(29, 75), (75, 37), (29, 37)], signs)
    pd.compile(text, targets="aarch64", cpu=cpu, dump=tmp_path)
    (file,) = tmp_path.glob("*dispatch_0*.s")
    found = re.findall(r"\b\w*(?:dot|mmla)\b", file.read_text())
    assert set(found) == {instruction}


REQUANTIZED = """
#rows = affine_map<(d0, d1) -> (d0, d1)>
#columns = affine_map<(d0, d1) -> (d1)>
func.func @f(%a: tensor<56x64xi8>, %b: tensor<64x64xi8>, %c: tensor<56x64xi32>, %scale: tensor<64xf32>)
    -> tensor<56x64xi8> {{
  %product = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %b : tensor<56x64xi8>, tensor<64x64xi8>) outs(%c : tensor<56x64xi32>) {{
    ^bb0(%x: i8, %y: i8, %s: i32):
      %u = arith.extui %x : i8 to i32
      %v = arith.extsi %y : i8 to i32
      %p = arith.muli %u, %v : i32
      %w = arith.addi %s, %p : i32
      linalg.yield %w : i32
  }} -> tensor<56x64xi32>
  %empty = tensor.empty() : tensor<56x64xi8>
  %bytes = linalg.generic {{indexing_maps = [#rows, #columns, #rows], iterator_types = ["parallel", "parallel"]}}
      ins(%product, %scale : tensor<56x64xi32>, tensor<64xf32>) outs(%empty : tensor<56x64xi8>) {{
    ^bb0(%sum: i32, %by: f32, %o: i8):
      {constants}
      %f = arith.sitofp %sum : i32 to f32
      %m = arith.mulf %f, %by : f32
      %l = arith.maximumf %m, %least : f32
      %h = arith.minimumf %l, %most : f32
      %r = math.roundeven %h : f32
      %n = arith.fptosi %r : f32 to i32
      %z = arith.addi %n, %zero : i32
      %q = arith.xori %z, %sign : i32
      %t = arith.trunci %q : i32 to i8
      linalg.yield %t : i8
  }} -> tensor<56x64xi8>
  return %bytes : tensor<56x64xi8>
}}
"""


def test_constants_of_a_requantization_spill_no_sums(tmp_path: Path) -> None:
    """The loop over K has only loads and products: its reloads of spilled sums would depend on the stack's address."""
    values = {"least": "-1.28e2 : f32", "most": "1.27e2 : f32", "zero": "3 : i32", "sign": "85 : i32"}
    constants = "\n      ".join(f"%{name} = arith.constant {value}" for name, value in values.items())
    text = REQUANTIZED.format(constants=constants)
    pd.compile(text, targets="x86_64", cpu="x86-64-v4", cpu_features="+avx512vnni", dump=tmp_path)
    (file,) = tmp_path.glob("*dispatch_0*.s")
    loops = re.split(r"^\.LBB\w+:", file.read_text(), flags=re.MULTILINE)
    (product_loop,) = [loop for loop in loops if loop.count("vpdpbusd") > 8]
    assert "(%rsp)" not in product_loop.split("\tj")[0]


@pytest.mark.parametrize("cpus", [("cascadelake", "sapphirerapids"), ("sapphirerapids", "cascadelake")])
def test_factors_are_packed_for_the_first_of_equal_levels(cpus: tuple[str, str]) -> None:
    """Not for one that a set has first, which differs between processes."""
    text = product("matmul", [(64, 128), (128, 256), (64, 256)], "us")
    formed = parse(compile_to("dispatches", text, targets="x86_64", cpu=cpus[0]))
    source = next(op for op in formed.walk() if isinstance(op, func.FuncOp) and "dispatch" in op.sym_name.data)
    match = contraction_in(source)
    assert match is not None
    levels = [level_of(machine_of(Target("llvm-cpu", "embedded-elf-x86_64", cpu))) for cpu in cpus]
    grouped = grouped_factor(source, match.contraction, levels)
    assert grouped is not None and grouped.arithmetic == arithmetic_of(match.contraction, levels[0])
