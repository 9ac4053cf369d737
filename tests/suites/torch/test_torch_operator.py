"""Functions of programs as operators of PyTorch: eager, exported, compiled; what is refused; lifetime, threads."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pydispatch as pd

MULTIPLY = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %r = arith.mulf %x, %y : tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
"""
COUNTER = """
util.global private mutable @count = dense<0> : tensor<i64>
func.func @next(%by: tensor<i64>) -> tensor<i64> {
  %old = util.global.load @count : tensor<i64>
  %new = arith.addi %old, %by : tensor<i64>
  util.global.store %new, @count : tensor<i64>
  return %new : tensor<i64>
}
"""
numbers = itertools.count()


def loaded(text: str) -> pd.Program:
    return pd.device("cpu").load(pd.compile(text))


def new_name() -> str:
    return f"pydispatch_tests::f{next(numbers)}"


@pytest.fixture(autouse=True)
def _no_cache() -> Iterator[None]:
    """Compiled functions of other runs, of operators of these names, are not used."""
    with torch.compiler.config.patch(force_disable_caches=True):
        yield


@pytest.fixture(scope="module")
def program() -> pd.Program:
    return loaded(MULTIPLY)


@pytest.fixture(scope="module")
def multiply(program: pd.Program) -> Iterator[Any]:
    made = pd.to_torch(program.main, "pydispatch_tests::multiply")
    yield made
    made.close()


@pytest.mark.parametrize("rows", [0, 1, 7, 500])
def test_eager(multiply: Any, rows: int) -> None:
    x, y = torch.randn(rows, 4), torch.randn(rows, 4)
    torch.testing.assert_close(torch.ops.pydispatch_tests.multiply(x, y), x * y)
    torch.testing.assert_close(multiply(x, y=y), x * y)
    assert "main(x: float32[d0, 4]" in repr(multiply) and multiply.op is torch.ops.pydispatch_tests.multiply.default


def test_tensors_that_are_not_contiguous(multiply: Any) -> None:
    x = torch.randn(4, 6).T
    wide = torch.randn(12, 8)
    for y in (torch.randn(4, 6).T, wide[::2, 1:5], wide[0, :4].expand(6, 4), torch.randn(1, 4).expand(6, 4)):
        torch.testing.assert_close(multiply(x, y), x * y)
    z = torch.randn(6, 4, dtype=torch.complex64)
    torch.testing.assert_close(multiply(z.conj().imag, x), -z.imag * x)  # a negative view
    result = multiply(x, x)
    assert result.is_contiguous() and result.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("mlir, dtype", [
    ("i8", torch.int8), ("i16", torch.int16), ("i32", torch.int32), ("i64", torch.int64), ("ui8", torch.uint8),
    ("ui16", torch.uint16), ("ui32", torch.uint32), ("ui64", torch.uint64), ("i1", torch.bool), ("f16", torch.float16),
    ("bf16", torch.bfloat16), ("f32", torch.float32), ("f64", torch.float64), ("f8E5M2", torch.float8_e5m2),
    ("f8E4M3FN", torch.float8_e4m3fn), ("complex<f32>", torch.complex64), ("complex<f64>", torch.complex128),
])  # fmt: skip
def test_every_type(mlir: str, dtype: torch.dtype) -> None:
    reverse = loaded(
        f"""func.func @f(%x: tensor<3x{mlir}>) -> (tensor<3x{mlir}>, tensor<1x{mlir}>) {{
          %y = tensor.extract_slice %x[1] [1] [1] : tensor<3x{mlir}> to tensor<1x{mlir}>
          return %x, %y : tensor<3x{mlir}>, tensor<1x{mlir}>
        }}"""
    )
    op = pd.to_torch(reverse.f, new_name())
    x = torch.tensor([1, 0, 1]).to(dtype)
    same, one = op(x)
    assert same.dtype == one.dtype == dtype and same.data_ptr() != x.data_ptr()
    assert same.view(torch.uint8).tolist() == x.view(torch.uint8).tolist() and one.shape == (1,)
    op.close()


