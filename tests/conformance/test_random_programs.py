"""Random programs over tensors of every element type, static and dynamic, on every backend, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from backends import Backend
from random_blocks import TOLERANCE, Network
from random_programs import TYPES, Program


@pytest.mark.parametrize("seed", range(36))
def test_random_programs(seed: int, backend: Backend) -> None:
    program = Program(seed, dynamic=seed % 2 == 1, element=list(TYPES)[seed // 2 % len(TYPES)])
    program.grow()
    text = program.text()
    found = backend.load(text).f(*[array for _, _, array in program.inputs])
    found = found if isinstance(found, tuple | list) else [found]
    for (name, _, expected), got in zip(program.results, found, strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected, err_msg=f"{name} of\n{text}")


@pytest.mark.parametrize("seed", range(24))
def test_random_networks(seed: int, backend: Backend) -> None:
    network = Network(seed, dynamic=seed % 3 == 2)
    network.grow()
    module, arguments, expected = network.finish()
    found = backend.load(module).f(*arguments)
    found = found if isinstance(found, tuple | list) else [found]
    for got, wanted in zip(found, expected, strict=True):
        bound = TOLERANCE * max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=bound, err_msg=", ".join(network.steps))
