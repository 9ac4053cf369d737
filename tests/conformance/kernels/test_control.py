# ruff: noqa: E501  (lines of MLIR)
"""scf, cf, affine and memref programs against what they say in Python."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_targets import load
from kernels import Loaded, buffer, parallel, variant

from pydispatch.compiler.backends.cpu.backend import compile_variant
from pydispatch.errors import CompileError

HEAD = """func.func @kernel() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0 : i64
  %nw = hal.interface.constant.load[0] : i32
  %n = arith.index_cast %nw : i32 to index
  %in = hal.interface.binding.subspan binding(0) : memref<?xi64>{%n}
  %out = hal.interface.binding.subspan binding(1) : memref<?xi64>{%n}
"""
N = 24


def run(body: str, data: np.ndarray | None = None, head: str = HEAD, **options: object) -> np.ndarray:
    data = np.arange(N, dtype=np.int64) if data is None else data
    out = buffer(np.full(N, -1, np.int64))
    kernel = load(head + body + "\nfunc.return\n}", constants=1, bindings=2, **options)
    assert kernel.run(buffer(data), out, constants=[len(data)]) == 0
    return out


def test_for_and_if() -> None:
    out = run("""
      %sum, %count = scf.for %i = %c0 to %n step %c2 iter_args(%s = %zero, %k = %c0) -> (i64, index) {
        %x = memref.load %in[%i] : memref<?xi64>
        %seven = arith.constant 7 : i64
        %big = arith.cmpi sgt, %x, %seven : i64
        %t = scf.if %big -> (i64) {
          %a = arith.addi %s, %x : i64
          scf.yield %a : i64
        } else {
          scf.yield %s : i64
        }
        %k1 = arith.addi %k, %c1 : index
        scf.yield %t, %k1 : i64, index
      }
      memref.store %sum, %out[%c0] : memref<?xi64>
      %count64 = arith.index_cast %count : index to i64
      memref.store %count64, %out[%c1] : memref<?xi64>
      %none = scf.for %i = %n to %c0 step %c1 iter_args(%s = %sum) -> (i64) { scf.yield %zero : i64 }
      memref.store %none, %out[%c2] : memref<?xi64>""")
    total = sum(x for x in range(0, N, 2) if x > 7)
    assert list(out[:3]) == [total, N // 2, total]


def test_while_switch_region() -> None:
    out = run("""
      %one = arith.constant 1 : i64
      %limit = arith.constant 100 : i64
      %steps, %last = scf.while (%a = %zero, %b = %one) : (i64, i64) -> (i64, i64) {
        %go = arith.cmpi slt, %b, %limit : i64
        scf.condition(%go) %a, %b : i64, i64
      } do {
      ^bb0(%a: i64, %b: i64):
        %c = arith.addi %a, %b : i64
        scf.yield %b, %c : i64, i64
      }
      memref.store %steps, %out[%c0] : memref<?xi64>
      memref.store %last, %out[%c1] : memref<?xi64>
      scf.for %i = %c2 to %n step %c1 {
        %v = scf.index_switch %i -> i64
        case 3 { %k = arith.constant 33 : i64
          scf.yield %k : i64 }
        case 5 { %k = arith.constant 55 : i64
          scf.yield %k : i64 }
        default { %k = arith.index_cast %i : index to i64
          scf.yield %k : i64 }
        memref.store %v, %out[%i] : memref<?xi64>
      }""")
    assert list(out[:2]) == [89, 144]
    assert list(out[2:]) == [{3: 33, 5: 55}.get(i, i) for i in range(2, N)]


def test_blocks() -> None:
    out = run("""
      cf.br ^loop(%c0, %zero : index, i64)
    ^loop(%i: index, %s: i64):
      %more = arith.cmpi slt, %i, %n : index
      cf.cond_br %more, ^body, ^done(%s, %zero : i64, i64)
    ^body:
      %x = memref.load %in[%i] : memref<?xi64>
      %next = arith.addi %i, %c1 : index
      %t = arith.addi %s, %x : i64
      %odd = arith.trunci %x : i64 to i1
      cf.cond_br %odd, ^loop(%next, %t : index, i64), ^loop(%next, %s : index, i64)
    ^done(%total: i64, %flag: i64):
      memref.store %total, %out[%c0] : memref<?xi64>
      %two = arith.constant 2 : i32
      cf.switch %two : i32, [
        default: ^end(%total : i64),
        1: ^end(%flag : i64),
        2: ^other
      ]
    ^other:
      cf.br ^end(%s : i64)
    ^end(%v: i64):
      memref.store %v, %out[%c1] : memref<?xi64>""")
    assert list(out[:2]) == [sum(range(1, N, 2))] * 2


def test_parallel_and_views() -> None:
    body = (
        """
      %m = memref.reinterpret_cast %in to offset: [0], sizes: [4, 6], strides: [6, 1] : memref<?xi64> to memref<4x6xi64>
      %o = memref.reinterpret_cast %out to offset: [0], sizes: [6, 4], strides: [4, 1] : memref<?xi64> to memref<6x4xi64>
      %c4 = arith.constant 4 : index
      %c6 = arith.constant 6 : index
      """
        + parallel(
            [("%c0", "%c4", "%c1"), ("%c0", "%c6", "%c1")],
            ["%i", "%j"],
            """
        %x = memref.load %m[%i, %j] : memref<4x6xi64>
        memref.store %x, %o[%j, %i] : memref<6x4xi64>""",
        )
        + """
      %part = memref.subview %o[1, 0] [2, 4] [2, 1] : memref<6x4xi64> to memref<2x4xi64, strided<[8, 1], offset: 4>>
      %row = memref.subview %o[%c2, 1] [1, 3] [1, 1] : memref<6x4xi64> to memref<3xi64, strided<[1], offset: ?>>
      %minus = arith.constant -5 : i64
      memref.store %minus, %part[%c1, %c2] : memref<2x4xi64, strided<[8, 1], offset: 4>>
      memref.store %minus, %row[%c2] : memref<3xi64, strided<[1], offset: ?>>
      %d = memref.dim %row, %c0 : memref<3xi64, strided<[1], offset: ?>>
      %d64 = arith.index_cast %d : index to i64
      memref.store %d64, %o[%c0, %c0] : memref<6x4xi64>
      %flat = memref.collapse_shape %o [[0, 1]] : memref<6x4xi64> into memref<24xi64>
      %c23 = arith.constant 23 : index
      memref.store %minus, %flat[%c23] : memref<24xi64>
      %cube = memref.expand_shape %flat [[0, 1, 2]] output_shape [2, 3, 4] : memref<24xi64> into memref<2x3x4xi64>
      memref.store %minus, %cube[%c1, %c0, %c0] : memref<2x3x4xi64>
      %base, %offset, %sizes, %strides = memref.extract_strided_metadata %row : memref<3xi64, strided<[1], offset: ?>> -> memref<i64>, index, index, index
      %o64 = arith.index_cast %offset : index to i64
      memref.store %o64, %o[%c0, %c1] : memref<6x4xi64>"""
    )
    expected = np.arange(N).reshape(4, 6).T.copy()
    expected[3, 2] = expected[2, 3] = -5
    expected[0, 0] = 3
    expected[0, 1] = 9
    expected.reshape(-1)[[23, 12]] = -5
    np.testing.assert_array_equal(run(body).reshape(6, 4), expected)


@pytest.mark.parametrize("size", ["0", "?"])
def test_an_expanded_size_beside_0_is_0(size: str) -> None:
    """The size is that of the source divided by 0."""
    count = "%c0" if size == "?" else "0"
    found = run(f"""
      %none = memref.reinterpret_cast %in to offset: [0], sizes: [{count}], strides: [1] : memref<?xi64> to memref<{size}xi64>
      %split = "memref.expand_shape"(%none) <{{reassociation = [[0 : i64, 1 : i64]],
          static_output_shape = array<i64: -9223372036854775808, 0>}}> : (memref<{size}xi64>) -> memref<?x0xi64>
      %rows = memref.dim %split, %c0 : memref<?x0xi64>
      %rows64 = arith.index_cast %rows : index to i64
      memref.store %rows64, %out[%c0] : memref<?xi64>""")
    assert found[0] == 0


def test_storage() -> None:
    """Workgroup memory, stack memory, constants, copies; each workgroup sees its own slices."""
    source = (
        """"memref.global"() <{sym_name = "table", sym_visibility = "private", type = memref<4xi64>, constant, initial_value = dense<[10, 20, 30, 40]> : tensor<4xi64>}> : () -> ()
    """
        + HEAD
        + """
      %local = memref.alloc() : memref<6xi64, #gpu.address_space<workgroup>>
      %other = memref.alloc() : memref<700xi64, #gpu.address_space<workgroup>>
      %stack = memref.alloca() : memref<2x3xi64>
      %table = memref.get_global @table : memref<4xi64>
      %c3 = arith.constant 3 : index
      %t = memref.load %table[%c3] : memref<4xi64>
      %c6 = arith.constant 6 : index
      scf.for %i = %c0 to %c6 step %c1 {
        %x = memref.load %in[%i] : memref<?xi64>
        memref.store %x, %local[%i] : memref<6xi64, #gpu.address_space<workgroup>>
        memref.store %zero, %other[%i] : memref<700xi64, #gpu.address_space<workgroup>>
      }
      "gpu.barrier"() : () -> ()
      %view = memref.reinterpret_cast %local to offset: [0], sizes: [2, 3], strides: [1, 2] : memref<6xi64, #gpu.address_space<workgroup>> to memref<2x3xi64, strided<[1, 2]>, #gpu.address_space<workgroup>>
      "memref.copy"(%view, %stack) : (memref<2x3xi64, strided<[1, 2]>, #gpu.address_space<workgroup>>, memref<2x3xi64>) -> ()
      scf.for %i = %c0 to %c2 step %c1 {
        scf.for %j = %c0 to %c3 step %c1 {
          %x = memref.load %stack[%i, %j] : memref<2x3xi64>
          %y = arith.addi %x, %t : i64
          %r = arith.muli %i, %c3 : index
          %k = arith.addi %r, %j : index
          memref.store %y, %out[%k] : memref<?xi64>
        }
      }
      memref.dealloc %local : memref<6xi64, #gpu.address_space<workgroup>>
      func.return
    }"""
    )
    binary = compile_variant(variant(source, constants=1, bindings=2))
    kernel = Loaded(binary)
    assert kernel.table.attrs[0].pages == 2  # 64 + 5600 bytes
    out = buffer(np.zeros(N, np.int64))
    kernel.run(buffer(np.arange(N)), out, constants=[N])
    np.testing.assert_array_equal(out[:6], [40, 42, 44, 41, 43, 45])


def test_point_storage_is_its_own() -> None:
    """Stack memory inside a parallel loop belongs to one point, although the loop is vectorised."""
    body = parallel(
        [("%c0", "%n", "%c1")],
        ["%i"],
        """
      %mine = memref.alloca() : memref<8xi64>
      %x = memref.load %in[%i] : memref<?xi64>
      %c7 = arith.constant 7 : index
      %slot = arith.andi %i, %c7 : index
      memref.store %x, %mine[%slot] : memref<8xi64>
      %y = memref.load %mine[%slot] : memref<8xi64>
      %z = arith.addi %y, %y : i64
      memref.store %z, %out[%i] : memref<?xi64>""",
    )
    np.testing.assert_array_equal(run(body), 2 * np.arange(N))


def test_affine() -> None:
    out = run("""
      affine.for %i = 0 to 4 {
        %k = affine.apply affine_map<(d0)[s0] -> (d0 * 6 + (s0 mod 5))>(%i)[%n]
        %m = affine.min affine_map<(d0) -> (d0, 20)>(%k)
        %x = memref.load %in[%m] : memref<?xi64>
        memref.store %x, %out[%i] : memref<?xi64>
      }
      %f = affine.apply affine_map<(d0) -> ((d0 - 30) floordiv 4)>(%n)
      %c = affine.apply affine_map<(d0) -> ((d0 - 30) ceildiv 4)>(%n)
      %r = affine.apply affine_map<(d0) -> ((d0 - 31) mod 4)>(%n)
      %f64 = arith.index_cast %f : index to i64
      %c64 = arith.index_cast %c : index to i64
      %r64 = arith.index_cast %r : index to i64
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      %c6 = arith.constant 6 : index
      memref.store %f64, %out[%c4] : memref<?xi64>
      memref.store %c64, %out[%c5] : memref<?xi64>
      memref.store %r64, %out[%c6] : memref<?xi64>""")
    assert list(out[:7]) == [4, 10, 16, 20, (N - 30) // 4, -(-(N - 30) // 4), (N - 31) % 4]


def test_helpers_pass_memrefs() -> None:
    source = (
        """
    func.func private @sum(%m: memref<?xi64, strided<[?], offset: ?>>) -> (i64, memref<?xi64, strided<[?], offset: ?>>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0 : i64
      %n = memref.dim %m, %c0 : memref<?xi64, strided<[?], offset: ?>>
      %s = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero) -> (i64) {
        %x = memref.load %m[%i] : memref<?xi64, strided<[?], offset: ?>>
        %b = arith.addi %a, %x : i64
        scf.yield %b : i64
      }
      func.return %s, %m : i64, memref<?xi64, strided<[?], offset: ?>>
    }
    """
        + HEAD
        + """
      %odd = memref.subview %in[1] [12] [2] : memref<?xi64> to memref<12xi64, strided<[2], offset: 1>>
      %cast = memref.cast %odd : memref<12xi64, strided<[2], offset: 1>> to memref<?xi64, strided<[?], offset: ?>>
      %s, %same = func.call @sum(%cast) : (memref<?xi64, strided<[?], offset: ?>>) -> (i64, memref<?xi64, strided<[?], offset: ?>>)
      memref.store %s, %out[%c0] : memref<?xi64>
      %x = memref.load %same[%c2] : memref<?xi64, strided<[?], offset: ?>>
      memref.store %x, %out[%c1] : memref<?xi64>
      func.return
    }"""
    )
    kernel = load(source, constants=1, bindings=2)
    out = buffer(np.zeros(N, np.int64))
    kernel.run(buffer(np.arange(N)), out, constants=[N])
    assert list(out[:2]) == [sum(range(1, N, 2)), 5]


def test_grid_constants_offsets() -> None:
    source = """func.func @kernel() {
      %x = hal.interface.workgroup.id[0] : index
      %y = hal.interface.workgroup.id[1] : index
      %z = hal.interface.workgroup.id[2] : index
      %cx = hal.interface.workgroup.count[0] : index
      %cy = hal.interface.workgroup.count[1] : index
      %sz = hal.interface.workgroup.size[2] : index
      %wide = hal.interface.constant.load[0] : i64
      %float = hal.interface.constant.load[2] : f32
      %small = hal.interface.constant.load[3] : i8
      %offset = hal.interface.constant.load[4] : index
      %key = hal.executable.constant.load "key" : i32
      %out = hal.interface.binding.subspan binding(0) offset(%offset) : memref<?x6xi64>{%cx}
      %open = hal.interface.binding.subspan binding(0) offset(%offset) : memref<4xi64, strided<[1], offset: ?>>
      %a = arith.muli %z, %cy : index
      %b = arith.addi %a, %y : index
      %c = arith.muli %b, %cx : index
      %row = arith.addi %c, %x : index
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      memref.store %wide, %out[%row, %c0] : memref<?x6xi64>
      %f = arith.fptosi %float : f32 to i64
      memref.store %f, %out[%row, %c1] : memref<?x6xi64>
      %s = arith.extsi %small : i8 to i64
      memref.store %s, %out[%row, %c2] : memref<?x6xi64>
      %k = arith.extui %key : i32 to i64
      memref.store %k, %out[%row, %c3] : memref<?x6xi64>
      %sz64 = arith.index_cast %sz : index to i64
      memref.store %sz64, %out[%row, %c4] : memref<?x6xi64>
      %base, %off, %size, %stride = iree_codegen.extract_strided_metadata %open : memref<4xi64, strided<[1], offset: ?>> -> memref<i64>, index, index, index
      %off64 = arith.index_cast %off : index to i64
      memref.store %off64, %out[%row, %c5] : memref<?x6xi64>
      func.return
    }"""
    kernel = load(source, constants=5, bindings=1, keys=("other", "key"))
    out = buffer(np.zeros((26, 6), np.int64))
    words = [0x9ABCDEF0, 0x12345678, int(np.float32(41.5).view(np.uint32)), 0x1FE, 48 * 2]
    assert kernel.table.constants == 2
    assert kernel.run(out, constants=words, grid=(2, 3, 4), executable_constants=[1, 0xFFFFFFFF]) == 0
    np.testing.assert_array_equal(out[2:], [[0x123456789ABCDEF0, 41, -2, 0xFFFFFFFF, 7, 12]] * 24)
    assert not out[:2].any()


def test_alignment_is_what_is_declared() -> None:
    source = """func.func @kernel() {
      %c0 = arith.constant 0 : index
      %a = hal.interface.binding.subspan binding(0) %s : memref<4xf64>
      %x = memref.load %a[%c0] : memref<4xf64>
      memref.store %x, %a[%c0] : memref<4xf64>
      func.return
    }"""
    for clause, expected in (("", 8), ("alignment(4)", 8), ("alignment(64)", 64)):
        assert compile_variant(variant(source.replace("%s", clause), bindings=1)).alignment == expected


@pytest.mark.parametrize(
    ("body", "message", "note"),
    [
        (
            "%s = memref.alloc(%n) : memref<?xi64>",
            "has no size known while compiling",
            "pass scratch memory as a binding",
        ),
        (
            "%s = memref.alloca() : memref<9000xi64>",
            "needs 72016 bytes of stack, the limit is 65536",
            "workgroup memory",
        ),
        (
            "%v = vector.broadcast %zero : i64 to vector<4xi64>",
            "operation 'vector.broadcast' cannot be compiled",
            "kernels are written in",
        ),
        (
            "%t = arith.constant dense<1> : tensor<2xi64>",
            "operation 'arith.constant' on tensor<2xi64>",
            "computes on scalars",
        ),
        (
            "%f = arith.constant 1.0 : f32\n%x = memref.atomic_rmw addi %f, %fm[%c0] : (f32, memref<4xf32>) -> f32",
            "atomic 'addi' on f32",
            "'addi' is for integers",
        ),
        ("%i4 = memref.alloca() : memref<8xi48>", "elements of type i48 cannot lie in memory", "16, 32 or 64 bits"),
        (
            "%z = memref.alloca() : memref<8xcomplex<f32>>",
            "type complex<f32> has no machine form here",
            "kernel IR computes on",
        ),
    ],
)
def test_what_is_refused(body: str, message: str, note: str) -> None:
    head = HEAD + "  %fm = memref.alloca() : memref<4xf32>\n"
    with pytest.raises(CompileError) as caught:
        compile_variant(variant(head + body + "\nfunc.return\n}", constants=1, bindings=2))
    assert message in caught.value.message
    assert note in (caught.value.note or "")
    assert caught.value.location is not None and caught.value.location.file == "kernel.mlir"


def test_words_of_an_index() -> None:
    """Lowered from an argument an index is two words; in a kernel that names its layout, or whose next word is taken, one."""
    words = [5, 1, 7]
    store = "%v = arith.index_cast %n : index to i64\n%c0 = arith.constant 0 : index\nmemref.store %v, %o[%c0] : memref<1xi64>"
    bind = "%o = hal.interface.binding.subspan binding(0) : memref<1xi64>\n"
    layout = "#hal.pipeline.layout<constants = 3, bindings = [#hal.pipeline.binding<storage_buffer>]>"
    rows = {
        "%n = hal.interface.constant.load[0] : index": 5 + (1 << 32),
        "%n = hal.interface.constant.load[0] : index\n%m = hal.interface.constant.load[1] : i32": 5,
        f"%n = hal.interface.constant.load layout({layout}) ordinal(0) : index": 5,
        "%n = hal.interface.constant.load[2] : index": 7,
    }
    for load_, expected in rows.items():
        kernel = load(
            "func.func @kernel() {\n" + load_ + "\n" + bind + store + "\nfunc.return\n}", constants=3, bindings=1
        )
        out = buffer(np.zeros(1, np.int64))
        kernel.run(out, constants=words)
        assert out[0] == expected, load_


def test_linear_indices() -> None:
    out = run("""
      scf.for %i = %c0 to %n step %c1 {
        %a, %b, %c = affine.delinearize_index %i into (2, 3, 4) : index, index, index
        %k = affine.linearize_index [%c, %a, %b] by (4, 2, 3) : index
        %v = arith.index_cast %k : index to i64
        memref.store %v, %out[%i] : memref<?xi64>
      }""")
    expected = [(i % 4) * 6 + (i // 12) * 3 + i // 4 % 3 for i in range(N)]
    assert list(out) == expected