def test_numbers_and_several_results() -> None:
    text = """func.func @f(%x: tensor<?xf32>, %n: index, %s: f32, %on: i1, %i: i8) -> (tensor<?xf32>, f32, index, i8) {
      %y = tensor.extract_slice %x[0] [%n] [1] : tensor<?xf32> to tensor<?xf32>
      %two = arith.constant 2.0 : f32
      %t = arith.mulf %s, %two : f32
      %u = arith.select %on, %t, %s : f32
      return %y, %u, %n, %i : tensor<?xf32>, f32, index, i8
    }"""
    op = pd.to_torch(loaded(text).f, new_name())
    y, s, n, i = op(torch.arange(5.0), 3, 2.5, True, -7)
    assert y.tolist() == [0, 1, 2] and (s.item(), n.item(), i.item()) == (5.0, 3, -7)
    assert (s.dtype, n.dtype, i.dtype) == (torch.float32, torch.int64, torch.int8) and s.shape == ()
    assert op(torch.arange(5.0), n=2, s=1.5, on=False, i=0)[1].item() == 1.5
    with pytest.raises(RuntimeError, match=r"argument 4 'i' is 128, which int8 does not hold"):
        op(torch.arange(5.0), 3, 2.5, True, 128)
    with pytest.raises(RuntimeError, match="the slice ends outside"):
        op(torch.arange(5.0), 6, 2.5, True, 1)

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return op.op(x, x.shape[0] - 1, 1.0, True, 1)[0] * 2

    exported = torch.export.export(Model(), (torch.arange(5.0),), dynamic_shapes=({0: torch.export.Dim("k", min=3)},))
    assert exported.module()(torch.arange(4.0)).tolist() == [0, 2, 4]
    op.close()


