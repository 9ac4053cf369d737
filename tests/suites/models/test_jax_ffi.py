"""Functions of programs that XLA calls: inside jit, loops and vmap, from threads, and everything that is refused."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pydispatch as pd

MULTIPLY = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %r = arith.mulf %x, %y : tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
"""


def loaded(text: str) -> pd.Program:
    return pd.device("cpu").load(pd.compile(text))


@pytest.fixture(scope="module")
def program() -> pd.Program:
    return loaded(MULTIPLY)


@pytest.fixture
def multiply(program: pd.Program) -> Iterator[Any]:
    made = pd.to_jax(program.main)
    yield made
    made.close()


def given(rows: int) -> tuple[jax.Array, jax.Array]:
    x = jnp.arange(rows * 4, dtype=jnp.float32).reshape(rows, 4)
    return x, x + 1


@pytest.mark.parametrize("rows", [0, 1, 7, 500])
def test_inside_jit(multiply: Any, rows: int) -> None:
    x, y = given(rows)
    found = jax.jit(lambda x, y: jnp.tanh(multiply(x, y)).sum())(x, y)
    np.testing.assert_allclose(found, jnp.tanh(x * y).sum(), rtol=1e-6)


def test_without_jit_and_by_name(multiply: Any) -> None:
    x, y = given(3)
    np.testing.assert_array_equal(multiply(x, y=y), x * y)
    np.testing.assert_array_equal(multiply(np.asarray(x), np.asarray(y)), x * y)
    assert "main(x: float32" in repr(multiply)


def test_in_a_loop_and_a_branch(multiply: Any) -> None:
    x, y = given(2)
    found = jax.jit(lambda x, y: jax.lax.fori_loop(0, 5, lambda i, z: multiply(z, y), x))(x, y)
    np.testing.assert_array_equal(found, x * y**5)
    branch = jax.jit(lambda on, x, y: jax.lax.cond(on, multiply, lambda a, b: a, x, y))
    np.testing.assert_array_equal(branch(True, x, y), x * y)
    np.testing.assert_array_equal(branch(False, x, y), x)


def test_vmap_calls_one_after_another(multiply: Any) -> None:
    x = jnp.arange(24, dtype=jnp.float32).reshape(3, 2, 4)
    np.testing.assert_array_equal(jax.jit(jax.vmap(multiply, (0, None)))(x, x[0]), x * x[0])


def test_gradients_are_refused(multiply: Any) -> None:
    x, y = given(2)
    with pytest.raises(ValueError, match=r"pydispatch\.main.*cannot be differentiated"):
        jax.grad(lambda x: multiply(x, y).sum())(x)


def test_a_derivative_of_the_users(multiply: Any) -> None:
    product = jax.custom_vjp(multiply)
    product.defvjp(
        lambda x, y: (multiply(x, y), (x, y)), lambda saved, g: (multiply(g, saved[1]), multiply(g, saved[0]))
    )
    x, y = given(2)
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: product(x, y).sum()))(x), y)


def test_two_programs_at_once(multiply: Any) -> None:
    add = pd.to_jax(loaded(MULTIPLY.replace("mulf", "addf")).main)
    x, y = given(6)
    np.testing.assert_array_equal(jax.jit(lambda x, y: add(multiply(x, y), multiply(y, y)))(x, y), x * y + y * y)
    add.close()


def test_from_several_threads(multiply: Any) -> None:
    compiled = jax.jit(multiply)
    arguments = [given(1 + i % 5) for i in range(40)]
    with ThreadPoolExecutor(4) as pool:
        for (x, y), found in zip(arguments, pool.map(lambda a: compiled(*a), arguments), strict=True):
            np.testing.assert_array_equal(found, x * y)


def test_the_program_lives_until_it_is_closed() -> None:
    text = MULTIPLY.replace("mulf", "subf")
    compiled = jax.jit(lambda x, y: pd.to_jax(loaded(text).main)(x, y))
    x, y = given(2)
    compiled(x, y)
    gc.collect()
    np.testing.assert_array_equal(compiled(x, y), x - y)


def test_a_closed_target_is_an_error(program: pd.Program) -> None:
    multiply = pd.to_jax(program.main)
    x, y = given(2)
    compiled = jax.jit(lambda x, y: multiply(x, y))
    compiled(x, y)
    multiply.close()
    multiply.close()
    with pytest.raises(Exception, match="no function of pydispatch has the number"):
        jax.block_until_ready(compiled(x, y))


