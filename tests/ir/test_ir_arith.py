"""arith and math on scalars, index, vectors and tensors: parse, print, parse."""

import itertools

import pytest

from pydispatch import ir
from pydispatch.errors import CompileError

SHAPES = ("{}", "tensor<4x{}>", "tensor<?x{}>", "vector<4x{}>")
FLOAT2 = ["addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf", "maxnumf", "minnumf"]
INT2 = [
    "addi",
    "subi",
    "muli",
    "divui",
    "divsi",
    "floordivsi",
    "ceildivsi",
    "ceildivui",
    "remui",
    "remsi",
    "minui",
    "maxui",
    "minsi",
    "maxsi",
    "andi",
    "ori",
    "xori",
    "shli",
    "shrui",
    "shrsi",
]
FLOAT1 = [
    "absf",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "log",
    "log10",
    "log1p",
    "log2",
    "round",
    "roundeven",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "isnan",
    "isinf",
    "isfinite",
    "isnormal",
]
CASTS = [
    ("extf", "f32", "f64"), ("truncf", "f32", "f16"), ("extsi", "i32", "i64"), ("extui", "i32", "i64"),
    ("trunci", "i32", "i8"), ("sitofp", "i32", "f32"), ("uitofp", "i32", "f32"), ("fptosi", "f32", "i32"),
    ("fptoui", "f32", "i32"), ("index_cast", "i32", "index"), ("index_castui", "index", "i32"),
    ("bitcast", "f32", "i32"),
]  # fmt: skip


def statements(shape: str) -> list[str]:
    f, i, x, b = (shape.format(t) for t in ("f32", "i32", "index", "i1"))
    out = [f"arith.{o} %f, %f : {f}" for o in FLOAT2]
    out += [f"arith.{o} %{v}, %{v} : {t}" for o, (v, t) in itertools.product(INT2, (("i", i), ("x", x)))]
    out += [f"math.{o} %f : {f}" for o in FLOAT1]
    out += [f"math.{o} %f, %f : {f}" for o in ("atan2", "copysign", "powf")]
    out += [f"math.{o} %i : {i}" for o in ("absi", "ctlz", "cttz", "ctpop")]
    out += [f"arith.{o} %{a[0] if a != 'index' else 'x'} : {shape.format(a)} to {shape.format(r)}" for o, a, r in CASTS]
    out += [
        f"arith.addf %f, %f fastmath<contract> : {f}",
        f"arith.addi %i, %i overflow<nsw, nuw> : {i}",
        f"arith.cmpi ult, %i, %i : {i}",
        f"arith.cmpf one, %f, %f : {f}",
        f"arith.select %s, %f, %f : {f}",
        f"arith.select %b, %f, %f : {b}, {f}" if shape != "{}" else f"arith.select %b, %f, %f : {f}",
        f"math.fma %f, %f, %f : {f}",
        f"math.clampf %f to [%f, %f] : {f}",
        f"math.ipowi %i, %i : {i}",
        f"math.fpowi %f, %i : {f}, {i}",
    ]
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise_round_trip(shape: str) -> None:
    arguments = ", ".join(
        f"%{v}: {shape.format(t)}" for v, t in zip("fixb", ("f32", "i32", "index", "i1"), strict=True)
    )
    body = "\n".join(f"  %r{n} = {s}" for n, s in enumerate(statements(shape)))
    module = ir.parse(f"func.func @f({arguments}, %s: i1) {{\n{body}\n  return\n}}\n")
    text = ir.print_module(module)
    assert module.is_structurally_equivalent(ir.parse(text))
    for statement in statements(shape):
        assert statement.split(" ")[0] in text


@pytest.mark.parametrize(
    "wrong",
    [
        '"arith.cmpi"(%a, %a) <{predicate = "slt"}> : (i64, i64) -> i1',
        '"arith.cmpi"(%a, %a) <{predicate = 2 : i64}> : (i64, i64) -> f32',
        '"arith.cmpi"(%a) <{predicate = 2 : i64}> : (i64) -> i1',
    ],
)
def test_a_right_operation_does_not_hide_a_wrong_one(wrong: str) -> None:
    right = "%0 = arith.cmpi slt, %a, %a : i64"
    ir.parse(f"func.func @f(%a: i64) {{\n  {right}\n  return\n}}\n")
    with pytest.raises(CompileError, match=r":3:"):
        ir.parse(f"func.func @f(%a: i64) {{\n  {right}\n  %1 = {wrong}\n  return\n}}\n")
