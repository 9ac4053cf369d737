"""mma of every shape against matrix products, by the fragments' layouts as the PTX ISA draws them; wmma; stmatrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ptx_engine import Kernels, wrap

from pydispatch.errors import ArtifactError

LANE = np.arange(32)
G, T = LANE // 4, LANE % 4


def half_row(i: int) -> Any:
    """Rows of A of 16-bit elements: i of a0..a7."""
    return G + 8 * (i // 2 % 2)


# Of each kind: (elements of A, row, column), (of B, row, column), as functions of the element's number.
Place = Callable[[int], Any]
LAYOUTS: dict[str, tuple[int, Place, Place, int, Place]] = {
    "m16n8k16.16": (8, half_row, lambda i: T * 2 + i % 2 + 8 * (i >= 4), 4, lambda i: T * 2 + i % 2 + 8 * (i >= 2)),
    "m16n8k8.16": (4, half_row, lambda i: T * 2 + i % 2, 2, lambda i: T * 2 + i),
    "m16n8k4.32": (2, lambda i: G + 8 * i, lambda i: T, 1, lambda i: T),
    "m16n8k8.32": (4, lambda i: G + 8 * (i % 2), lambda i: T + 4 * (i >= 2), 2, lambda i: T + 4 * i),
    "m16n8k16.8": (8, lambda i: G + 8 * (i >= 4), lambda i: T * 4 + i % 4, 4, lambda i: T * 4 + i),
    "m16n8k32.8": (
        16, lambda i: G + 8 * (i // 4 % 2), lambda i: T * 4 + i % 4 + 16 * (i >= 8), 8,
        lambda i: T * 4 + i % 4 + 16 * (i >= 4),
    ),
    "m8n8k16.8": (4, lambda i: G, lambda i: T * 4 + i, 4, lambda i: T * 4 + i),
    "m8n8k4.64": (1, lambda i: G, lambda i: T, 1, lambda i: T),
    "m16n8k4.64": (2, lambda i: G + 8 * i, lambda i: T, 1, lambda i: T),
    "m16n8k8.64": (4, lambda i: G + 8 * (i % 2), lambda i: T + 4 * (i >= 2), 2, lambda i: T + 4 * i),
}  # fmt: skip
DTYPES = {"f16": "f2", "bf16": "u2", "tf32": "f4", "s8": "i1", "u8": "u1", "f64": "f8", "f32": "f4", "s32": "i4"}


def random(rng: np.random.Generator, type_: str, shape: tuple[int, ...]) -> Any:
    if type_ in ("s8", "u8"):
        return rng.integers(-128 if type_ == "s8" else 0, 128 if type_ == "s8" else 256, shape).astype(DTYPES[type_])
    if type_ == "s32":
        return rng.integers(-1000, 1000, shape).astype("i4")
    if type_ in ("bf16", "tf32"):
        bits = rng.normal(size=shape).astype("f4").view("u4")
        return (bits >> 16).astype("u2") if type_ == "bf16" else (bits & 0xFFFFE000).view("f4")
    return rng.normal(size=shape).astype(DTYPES[type_])


def wide(values: Any, type_: str) -> Any:
    if type_ == "bf16":
        return (values.astype("u4") << 16).view("f4").astype("f8")
    return values.astype("i8" if values.dtype.kind in "iu" else "f8")


@pytest.mark.parametrize(
    ("shape", "types"),
    [
        ("m16n8k16", "f32.f16.f16.f32"), ("m16n8k16", "f16.f16.f16.f16"), ("m16n8k8", "f32.f16.f16.f32"),
        ("m16n8k16", "f32.bf16.bf16.f32"), ("m16n8k8", "f32.bf16.bf16.f32"), ("m16n8k4", "f32.tf32.tf32.f32"),
        ("m16n8k8", "f32.tf32.tf32.f32"), ("m16n8k16", "s32.s8.s8.s32"), ("m16n8k32", "s32.u8.s8.s32"),
        ("m8n8k16", "s32.s8.u8.s32"), ("m8n8k4", "f64.f64.f64.f64"), ("m16n8k4", "f64.f64.f64.f64"),
        ("m16n8k8", "f64.f64.f64.f64"),
    ],
)  # fmt: skip
def test_products(shape: str, types: str) -> None:
    to, first, second, given = types.split(".")
    size = np.dtype(DTYPES[first]).itemsize
    elements, row, column, depth, inner = LAYOUTS[f"{shape}.{8 * size}"]
    m, k = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    rng = np.random.default_rng(sum(map(ord, shape + types)))
    a, b, c = random(rng, first, (m, k)), random(rng, second, (k, 8)), random(rng, given, (m, 8))
    # The fragments, lane by lane, as bytes.
    fragment_a = np.stack([a[row(i), column(i)] for i in range(elements)], axis=1)
    fragment_b = np.stack([b[inner(i), G] for i in range(depth)], axis=1)
    places = [(G + 8 * (i // 2), T * 2 + i % 2) for i in range(m // 4)]
    fragment_c = np.stack([c[p] for p in places], axis=1)
    word = 8 if first == "f64" else 4
    counts = [array.shape[1] * array.itemsize // word for array in (fragment_a, fragment_b, fragment_c)]
    counts.append(m // 4 * np.dtype(DTYPES[to]).itemsize // word)
    out = np.zeros((32, m // 4), DTYPES[to])
    names, text = "abcd", f".reg .u32 %i; .reg .b64 %p; .reg .b{8 * word} %a<8>, %b<8>, %c<8>, %d<8>;\n"
    text += "mov.u32 %i, %laneid;\n"
    for name, count in zip(names, counts, strict=True):
        text += f"ld.param.u64 %p, [{name}]; mad.wide.u32 %p, %i, {count * word}, %p;\n"
        if name == "d":
            listed = [
                f"{{{', '.join(f'%{one}{n}' for n in range(have))}}}" for one, have in zip(names, counts, strict=True)
            ]
            sources = ", ".join((listed[3], *listed[:3]))
            text += f"mma.sync.aligned.{shape}.row.col.{types} {sources};\n"
        for n in range(count):
            at = f"[%p+{n * word}]"
            load, store = f"ld.global.b{8 * word} %{name}{n}, {at};", f"st.global.b{8 * word} {at}, %d{n};"
            text += f"{store if name == 'd' else load}\n"
    kernels = Kernels(wrap(f"{text} ret;", params=", ".join(f".param .u64 {name}" for name in names)))
    kernels("k", 1, 32, *(np.ascontiguousarray(x) for x in (fragment_a, fragment_b, fragment_c)), out)
    want = wide(a, first) @ wide(b, second) + wide(c, given)
    got = np.zeros((m, 8), out.dtype)
    for n, place in enumerate(places):
        got[place] = out[:, n]
    if to == "f64":
        assert np.allclose(got, want, rtol=1e-15, atol=1e-15)
    else:
        assert (got == want.astype(DTYPES[to])).all()


def test_fragments_of_wmma() -> None:
    kernels = Kernels.of("engine_wmma_sm_80")
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(16, 24)).astype("f2"), rng.normal(size=(16, 32)).astype("f2")
    c, d = rng.normal(size=(16, 16)).astype("f4"), np.zeros((16, 16), "f4")
    kernels("halves", 1, 32, a, b, c, d, 24, 32, 16)
    assert ((a[:, :16].astype("f8") @ b[:, :16].T.astype("f8") + 2 * c).astype("f4") == d.T).all()
    x, y, z = random(rng, "s8", (32, 16)), random(rng, "s8", (16, 8)), np.zeros((32, 8), "i4")
    kernels("bytes", 1, 32, x, y, z)
    assert (z == x.astype("i4") @ y.astype("i4") + 5).all()
    p, q, r = rng.normal(size=(8, 4)), rng.normal(size=(4, 8)), np.zeros((8, 8))
    kernels("doubles", 1, 32, p, q, r)
    assert np.allclose(r, p @ q, rtol=1e-15, atol=1e-15)
    small = np.zeros((8, 8))
    kernels("doubles", 1, 32, p * 2.0**-480, q * 2.0**-480, small)
    assert (small == r * 2.0**-960).all()


def product_of_halves(shape: str, registers_of_a: int = 8) -> str:
    """A kernel that multiplies matrices of f16 in fragments, whose factors have eight registers in every shape."""
    a, b, c = (", ".join(f"%{name}{n}" for n in range(8)) for name in "abc")
    loaded_a = ", ".join(f"%a{n}" for n in range(registers_of_a))
    body = f""".reg .u64 %p; .reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>;
      ld.param.u64 %p, [x]; wmma.load.a.sync.aligned.row.{shape}.global.f16 {{{loaded_a}}}, [%p];
      ld.param.u64 %p, [y]; wmma.load.b.sync.aligned.row.{shape}.global.f16 {{{b}}}, [%p];
      ld.param.u64 %p, [z]; wmma.load.c.sync.aligned.row.{shape}.global.f32 {{{c}}}, [%p];
      wmma.mma.sync.aligned.row.row.{shape}.f32.f32 {{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};
      wmma.store.d.sync.aligned.row.{shape}.global.f32 [%p], {{{c}}}; ret;"""
    return wrap(body, params=".param .u64 x, .param .u64 y, .param .u64 z")


@pytest.mark.parametrize(("m", "n"), [(16, 16), (8, 32), (32, 8)])
def test_fragments_of_halves_have_eight_registers(m: int, n: int) -> None:
    rng = np.random.default_rng(m)
    x, y, z = random(rng, "f16", (m, 16)), random(rng, "f16", (16, n)), random(rng, "f32", (m, n))
    want = (wide(x, "f16") @ wide(y, "f16") + wide(z, "f32")).astype("f4")
    Kernels(product_of_halves(f"m{m}n{n}k16"))("k", 1, 32, x, y, z)
    assert (z == want).all()
    with pytest.raises(ArtifactError, match="has 4 registers, expected 8"):
        Kernels(product_of_halves(f"m{m}n{n}k16", registers_of_a=4))("k", 1, 32, x, y, z)


def test_matrices_between_registers_and_shared_memory() -> None:
    """Two matrices loaded, one of them turned over twice, and stored turned over."""
    body = """.reg .u32 %i, %a, %r<4>; .reg .u64 %p, %q; .shared .align 16 .b8 s[512]; mov.u32 %i, %tid.x;
      ld.param.u64 %p, [x]; mad.wide.u32 %p, %i, 8, %p; ld.global.v2.u32 {%r0, %r1}, [%p]; mad.lo.u32 %a, %i, 8, 0;
      st.shared.v2.u32 [%a], {%r0, %r1}; bar.sync 0; and.b32 %a, %i, 15; mad.lo.u32 %a, %a, 16, 0;
      ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%a]; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r1;
      stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%a+256], {%r0, %r1}; bar.sync 0;
      mad.lo.u32 %a, %i, 8, 256; ld.shared.v2.u32 {%r0, %r1}, [%a]; ld.param.u64 %p, [y]; mad.wide.u32 %p, %i, 8, %p;
      st.global.v2.u32 [%p], {%r0, %r1}; ret;"""
    x, y = np.arange(128, dtype="u2").reshape(2, 8, 8), np.zeros((2, 8, 8), "u2")
    Kernels(wrap(body, params=".param .u64 x, .param .u64 y"))("k", 1, 32, x, y)
    assert (y[0] == x[0]).all() and (y[1] == x[1].T).all()