@pytest.mark.parametrize("number", [0, 1, -1, 2**62])
def test_a_number_that_was_never_given_is_an_error(multiply: Any, number: int) -> None:
    with jax.enable_x64(True):
        call = jax.ffi.ffi_call("pydispatch.main", jax.ShapeDtypeStruct((2, 4), jnp.float32))
        with pytest.raises(Exception, match="no function of pydispatch has the number"):
            jax.block_until_ready(call(*given(2), function=np.int64(number)))


def test_calls_that_do_not_fit_are_refused_by_the_handler(multiply: Any) -> None:
    number = np.int64(multiply._target.number)
    x, y = given(2)

    def call(*args: jax.Array, shape: tuple[int, ...] = (2, 4), dtype: Any = jnp.float32, **attributes: Any) -> None:
        made = jax.ffi.ffi_call("pydispatch.main", jax.ShapeDtypeStruct(shape, dtype))
        jax.block_until_ready(made(*args, **attributes))

    for match, args, options in [
        ("needs the attribute 'function'", (x, y), {}),
        ("needs the attribute 'function'", (x, y), {"function": np.int32(3)}),
        ("needs the attribute 'function'", (x, y), {"function": "main"}),
        ("has 2 arguments, got 1", (x,), {"function": number}),
        ("argument 1 has rank 2, got 1", (x, y[0]), {"function": number}),
        ("argument 0 has XLA's element type 11, got 4", (x.astype(int), y), {"function": number}),
        ("result 0 has XLA's element type 11, got 4", (x, y), {"function": number, "dtype": jnp.int32}),
        ("result 0 has 2 elements along axis 0, its buffer 3", (x, y), {"function": number, "shape": (3, 4)}),
        ("4", (x[:, :3], y), {"function": number}),
        ("3", (x, jnp.ones((3, 4))), {"function": number}),
    ]:
        with pytest.raises(Exception, match=match):
            call(*args, **options)
    np.testing.assert_array_equal(multiply(x, y), x * y)


def test_wrong_arguments_are_refused_when_they_are_traced(multiply: Any) -> None:
    x, y = given(2)
    for match, args in [
        ("argument 0 'x': expected float32", (x.astype(int), y)),
        ("argument 1 'y': expected float32", (x, y[0])),
        ("'x' has 3 elements along axis 1, expected 4", (x[:, :3], y)),
        ("missing argument 'y'", (x,)),
        ("has 2 arguments, got 3", (x, y, y)),
    ]:
        with pytest.raises(pd.InvalidArgumentError, match=match):
            jax.jit(multiply)(*args)


def test_what_is_no_function_is_refused(program: pd.Program) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"pass program\.main"):
        pd.to_jax(program)
    other = loaded(MULTIPLY)
    function = other.main
    other.close()
    with pytest.raises(pd.InvalidArgumentError, match="was closed"):
        pd.to_jax(function)


def test_a_program_that_is_closed_later_goes_on() -> None:
    program = loaded(MULTIPLY)
    multiply = pd.to_jax(program.main)
    program.close()
    x, y = given(2)
    np.testing.assert_array_equal(jax.jit(multiply)(x, y), x * y)
    multiply.close()


TYPES = ["bool", "int8", "uint8", "int32", "uint32", "int64", "float16", "bfloat16", "float64"]


@pytest.mark.parametrize("dtype", TYPES)
def test_element_types(dtype: str) -> None:
    with jax.enable_x64(True):
        x = jnp.arange(6).astype(dtype)
        program = pd.device("cpu").load(pd.from_jax(lambda x: (x[::-1], x.reshape(2, 3)), x))
        made = pd.to_jax(program.main)
        first, second = jax.jit(made)(x)
        assert first.dtype == second.dtype == x.dtype
        np.testing.assert_array_equal(first, x[::-1])
        np.testing.assert_array_equal(second, x.reshape(2, 3))
        made.close()


def test_complex_numbers() -> None:
    x = jnp.array([1 + 2j, 3 - 1j], jnp.complex64)
    made = pd.to_jax(pd.device("cpu").load(pd.from_jax(lambda x: x * x, x)).main)
    np.testing.assert_allclose(jax.jit(made)(x), x * x, rtol=1e-6)
    made.close()


