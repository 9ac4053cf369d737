"""Products by block-scaled weights on CPUs: recognised in every form, never expanded, and left alone where weights are
no blocks."""

from __future__ import annotations

import re
from typing import Any

import machine_levels
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydispatch._core.device import DeviceFunction
from pydispatch._core.plan_data import data_of
from quantized_products import Case

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.runtime.buffer import Buffer

LEVELS = ["generic", "x86-64-v3", "native"]


def with_constants(case: Case) -> tuple[str, dict[str, Any]]:
    arguments = case.arguments()
    return case.text({name: array for name, array in arguments.items() if name != "x"}), arguments


def products(text: str, **options: Any) -> list[str]:
    """The sums of products in the dispatches of a program, as the types of their inputs."""
    formed = compile_to("dispatches", text, targets="cpu", elide_bytes=64, **options)
    return re.findall(r'"reduction"\]} ins\([^:]*: ([^)]*)\)', formed)


def transient_bytes(program: Any, x: Any) -> int:
    """Bytes of the memory that a call of a program takes beside arguments and results."""
    index = next(index for index, name in program._module.functions() if name == "f")
    plan, _, _ = DeviceFunction(program._module, index, Buffer).bind((x,))
    return data_of(plan).arena_bytes


BYTE_PRODUCTS = {"x86-64-v4": "+avx512vnni", "x86-64-v3": "+avxvnni"}
"""Levels -> features with which they multiply bytes."""


@pytest.mark.parametrize("cpu", machine_levels.parameters(BYTE_PRODUCTS, BYTE_PRODUCTS))
@pytest.mark.parametrize(("bits", "tolerance"), [(8, 1.01 / 254), (16, 1.01 / 65024), (24, 1e-6)])
@pytest.mark.parametrize(
    "case",
    [
        Case((5,), 128, 160, 16, terms="bytes"),
        Case((16,), 64, 256, 64, terms="number"),
        Case((33,), 128, 512, 128, terms="floats"),
        Case((20,), 64, 160, 32, bits=8, terms="offset"),
        Case((24,), 64, 1024, 512, terms="bytes"),
        Case((9,), 64, 2048, 1024),
    ],
    ids=str,
)
def test_rows_become_integers(case: Case, bits: int, tolerance: float, cpu: str) -> None:
    """Blocks of one vector up to those of many, which are reduced in parts; whole groups of blocks and others."""
    text, arguments = with_constants(case)
    artifact = pd.compile(text, targets="cpu", cpu=cpu, cpu_features=BYTE_PRODUCTS[cpu], activation_bits=bits)
    case.check(pd.device("cpu").load(artifact).f(arguments["x"]), arguments, tolerance)


@pytest.mark.parametrize("cpu", machine_levels.parameters(LEVELS))
@pytest.mark.parametrize(
    "case",
    [
        Case((1,), 128, 256, 32, terms="number"),
        Case((5,), 160, 128, 64, order="halves", terms="number"),
        Case((1,), 128, 224, 32, terms="bytes"),
        Case((2, 3), 96, 384, 128, terms="floats"),
        Case((1,), 128, 256, 16, terms="offset", scale="f16"),
        Case((3,), 192, 96, 32, bits=8),
        Case((4,), 128, 128, 32, scale="bf16"),
        Case((1,), 128, 256, 64, bits=8, scale="bf16"),
        Case((17,), 128, 96, 32, bits=8, terms="bytes"),
        Case((1,), 128, 160, 160, bits=8),
        Case((40,), 128, 128, 32),
        Case((230,), 192, 768, 32, terms="floats"),
        Case((25, 3), 128, 416, 32, bits=8, terms="offset"),
        Case((129,), 192, 512, 64, bits=8, terms="bytes", scale="f16"),
        Case((2,), 128, 384, 32, terms="super", scale="f16"),
    ],
    ids=str,
)
def test_constants_are_packed_and_never_expanded(case: Case, cpu: str) -> None:
    text, arguments = with_constants(case)
    (types,) = products(text, cpu=cpu)
    assert ("xi4>" if case.bits == 4 else "xi8>") in types
    program = pd.device("cpu").load(pd.compile(text, targets="cpu", cpu=cpu))
    case.check(program.f(arguments["x"]), arguments)
    assert transient_bytes(program, arguments["x"]) < case.n * case.k


