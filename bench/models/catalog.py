"""The models of the benchmarks: functions of JAX with the shapes of their weights and arguments of a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SEED = 14
"""Seed of weights and inputs."""


@dataclass(frozen=True)
class Model:
    """A model: a function of JAX that is called as function(weights, *inputs).

    weights: a tree of `jax.ShapeDtypeStruct`; their values are random, see `arguments`. inputs: arrays. tolerance:
    the largest difference from JAX, relative to the largest element of a result, that is no error.
    """

    name: str
    function: Callable[..., Any]
    weights: Any
    inputs: tuple[np.ndarray, ...]
    tolerance: float = 1e-4

    def text(self) -> str:
        """Return the model as StableHLO. Its arguments are weights, in the order of their tree's leaves, and inputs."""
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.inputs]
        lowered = jax.jit(self.function, keep_unused=True).lower(self.weights, *specs)
        return str(lowered.as_text()) + "\n"

    def arguments(self) -> list[np.ndarray]:
        """Return the arguments of the function of `text`: random weights, the same in each call, and the inputs."""
        rng = np.random.default_rng(SEED)
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.weights)
        return [_filled(rng, str(getattr(path[-1], "key", "")), spec) for path, spec in leaves] + list(self.inputs)

    def expected(self) -> list[np.ndarray]:
        """Return the results that JAX computes, as a flat list."""
        return [np.asarray(x) for x in jax.tree.leaves(self.call(jax.jit(self.function)))]

    def call(self, function: Callable[..., Any]) -> Any:
        """Call a function with (tree of weights, *inputs), and return its result."""
        arguments = self.arguments()
        count = len(arguments) - len(self.inputs)
        weights = jax.tree.unflatten(jax.tree.structure(self.weights), arguments[:count])
        return function(weights, *self.inputs)


_MAKERS: dict[str, Callable[[bool], Model]] = {}
"""Name -> function that creates the model, small or not; filled by `model`."""


def model(make: Callable[[bool], tuple[Any, ...]]) -> Callable[[bool], Model]:
    """Register a model under the name of the decorated function, and return the function that creates it as a `Model`.

    make: a function of `small` that returns (function, weights, inputs) or (function, weights, inputs, tolerance), see
    `Model`. small: the model has the same operations with few channels and layers, for tests.
    """

    def make_model(small: bool) -> Model:
        """Create the model under the name of the function."""
        return Model(make.__name__, *make(small))

    _MAKERS[make.__name__] = make_model
    return make_model


def models(small: bool = False, only: set[str] | None = None) -> Iterator[Model]:
    """Yield the models in the order of their registration.

    only: names of the models; None for all. Raise KeyError for a name that no model has.
    """
    unknown = (only or set()) - set(_MAKERS)
    if unknown:
        raise KeyError(f"no model is called {', '.join(sorted(unknown))}; there are {', '.join(_MAKERS)}")
    for name, make in _MAKERS.items():
        if only is None or name in only:
            yield make(small)


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    """Return the shape and type of a weight in f32."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Return an input of normally distributed numbers, the same in each call."""
    return np.random.default_rng(SEED).standard_normal(shape).astype(dtype)


def integers(below: int, *shape: int) -> np.ndarray:
    """Return an input of i32 from 0 to `below` - 1, the same in each call."""
    return np.random.default_rng(SEED).integers(0, below, shape, np.int32)


def _filled(rng: np.random.Generator, name: str, spec: jax.ShapeDtypeStruct) -> np.ndarray:
    """Return a random weight, of a scale that keeps the magnitude of values from layer to layer.

    name: the last key of its path in the tree; variances ("var") are positive and factors ("scale") near 1.
    """
    if jnp.issubdtype(spec.dtype, jnp.integer):
        return rng.integers(-127, 128, spec.shape).astype(spec.dtype)
    if name == "var":
        values = rng.uniform(0.5, 1.5, spec.shape)
    elif name == "scale":
        values = rng.normal(1.0, 0.1, spec.shape)
    elif len(spec.shape) == 1:
        values = rng.normal(0.0, 0.1, spec.shape)
    else:
        # All dimensions but the last are summed over.
        values = rng.standard_normal(spec.shape) / np.sqrt(np.prod(spec.shape[:-1]))
    return values.astype(spec.dtype)
