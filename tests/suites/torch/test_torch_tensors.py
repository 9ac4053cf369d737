"""Tensors of PyTorch on the CPU in and out of programs, through DLPack."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[3]
TYPES = {"f32": torch.float32, "f64": torch.float64, "i8": torch.int8, "i32": torch.int32, "i64": torch.int64}


def doubled(element: str) -> pd.Program:
    """f(x) = x + x for matrices of any size."""
    op = "addf" if element.startswith("f") else "addi"
    text = f"""func.func @f(%x: tensor<?x?x{element}>) -> tensor<?x?x{element}> {{
      %y = arith.{op} %x, %x : tensor<?x?x{element}>
      return %y : tensor<?x?x{element}>
    }}"""
    return pd.device("cpu").load(pd.compile(text))


@pytest.fixture(scope="module")
def mixed() -> pd.Program:
    return pd.device("cpu").load(pd.compile(ROOT / "examples" / "mixed" / "program.mlir"))


@pytest.mark.parametrize("element", TYPES)
def test_every_type(element: str) -> None:
    x = (torch.arange(35).reshape(5, 7) - 17).to(TYPES[element])
    y = torch.from_dlpack(doubled(element).f(x))
    assert y.dtype == x.dtype and torch.equal(y, x + x)


def test_the_example_equals_torch(mixed: pd.Program) -> None:
    a, b = torch.randn(2, 1000, generator=torch.Generator().manual_seed(1))
    found = torch.from_dlpack(mixed.mixed_invocation(a, b))
    product = a * b
    torch.testing.assert_close(found, product * (product + b), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("view", ["transposed", "every other", "a column of a larger one", "offset"])
def test_views_are_copied(view: str) -> None:
    base = torch.randn(12, 14)
    x = {
        "transposed": base.T,
        "every other": base[::2, ::2],
        "a column of a larger one": base[:, 3:4],
        "offset": base[1:, 1:],
    }[view]
    f = doubled("f32").f
    assert torch.equal(torch.from_dlpack(f(x)), x + x)


def test_rows_of_a_larger_tensor_are_used_where_they_lie() -> None:
    x = torch.randn(12, 14)[3:7]
    assert torch.equal(torch.from_dlpack(doubled("f32").f(x)), x + x)


def test_a_result_is_written_into_a_tensor() -> None:
    f = doubled("f32").f
    x, out = torch.randn(6, 4), torch.zeros(6, 4)
    where = out.data_ptr()
    assert f(x, out=out) is out
    assert out.data_ptr() == where and torch.equal(out, x + x)


def test_a_result_shares_its_memory_with_the_tensor() -> None:
    result = doubled("f32").f(torch.ones(3, 3))
    tensor = torch.from_dlpack(result)
    assert tensor.data_ptr() == result.ctypes.data
    tensor += 1
    assert (result == 3).all()
    del result
    assert torch.equal(tensor, torch.full((3, 3), 3.0))


def test_inputs_stay() -> None:
    x = torch.randn(9, 9)
    before = x.clone()
    doubled("f32").f(x)
    assert torch.equal(x, before)


def test_a_prepared_call(mixed: pd.Program) -> None:
    a, b = torch.full((8,), 2.0), torch.full((8,), 4.0)
    call = mixed.mixed_invocation.prepare(a, b)
    assert torch.from_dlpack(call()).tolist() == [96.0] * 8
    a.fill_(1.0)
    assert torch.from_dlpack(call(a, b)).tolist() == [32.0] * 8


def test_tensors_that_have_gradients_are_refused() -> None:
    with pytest.raises((pd.Error, RuntimeError, BufferError, TypeError), match="grad"):
        doubled("f32").f(torch.ones(2, 2, requires_grad=True))
    x = torch.ones(2, 2, requires_grad=True)
    assert torch.from_dlpack(doubled("f32").f(x.detach())).sum() == 8


def test_wrong_tensors_are_refused() -> None:
    f = doubled("f32").f
    with pytest.raises(pd.InvalidArgumentError, match=r"f64|float64"):
        f(torch.ones(2, 2, dtype=torch.float64))
    with pytest.raises(pd.InvalidArgumentError):
        f(torch.ones(2))


def test_threads(mixed: pd.Program) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            a, b = torch.randn(2, 100 + seed, generator=generator)
            product = a * b
            if not torch.allclose(torch.from_dlpack(mixed.mixed_invocation(a, b)), product * (product + b), atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_and_tensors_mix(mixed: pd.Program) -> None:
    found = mixed.mixed_invocation(torch.full((8,), 2.0), np.full(8, 4, np.float32))
    assert found.tolist() == [96.0] * 8
