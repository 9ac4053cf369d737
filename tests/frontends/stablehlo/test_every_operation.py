"""Every operation of StableHLO's specification for every element type that it allows, against NumPy and ml_dtypes.

Rows are data (`every_operation/`). Types of `WHOLE` run all rows; of the others each row runs for one type in
`THINNED`, and all of them with PYDISPATCH_EVERY_ROW=1 (`make test-stablehlo`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from every_operation import arrangement, elementwise, linear, regions
from every_operation.elements import ELEMENTS, Element
from every_operation.rows import Program, Row, different

import pydispatch as pd
from pydispatch.ir.dialects.stablehlo.collectives import EXCHANGES
from pydispatch.ir.dialects.stablehlo.dialect import Stablehlo

ROWS: tuple[Callable[[Element], list[Row]], ...] = (
    elementwise.pairs, arrangement.rows, lambda e: regions.ROWS, lambda e: linear.ROWS,
)  # fmt: skip
WHOLE = ("i1", "i4", "i8", "ui32", "f8E4M3FN", "bf16", "f32", "complex<f32>", "!quant.uniform<i8:f32, 0.25:-3>")
THINNED = 10
EVERY = os.environ.get("PYDISPATCH_EVERY_ROW") == "1"

DEVICES = {"vulkan:0": "vulkan", "ptx-interpreter": "sm_80"}
ON_DEVICES = ("i8", "f8E4M3FN", "f32", "complex<f32>")
LEFT_OUT: dict[str, Callable[[Row, Element], bool]] = {
    # Mesa's lavapipe takes 0 for a product of 0 and infinity here.
    "vulkan:0": lambda row, e: row.op == "rsqrt" and e.kind == "complex",
    "ptx-interpreter": lambda row, e: False,
}

ELSEWHERE = {
    "constant": "a part of rows", "return": "a part of rows",
    "uniform_quantize": "a part of rows", "uniform_dequantize": "a part of rows",
    "rng": "test_random_numbers", "rng_bit_generator": "test_random_numbers",
    "torch_index_select": "test_less_common", "tuple": "test_less_common", "get_tuple_element": "test_less_common",
    "create_token": "refused", "after_all": "refused",
}  # fmt: skip
"""Operations without a row, and why."""


def rows_for(e: Element) -> list[Row]:
    return [row for rows in ROWS for row in rows(e) if row.is_for(e)]


def check(e: Element, rows: list[Row], device: str, **options: Any) -> None:
    program = Program(e, rows)
    found = pd.device(device).load(pd.compile(program.text, **options)).main(*program.inputs())
    found = found if isinstance(found, tuple) else (found,)
    wrong = [f"{row.text.splitlines()[0]} -> {kind.name}: {why}"
             for (row, kind, exact), got in zip(program.expected(), found, strict=True)
             if (why := different(row, kind, np.asarray(got), exact))]  # fmt: skip
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ELEMENTS)
def test_rows(name: str) -> None:
    e = ELEMENTS[name]
    rows = rows_for(e)
    if not EVERY and name not in WHOLE:
        rows = rows[list(ELEMENTS).index(name) % THINNED :: THINNED]
    check(e, rows, "cpu")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ON_DEVICES)
def test_rows_on_devices(name: str, device: str) -> None:
    e = ELEMENTS[name]
    rows = [row for row in rows_for(e) if not LEFT_OUT[device](row, e)]
    check(e, rows if EVERY else rows[ON_DEVICES.index(name) :: 4], device, targets=DEVICES[device])


DRAWN = [e for e in ELEMENTS.values() if e.kind in ("sint", "uint", "float") and e.bits >= 8 and e.name[:2] != "f8"]


def test_random_numbers() -> None:
    """Of every type that is drawn: within their bounds, not all alike, and with a state that moves on."""
    lines, results = [], []
    for n, e in enumerate(DRAWN):
        low, high = ("1", "9") if e.is_integer else ("1.0", "9.0")
        bits = f"tensor<100x{'ui' if e.kind == 'float' else e.name[: -len(str(e.bits))]}{e.bits}>"
        lines += [f"%low{n} = stablehlo.constant dense<{low}> : tensor<{e.name}>",
                  f"%high{n} = stablehlo.constant dense<{high}> : tensor<{e.name}>",
                  f"%rng{n} = stablehlo.rng %low{n}, %high{n}, %shape, distribution = UNIFORM : (tensor<{e.name}>, "
                  f"tensor<{e.name}>, tensor<1xi64>) -> tensor<100x{e.name}>",
                  f"%state{n}, %bits{n} = stablehlo.rng_bit_generator %state, algorithm = {ALGORITHMS[n % 3]} : "
                  f"(tensor<2xui64>) -> (tensor<2xui64>, {bits})"]  # fmt: skip
        results += [(f"%rng{n}", f"tensor<100x{e.name}>"), (f"%bits{n}", bits), (f"%state{n}", "tensor<2xui64>")]
    names, types = (", ".join(column) for column in zip(*results, strict=True))
    body = "\n  ".join(["%shape = stablehlo.constant dense<100> : tensor<1xi64>", *lines, f"return {names} : {types}"])
    text = f"func.func @main(%state: tensor<2xui64>) -> ({types}) {{\n  {body}\n}}"
    state = np.array([7, 9], np.uint64)
    found = iter(pd.device("cpu").load(pd.compile(text)).main(state))
    for e in DRAWN:
        drawn, bits, after = (np.asarray(next(found)) for _ in range(3))
        wide = drawn.astype(np.float64)
        assert drawn.dtype == e.dtype and wide.min() >= 1 and wide.max() < 9 and len(set(wide.tolist())) > 5, e.name
        assert bits.itemsize * 8 == e.bits and len(set(bits.tolist())) > 60, e.name
        assert after.tolist() != state.tolist(), e.name


ALGORITHMS = ("DEFAULT", "THREE_FRY", "PHILOX")


def test_every_operation_has_rows() -> None:
    tested = {row.op for e in ELEMENTS.values() for row in rows_for(e)}
    known = {op.name.removeprefix("stablehlo.") for op in Stablehlo.operations}
    exchanges = {name.removeprefix("stablehlo.") for name in EXCHANGES}  # see test_refused.py
    assert known - tested - exchanges == set(ELSEWHERE)
    assert tested <= known