def test_types_that_jax_has_not_now() -> None:
    made = pd.to_jax(loaded(MULTIPLY.replace("f32", "f64")).main)
    with pytest.raises(pd.InvalidArgumentError, match="float64, which JAX has only with"):
        made(*given(2))
    made.close()


def test_numbers_in_and_out() -> None:
    text = """
    func.func @main(%x: tensor<3xf32>, %k: i32, %a: f32) -> (tensor<3xf32>, i32) {
      %s = tensor.splat %a : tensor<3xf32>
      %r = arith.mulf %x, %s : tensor<3xf32>
      %t = arith.addi %k, %k : i32
      return %r, %t : tensor<3xf32>, i32
    }
    """
    made = pd.to_jax(loaded(text).main)
    x = jnp.arange(3, dtype=jnp.float32)
    for k, a in ((-5, 0.5), (7, 2.0)):
        first, second = jax.jit(made)(x, jnp.int32(k), jnp.float32(a))
        np.testing.assert_array_equal(first, x * a)
        assert second.shape == () and int(second) == 2 * k
    made.close()


def test_sizes_that_are_computed() -> None:
    text = """
    func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %c0 = arith.constant 0 : index
      %c2 = arith.constant 2 : index
      %one = arith.constant 1.0 : f32
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      %m = arith.muli %n, %c2 : index
      %e = tensor.empty(%m) : tensor<?xf32>
      %f = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
      return %f : tensor<?xf32>
    }
    """
    made = pd.to_jax(loaded(text).main)
    assert jax.jit(made)(jnp.zeros(5)).tolist() == [1.0] * 10
    made.close()


def test_a_program_with_state() -> None:
    text = """
    util.global private mutable @total = dense<1.0> : tensor<f32>
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %old = util.global.load @total : tensor<f32>
      %new = arith.addf %old, %x : tensor<f32>
      util.global.store %new, @total : tensor<f32>
      return %new : tensor<f32>
    }
    """
    add = pd.to_jax(loaded(text).main)
    compiled = jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, x: add(x), jnp.float32(1)))
    assert float(compiled(3)) == 8.0  # 1 + 1, 2 + 2, 4 + 4
    assert float(compiled(1)) == 9.0
    with pytest.raises(NotImplementedError, match="vmap"):
        jax.vmap(add)(jnp.ones(3))
    add.close()


def test_sizes_that_a_number_decides_are_refused() -> None:
    text = """
    func.func @main(%a: f32, %n: index) -> tensor<?xf32> {
      %r = tensor.splat %a[%n] : tensor<?xf32>
      return %r : tensor<?xf32>
    }
    """
    made = pd.to_jax(loaded(text).main)
    with jax.enable_x64(True), pytest.raises(pd.InvalidArgumentError, match="XLA needs the sizes of results before"):
        made(1.5, 3)
    made.close()


def test_errors_of_programs() -> None:
    text = """
    func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %c0 = arith.constant 0 : index
      %c3 = arith.constant 3 : index
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      %ok = arith.cmpi ult, %n, %c3 : index
      cf.assert %ok, "at most two elements"
      %r = arith.addf %x, %x : tensor<?xf32>
      return %r : tensor<?xf32>
    }
    """
    made = pd.to_jax(loaded(text).main)
    np.testing.assert_array_equal(jax.jit(made)(jnp.ones(2)), [2.0, 2.0])
    with pytest.raises(Exception, match="at most two elements"):
        jax.block_until_ready(jax.jit(made)(jnp.ones(5)))
    made.close()


def test_numbers_for_arguments_of_rank_0() -> None:
    add = pd.to_jax(loaded(
        "func.func @main(%x: tensor<i32>) -> tensor<i32> {\n %r = arith.addi %x, %x : tensor<i32>\n"
        " return %r : tensor<i32>\n}"
    ).main, "test.rank0")  # fmt: skip
    assert add(5) == 10
    assert add(np.int8(3)) == 6
    assert jax.jit(lambda: add(4))() == 8
    for wrong in (1.5, 2**31):
        with pytest.raises(pd.InvalidArgumentError, match="argument 0 'x': expected i32, got"):
            add(wrong)
    add.close()