@pytest.mark.parametrize(
    ("rows", "cpu", "operations"),
    [
        (4, "x86-64-v3", []),
        (40, "x86-64-v3", ["pyd.unpack"]),
        (4, "icelake-server", []),
        (40, "icelake-server", ["pyd.unpack"]),
        (4, "sapphirerapids", []),
        (40, "sapphirerapids", ["pyd.configure_tiles", "pyd.unpack"]),
    ],
)
def test_many_rows_share_unpacked_weights(rows: int, cpu: str, operations: list[str]) -> None:
    """Few rows unpack weights in registers. Many rows unpack them into memory: as floats, or as bytes for AMX."""
    text, _ = with_constants(Case((rows,), 128, 256, 32, terms="number"))
    kernels = compile_to("executables", text, targets="cpu", cpu=cpu, elide_bytes=64)
    assert sorted(set(re.findall(r"pyd\.(?:unpack|configure_tiles)", kernels))) == operations


def test_a_small_matrix_is_not_packed() -> None:
    text, _ = with_constants(Case((1,), 32, 64, 32, bits=8))
    (types,) = products(text)
    assert "tensor<32x2x32xi8>" in types


@pytest.mark.parametrize(
    ("case", "tensor"),
    [
        (Case((2,), 64, 128, 32, bits=8), "64x4x32xi8"),
        (Case((2,), 64, 256, 32, bits=8, terms="super"), "64x8x32xi8"),
    ],
    ids=str,
)
def test_arguments_are_read_in_their_own_layout(case: Case, tensor: str) -> None:
    (types,) = products(case.text({}))
    assert f"tensor<{tensor}>" in types
    arguments = case.arguments()
    program = pd.device("cpu").load(pd.compile(case.text({}), targets="cpu"))
    case.check(program.f(*arguments.values()), arguments)


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([(1,), (2,), (7,), (2, 3), (19,)]), st.integers(1, 12), st.integers(1, 9),
    st.sampled_from([16, 24, 32, 64]), st.sampled_from([4, 8]),
    st.sampled_from(["", "number", "bytes", "floats", "offset"]), st.sampled_from(["pairs", "halves"]),
    st.sampled_from(["f32", "f16"]), st.sampled_from(machine_levels.of_this_machine(*LEVELS)), st.integers(0, 99),
)  # fmt: skip
def test_any_shape(
    rows: tuple[int, ...], columns: int, blocks: int, block: int, bits: int, terms: str, order: str, scale: str,
    cpu: str, seed: int,
) -> None:  # fmt: skip
    case = Case(rows, 16 * columns, block * blocks, block, bits, terms, order, scale)
    arguments = case.arguments(seed)
    text = case.text({name: array for name, array in arguments.items() if name != "x"})
    program = pd.device("cpu").load(pd.compile(text, targets="cpu", cpu=cpu))
    case.check(program.f(arguments["x"]), arguments)


def test_magnitudes_of_blocks_differ() -> None:
    case = Case((1,), 128, 128, 32, terms="number")
    text, arguments = with_constants(case)
    program = pd.device("cpu").load(pd.compile(text, targets="cpu", cpu="native"))
    x = arguments["x"] * np.repeat(np.float32([1e30, 1e-30, 0, 1]), 32)
    weights = case.weights(arguments["q"], arguments["s"]).astype(np.float64)
    np.testing.assert_allclose(program.f(x), x @ weights.T, rtol=1e-4)
    x = arguments["x"] * np.repeat(np.float32([0, 1e-30, 0, 1e-42]), 32)
    room = np.abs(x[:, 32:64]).max() * np.abs(weights[:, 32:64]).sum(1)
    assert np.all(np.abs(program.f(x) - x @ weights.T) <= 1e-6 * room)
    for value in (np.inf, np.nan):
        x[0, 5] = value
        assert not np.isfinite(program.f(x)).any()