RANK_0 = """
func.func @f(%x: tensor<3xf32>, %s: tensor<f32>, %n: tensor<i8>) -> (tensor<3xf32>, tensor<i8>) {
  %v = tensor.extract %s[] : tensor<f32>
  %e = tensor.splat %v : tensor<3xf32>
  %y = arith.mulf %x, %e : tensor<3xf32>
  return %y, %n : tensor<3xf32>, tensor<i8>
}
"""
ACCEPTED = [
    (2.5, 3), (2, -128), (True, True), (np.float32(2.5), np.int8(127)), (np.float64(0.1), np.int64(-7)),
    (float("inf"), np.bool_(True)), (torch.tensor(1.5), torch.tensor(4, dtype=torch.int8)),
]  # fmt: skip
REFUSED = [
    (1.0, 1.5, "argument 2 'n': expected i8"), (1.0, 300, r"expected i8.*outside \[-128, 127\]"),
    (1e39, 1, "argument 1 's': expected f32"), (1j, 1, "argument 1 's': expected f32"),
    (1.0, np.int64(-129), r"outside \[-128, 127\]"), (1.0, np.float32(1), "argument 2 'n': expected i8"),
    (np.float64(-1e39), 1, "expected f32"),
    # Only traced code takes an array of rank 0.
    (1.0, np.array(2**64 - 1, np.uint64), r"outside \[-128, 127\]|Expected .* 'Tensor' for argument 'n'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def rank_0() -> Iterator[Any]:
    made = pd.to_torch(loaded(RANK_0).f, "pydispatch_tests::rank_0")
    yield made
    made.close()


@pytest.mark.parametrize("compiled", [None, False, True], ids=["eager", "compiled", "dynamic"])
@pytest.mark.parametrize("scale, number", ACCEPTED, ids=str)
def test_numbers_where_tensors_of_rank_0_are_expected(rank_0: Any, scale: Any, number: Any, compiled: Any) -> None:
    def call(x: Tensor, scale: Any, number: Any) -> Any:
        return rank_0(x, scale, n=number)

    torch._dynamo.reset()
    f = call if compiled is None else torch.compile(call, backend="eager", fullgraph=True, dynamic=compiled)
    y, n = f(torch.ones(3), scale, number)
    assert y.tolist() == [float(np.float32(scale))] * 3 and n.dtype == torch.int8 and n.item() == int(number)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("scale, number, message", REFUSED, ids=str)
def test_numbers_outside_the_element_type_are_refused(
    rank_0: Any, scale: Any, number: Any, message: str, compiled: bool
) -> None:
    def call(x: Tensor, scale: Any, number: Any) -> Any:
        return rank_0(x, scale, number)

    torch._dynamo.reset()
    f = torch.compile(call, backend="eager", fullgraph=True) if compiled else call
    with pytest.raises((RuntimeError, pd.InvalidArgumentError), match=message):
        f(torch.ones(3), scale, number)


def test_tensors_of_rank_0_have_the_element_type(rank_0: Any) -> None:
    with pytest.raises(RuntimeError, match="argument 2 'n': expected elements of type int8, got int64"):
        rank_0(torch.ones(3), torch.tensor(1.0), torch.tensor(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_inside_compiled_functions(multiply: Any, backend: str) -> None:
    @torch.compile(backend=backend, fullgraph=True, dynamic=True)
    def model(x: Tensor, y: Tensor) -> Tensor:
        return torch.tanh(torch.ops.pydispatch_tests.multiply(x + 1, y)).sum() + multiply(x, y).sum()

    for rows in (3, 4, 9):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        torch.testing.assert_close(model(x, y), torch.tanh((x + 1) * y).sum() + (x * y).sum())
    torch._dynamo.reset()


def test_shapes_are_known_before_a_call(multiply: Any) -> None:
    assert multiply(torch.empty(5, 4, device="meta"), torch.empty(5, 4, device="meta")).shape == (5, 4)
    joined = loaded("""func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?xf32>) {
      %a = tensor.concat dim(0) %x, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
      %c0 = arith.constant 0 : index
      %c2 = arith.constant 2 : index
      %d = tensor.dim %x, %c0 : tensor<?x4xf32>
      %h = arith.divui %d, %c2 : index
      %z = tensor.extract_slice %x[0, 0] [%h, 1] [1, 1] : tensor<?x4xf32> to tensor<?xf32>
      return %a, %z : tensor<?x4xf32>, tensor<?xf32>
    }""")
    op = pd.to_torch(joined.f, new_name())
    on = {"device": "meta"}
    assert [tuple(t.shape) for t in op(torch.empty(5, 4, **on), torch.empty(2, 4, **on))] == [(7, 4), (2,)]
    x, y = torch.randn(5, 4), torch.randn(2, 4)
    model = torch.compile(lambda x, y: op.op(x, y)[0] * 2, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(model(x, y), torch.cat([x, y]) * 2)
    torch.testing.assert_close(op(x, y)[1], x[:2, 0])
    torch.library.opcheck(op.op, (x, y), test_utils=("test_schema", "test_faketensor"))
    op.close()


def test_exported_and_loaded_again(multiply: Any, tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.pydispatch_tests.multiply(x, x + 1)

    exported = torch.export.export(Model(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("rows")},))
    torch.export.save(exported, tmp_path / "model.pt2")
    x = torch.randn(6, 4)
    torch.testing.assert_close(torch.export.load(tmp_path / "model.pt2").module()(x), x * (x + 1))


def test_what_does_not_fit(multiply: Any) -> None:
    x = torch.randn(3, 4)
    for wrong, text in (
        (x.double(), r"@main: argument 1 'y': expected elements of type float32, got float64"),
        (x[0], r"@main: argument 1 'y': expected 2 axes, got 1"),
        (torch.randn(2, 4), r"@main.*y"),
        (torch.randn(3, 5), r"@main.*5"),
    ):
        with pytest.raises(RuntimeError, match=text):
            multiply(x, wrong)
        with pytest.raises(Exception, match=r"@main: .*'y'"):
            multiply(x.to("meta"), wrong.to("meta"))
    for arguments in ((x,), (x, x, x), (x, "y"), (x, None)):
        with pytest.raises((RuntimeError, TypeError), match=r"multiply|expected a tensor, got None"):
            multiply(*arguments)
    gradient = multiply(x.requires_grad_(), x)
    with pytest.raises(pd.InvalidArgumentError, match=r"has no derivative; state one with pydispatch\.vjp before"):
        gradient.sum().backward()


def test_a_derivative_of_the_users(program: pd.Program) -> None:
    op = pd.to_torch(program.main, name := new_name())

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return op(gradient, y), op(gradient, x)

    torch.library.register_autograd(name, backward, setup_context=setup)
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    op(x, y).sum().backward()
    torch.testing.assert_close(x.grad, y)
    op.close()


def test_names_and_functions_that_are_refused(program: pd.Program, multiply: Any) -> None:
    refused = pd.InvalidArgumentError
    for name in ("multiply", "a::b::c", "a::", "a::1", "a.b::c", ""):
        with pytest.raises(refused, match="expected 'library::operator'"):
            pd.to_torch(program.main, name)
    with pytest.raises(refused, match="close that function first"):
        pd.to_torch(program.main, "pydispatch_tests::multiply")
    with pytest.raises(refused, match="PyTorch refuses the operator aten::relu"):
        pd.to_torch(program.main, "aten::relu")
    with pytest.raises(refused, match=r"pass program\.main, not program"):
        pd.to_torch(program, new_name())
    with pytest.raises(refused, match="argument 0 has elements of type i4, which PyTorch does not pass"):
        four = loaded("func.func @f(%x: tensor<4xi4>) -> tensor<4xi4> { return %x : tensor<4xi4> }")
        pd.to_torch(four.f, new_name())
    closed = loaded(MULTIPLY)
    function = closed.main
    closed.close()
    with pytest.raises(pd.Error, match="closed"):
        pd.to_torch(function, new_name())


def test_close_and_register_again(program: pd.Program) -> None:
    name, x = new_name(), torch.randn(3, 4)
    op = pd.to_torch(program.main, name)
    compiled = torch.compile(lambda x: op.op(x, x) + 1, backend="aot_eager")
    torch.testing.assert_close(compiled(x), x * x + 1)
    op.close()
    op.close()
    with pytest.raises(RuntimeError, match="was closed; register it again"):
        compiled(x)
    with pytest.raises(pd.InvalidArgumentError, match="was closed"):
        op.op(x.to("meta"), x.to("meta"))
    other = loaded(MULTIPLY.replace("mulf", "addf"))
    with pytest.raises(pd.InvalidArgumentError, match="with another schema"):
        pd.to_torch(loaded(MULTIPLY.replace("%y", "%z")).main, name)
    again = pd.to_torch(other.main, name)
    op.close()  # does not close the other
    torch.testing.assert_close(compiled(x), x + x + 1)
    again.close()


def test_the_program_lives_until_it_is_closed() -> None:
    program = loaded(MULTIPLY.replace("mulf", "subf"))
    name = new_name()
    op = pd.to_torch(program.main, name).op
    program.close()
    del program
    gc.collect()
    x = torch.randn(3, 4)
    torch.testing.assert_close(op(x, x / 2), x - x / 2)


def test_state_is_kept_and_every_call_counts() -> None:
    op = pd.to_torch(loaded(COUNTER).next, new_name())
    one = torch.tensor(1)
    assert [int(op(one)) for _ in range(3)] == [1, 2, 3]

    @torch.compile(backend="inductor", fullgraph=True)
    def twice(by: Tensor) -> Tensor:
        op.op(by)  # unused, and equal to the next
        return op.op(by)

    assert int(twice(one)) == 5 and int(twice(one)) == 7
    op.close()


def test_sizes_that_a_run_decides() -> None:
    text = """func.func @f(%x: tensor<?xf32>, %n: tensor<index>) -> tensor<?xf32> {
      %k = tensor.extract %n[] : tensor<index>
      %y = tensor.extract_slice %x[0] [%k] [1] : tensor<?xf32> to tensor<?xf32>
      return %y : tensor<?xf32>
    }"""
    op = pd.to_torch(loaded(text).f, new_name())
    x = torch.arange(5.0)
    assert op(x, torch.tensor(3)).tolist() == [0, 1, 2] and op(x, torch.tensor(0)).shape == (0,)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        model = torch.compile(lambda x, n: op.op(x, n) * 2, backend="aot_eager", fullgraph=True)
        assert model(x, torch.tensor(2)).tolist() == [0, 2] and model(x, torch.tensor(4)).shape == (4,)
    op.close()


def test_from_several_threads(multiply: Any) -> None:
    arguments = [torch.randn(1 + i % 5, 4) for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        for x, found in zip(arguments, pool.map(lambda x: multiply(x, x), arguments), strict=True):
            torch.testing.assert_close(found, x * x)


def test_a_call_holds_no_lock_of_python() -> None:
    """Another thread of Python goes on while one call runs for a while."""
    text = """func.func @slow(%x: tensor<f32>) -> tensor<f32> {
      %n = arith.constant 100000000 : index
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> tensor<f32> {
        %b = math.sqrt %a : tensor<f32>
        scf.yield %b : tensor<f32>
      }
      return %r : tensor<f32>
    }"""
    op = pd.to_torch(loaded(text.replace("100000000", "300000")).slow, new_name())
    done = threading.Event()

    def call() -> None:
        op(torch.tensor(2.0))
        done.set()

    thread = threading.Thread(target=call)
    start = time.monotonic()
    thread.start()
    steps = 0
    while not done.is_set() and time.monotonic() - start < 30:
        steps += 1
        time.sleep(0.001)
    thread.join()
    assert steps > 5, f"{steps} steps in {time.monotonic() - start} s"
    op.close()


def test_a_process_ends_well_with_operators_in_it() -> None:
    text = f"""
import torch, pydispatch as pd
program = pd.device("cpu").load(pd.compile({MULTIPLY!r}))
op = pd.to_torch(program.main, "ends::well")
x = torch.randn(3, 4)
assert torch.equal(torch.ops.ends.well(x, x), x * x)
"""
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and not ran.stderr.strip(), ran.stderr
