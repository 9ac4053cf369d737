"""Products by block-scaled weights on every backend: as arguments and as constants of the program."""

from __future__ import annotations

import pytest
from backends import Backend
from quantized_products import Case

CASES = [
    Case((1,), 48, 96, 32),
    Case((3,), 40, 64, 16, terms="bytes", order="halves"),
    Case((2, 2), 32, 128, 64, terms="number", scale="f16"),
    Case((2,), 33, 96, 32, bits=8),
    Case((20,), 48, 160, 32, bits=8, terms="offset"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_arguments(case: Case, backend: Backend) -> None:
    arguments = case.arguments()
    case.check(backend.load(case.text({})).f(*arguments.values()), arguments)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_constants(case: Case, backend: Backend) -> None:
    arguments = case.arguments()
    constants = {name: array for name, array in arguments.items() if name != "x"}
    case.check(backend.load(case.text(constants)).f(arguments["x"]), arguments)