def test_the_same_bits_for_any_number_of_workers() -> None:
    text, arguments = with_constants(Case((2,), 1024, 256, 32, terms="bytes"))
    artifact = pd.compile(text, targets="cpu", cpu="native")
    one, two = (np.asarray(pd.device(f"cpu?workers={w}").load(artifact).f(arguments["x"])) for w in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_scales_of_every_step_are_no_blocks() -> None:
    text, _ = with_constants(Case((1,), 128, 256, 1, bits=8))
    assert all("xi8>" not in types for types in products(text))


def test_written_order_of_floats_is_kept_where_it_is_asked_for() -> None:
    case = Case((1,), 128, 256, 32, bits=8)
    text, arguments = with_constants(case)
    program = pd.device("cpu").load(pd.compile(text, targets="cpu", reassociate=False))
    weights = case.weights(arguments["q"], arguments["s"])
    expected = np.zeros(128, np.float32)
    for k in range(256):
        expected += arguments["x"][0, k] * weights[:, k]
    np.testing.assert_array_equal(program.f(arguments["x"])[0], expected)


def panels(rows: int, blocks: int, groups: int, width: int, conversion: str) -> str:
    """A product by three panels of weights of 8 bits, each `width` columns. conversion: emits %zf, f32, from %z, i8."""
    steps = 4 * groups
    types = (
        f"tensor<{rows}x{blocks * steps}xf32>", f"tensor<3x{blocks}x{groups}x{width}x4xi8>",
        f"tensor<3x{blocks}x{width}xi8>", f"tensor<3x{blocks}x{width}xf32>",
    )  # fmt: skip
    maps = ", ".join(
        f"affine_map<(r, p, c, b, g, s) -> ({index})>"
        for index in (f"r, b * {steps} + g * 4 + s", "p, b, g, c, s", "p, b, c", "p, b, c", "r, p, c")
    )
    return f"""
func.func @f(%x: {types[0]}, %w: {types[1]}, %zeros: {types[2]}, %scales: {types[3]}) -> tensor<{rows}x3x{width}xf32> {{
  %initial = arith.constant dense<0.0> : tensor<{rows}x3x{width}xf32>
  %r = linalg.generic {{indexing_maps = [{maps}],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
      ins(%x, %w, %zeros, %scales : {", ".join(types)}) outs(%initial : tensor<{rows}x3x{width}xf32>) {{
  ^bb0(%a: f32, %u: i8, %z: i8, %scale: f32, %sum: f32):
    %wide = arith.extui %u : i8 to i32
    %q = arith.sitofp %wide : i32 to f32
    {conversion}
    %difference = arith.subf %q, %zf : f32
    %b = arith.mulf %difference, %scale : f32
    %product = arith.mulf %a, %b : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  }} -> tensor<{rows}x3x{width}xf32>
  return %r : tensor<{rows}x3x{width}xf32>
}}
"""


UNSIGNED = "%zw = arith.extui %z : i8 to i32\n %zf = arith.sitofp %zw : i32 to f32"
SIGNED = "%zf = arith.sitofp %z : i8 to f32"


@pytest.mark.parametrize("cpu", machine_levels.parameters([*LEVELS, "icelake-server", "sapphirerapids"]))
@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize(
    ("groups", "width", "conversion"),
    [(8, 32, UNSIGNED), (8, 32, SIGNED), (8, 5, UNSIGNED), (8, 24, UNSIGNED), (8, 48, UNSIGNED), (160, 16, UNSIGNED)],
    ids=["unsigned", "signed", "5 columns", "24 columns", "48 columns", "long blocks"],
)
def test_panels_that_a_program_states(groups: int, width: int, conversion: str, rows: int, cpu: str) -> None:
    """Zero points may be signed, panels may have any number of columns, and sums of long blocks exceed 32 bits."""
    rng, blocks = np.random.default_rng(width), 2
    x = rng.uniform(0.5, 1, (rows, blocks * groups * 4)).astype(np.float32)
    weights = rng.integers(192, 256, (3, blocks, groups, width, 4)).astype(np.uint8)
    zeros = rng.integers(-128, 0, (3, blocks, width)).astype(np.int8)
    scales = rng.uniform(0.01, 0.03, (3, blocks, width)).astype(np.float32)
    program = pd.device("cpu").load(pd.compile(panels(rows, blocks, groups, width, conversion), targets="cpu", cpu=cpu))
    read_zeros = zeros if conversion == SIGNED else zeros.view(np.uint8)
    per_column = (read_zeros.astype(np.float64), scales.astype(np.float64))
    zero, scale = (term[:, :, None, :, None] for term in per_column)
    matrix = ((weights - zero) * scale).transpose(0, 3, 1, 2, 4).reshape(3 * width, -1)
    room = np.abs(x).max(1, keepdims=True) * np.abs(matrix).sum(1) * 1e-5
    got = np.asarray(program.f(x, weights.view(np.int8), zeros, scales)).reshape(rows, -1)
    assert np.all(np.abs(got - x @ matrix.T) <= room)


WIDE_INTEGERS = """
func.func @f(%x: tensor<3x16x32xf32>) -> tensor<3x512xf32> {{
  %weights = arith.constant {weights} : tensor<512x16x32x{type_}>
  %zeros = arith.constant {zeros} : tensor<512x16x{type_}>
  %scales = arith.constant {scales} : tensor<512x16xf32>
  %start = arith.constant dense<0.0> : tensor<3x512xf32>
  %r = linalg.generic {{indexing_maps = [
      affine_map<(m, n, b, j) -> (m, b, j)>, affine_map<(m, n, b, j) -> (n, b, j)>, affine_map<(m, n, b, j) -> (n, b)>,
      affine_map<(m, n, b, j) -> (n, b)>, affine_map<(m, n, b, j) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
      ins(%x, %weights, %zeros, %scales
          : tensor<3x16x32xf32>, tensor<512x16x32x{type_}>, tensor<512x16x{type_}>, tensor<512x16xf32>)
      outs(%start : tensor<3x512xf32>) {{
  ^bb0(%a: f32, %stored: {type_}, %zero: {type_}, %scale: f32, %sum: f32):
    %q = arith.sitofp %stored : {type_} to f32
    %z = arith.sitofp %zero : {type_} to f32
    %difference = arith.subf %q, %z : f32
    %weight = arith.mulf %difference, %scale : f32
    %product = arith.mulf %a, %weight : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  }} -> tensor<3x512xf32>
  return %r : tensor<3x512xf32>
}}"""


@pytest.mark.parametrize(
    ("least", "type_"), [(-128, "i8"), (200, "i16"), (1000, "i16"), (-3000, "i32"), (70000, "i32")]
)
def test_panels_hold_few_numbers_of_any_integers(least: int, type_: str) -> None:
    """The least number is subtracted from weights and zero points, which then fit 4 and 8 bits."""
    rng = np.random.default_rng(1)
    weights, zeros = (least + rng.integers(0, 16, shape) for shape in ((512, 16, 32), (512, 16)))
    scales, x = rng.uniform(0.01, 0.03, (512, 16)).astype(np.float32), rng.standard_normal((3, 16, 32), np.float32)
    numpy_type = type_.replace("i", "int")
    constants = {"weights": weights.astype(numpy_type), "zeros": zeros.astype(numpy_type), "scales": scales}
    text = WIDE_INTEGERS.format(
        type_=type_, **{name: f'dense<"0x{array.tobytes().hex()}">' for name, array in constants.items()}
    )
    (types,) = products(text)
    assert "xi4>" in types and "x64xi8>" in types
    wanted = np.einsum("mbj,nbj->mn", x, (weights - zeros[..., None]) * scales[..., None].astype(np.float64))
    np.testing.assert_allclose(pd.device("cpu").load(pd.compile(text, targets="cpu")).f(x), wanted, atol=1e-5)
