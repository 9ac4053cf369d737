"""The models of the benchmarks: functions of JAX with the shapes of their weights and arguments of a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SEED = 14


@dataclass(frozen=True)
class Model:
    """function(weights, *inputs). weights: a tree of `jax.ShapeDtypeStruct`. inputs: arrays.

    tolerance: the largest difference from JAX, relative to the largest element of a result, that is no error.
    """

    name: str
    function: Callable[..., Any]
    weights: Any
    inputs: tuple[np.ndarray, ...]
    tolerance: float = 1e-4

    def text(self) -> str:
        """The model as StableHLO. Weights are arguments, in the order of the leaves of their tree, then inputs."""
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.inputs]
        lowered = jax.jit(self.function, keep_unused=True).lower(self.weights, *specs)
        return str(lowered.as_text()) + "\n"

    def arguments(self) -> list[np.ndarray]:
        """What the text's function is called with."""
        rng = np.random.default_rng(SEED)
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.weights)
        return [_filled(rng, str(getattr(path[-1], "key", "")), spec) for path, spec in leaves] + list(self.inputs)

    def expected(self) -> list[np.ndarray]:
        """What JAX computes."""
        return [np.asarray(x) for x in jax.tree.leaves(self.call(jax.jit(self.function)))]

    def call(self, function: Callable[..., Any]) -> Any:
        """Calls a function of (weights, *inputs)."""
        arguments = self.arguments()
        count = len(arguments) - len(self.inputs)
        weights = jax.tree.unflatten(jax.tree.structure(self.weights), arguments[:count])
        return function(weights, *self.inputs)


_MAKERS: dict[str, Callable[[bool], Model]] = {}


def model(make: Callable[[bool], tuple[Any, ...]]) -> Callable[[bool], Model]:
    """Registers a model by the name of the function that makes (function, weights, inputs[, tolerance]).

    Its argument says whether the model is to be small: the same operations with few channels and layers, for tests.
    """

    def make_model(small: bool) -> Model:
        return Model(make.__name__, *make(small))

    _MAKERS[make.__name__] = make_model
    return make_model


def models(small: bool = False, only: set[str] | None = None) -> Iterator[Model]:
    """The models in the order of their registration. Raises KeyError for a name in `only` that none has."""
    unknown = (only or set()) - set(_MAKERS)
    if unknown:
        raise KeyError(f"no model is called {', '.join(sorted(unknown))}; there are {', '.join(_MAKERS)}")
    for name, make in _MAKERS.items():
        if only is None or name in only:
            yield make(small)


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    """The shape of a weight in f32."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """An input."""
    return np.random.default_rng(SEED).standard_normal(shape).astype(dtype)


def integers(below: int, *shape: int) -> np.ndarray:
    """An input of i32, from 0."""
    return np.random.default_rng(SEED).integers(0, below, shape, np.int32)


def _filled(rng: np.random.Generator, name: str, spec: jax.ShapeDtypeStruct) -> np.ndarray:
    """A weight such that values keep their magnitude from layer to layer."""
    if jnp.issubdtype(spec.dtype, jnp.integer):
        return rng.integers(-127, 128, spec.shape).astype(spec.dtype)
    if name == "var":
        values = rng.uniform(0.5, 1.5, spec.shape)
    elif name == "scale":
        values = rng.normal(1.0, 0.1, spec.shape)
    elif len(spec.shape) == 1:
        values = rng.normal(0.0, 0.1, spec.shape)
    else:
        values = rng.standard_normal(spec.shape) / np.sqrt(np.prod(spec.shape[:-1]))
    return values.astype(spec.dtype)
