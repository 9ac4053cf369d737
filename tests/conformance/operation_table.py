"""Cases of every operation of `arith` and of the exact ones of `math`: operation x type, with their expected values.

A `Table` has cases of one element type. It becomes one kernel: a loop over pairs of edge values of the type, in which
each case writes one row of a result. Expected values come from the references of `tests/ops`.

A type that has no form in memory (i5, i33, index) is carried by an integer that has one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "ops"))
import references as ref

Array = ref.Array

CARRIERS = {"index": "i64", "narrow index": "i32", "i5": "i8", "i33": "i64"}
"""Types that memory does not hold, and the type of the elements that they are made of and become.

The index of `narrow index` meets no integer of more than 32 bits, so that shaders may compute it in 32 bits.
"""
BITS = {"i1": 1, "i5": 5, "i8": 8, "i16": 16, "i32": 32, "i33": 33, "i64": 64, "index": 64, "narrow index": 64}
INTEGERS = tuple(BITS)
FLOATS = ("f16", "bf16", "f32", "f64")
STORED: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
EVERYWHERE = ("cpu", "vulkan", "cuda", "webgpu")
IGNORE_SIGNS_OF_ZERO = ("vulkan", "webgpu")
"""Backends whose drivers may ignore the sign of a zero that is a constant operand (docs/vulkan.md)."""
CAST_TARGETS = ("i1", "i5", "i8", "i16", "i32", "i33", "i64")
MOST_CASES = 40
"""Cases of a kernel. With more, LLVM spends most of its time on stores that may alias."""
MOST_RESULTS = 4
"""Result buffers of a kernel: with the operands 6 of the 8 storage buffers that every WebGPU device has."""


def element(type_: str) -> str:
    """Return the type as MLIR writes it."""
    return "index" if type_ == "narrow index" else type_


def carrier(type_: str) -> str:
    """Return the element type of the memory that values of a type are read from and written to."""
    return CARRIERS.get(type_, type_)


def converted(value: str, source: str, target: str, result: str) -> str:
    """Return the line that moves a value between a type and its carrier, sign-extended."""
    a, b = element(source), element(target)
    if "index" in (a, b):
        return f"{result} = arith.index_cast {value} : {a} to {b}"
    op = "trunci" if BITS[source] > BITS[target] else "extsi"
    return f"{result} = arith.{op} {value} : {a} to {b}"


@dataclass(frozen=True)
class Case:
    """An operation on %a and %b that defines %r0 and, with two results, %r1.

    results: (type, expected elements). any_zero: the backends on which a zero of either sign is right.
    """

    name: str
    body: str
    results: tuple[tuple[str, Array], ...]
    any_zero: tuple[str, ...] = ()


@dataclass
class Table:
    """The cases of one kernel: operands of one type, and at most `MOST_RESULTS` types of results."""

    name: str
    type: str
    operands: tuple[Array, ...]
    cases: list[Case] = field(default_factory=list)

    @property
    def lanes(self) -> int:
        """How many elements each case computes."""
        return int(self.operands[0].size)

    def rows(self) -> dict[str, list[tuple[Case, Array]]]:
        """Return the cases that write to the buffer of each carrier, with the expected row of each, in order."""
        found: dict[str, list[tuple[Case, Array]]] = {}
        for case in self.cases:
            for type_, values in case.results:
                found.setdefault(carrier(type_), []).append((case, values))
        return found

    def signature(self) -> tuple[list[str], list[str]]:
        """Return the shapes of the operands and of the results, as `4x5xi32`."""
        shapes = [f"{len(rows)}x{self.lanes}x{stored}" for stored, rows in self.rows().items()]
        return [f"{self.lanes}x{carrier(self.type)}"] * len(self.operands), shapes

    def kernel(self) -> str:
        """Return the function of the kernel."""
        operands, results = self.signature()
        shapes = [*operands, *results]
        lines = ["%zero = arith.constant 0 : index", "%one = arith.constant 1 : index"]
        lines += [f"%lanes = arith.constant {self.lanes} : index"]
        for number, shape in enumerate(shapes):
            lines.append(f"%m{number} = stream.binding.subspan %s{number}[%zero] : !stream.binding -> memref<{shape}>")
        most = max(len(rows) for rows in self.rows().values())
        lines += [f"%row{row} = arith.constant {row} : index" for row in range(most)]
        buffers = {stored: len(operands) + number for number, stored in enumerate(self.rows())}
        written = dict.fromkeys(buffers, 0)
        lines.append("scf.parallel (%lane) = (%zero) to (%lanes) step (%one) {")
        for number, (name, shape) in enumerate(zip("ab", operands, strict=False)):
            stored = carrier(self.type)
            loaded = f"%{name}" if stored == self.type else f"%{name}_carried"
            lines.append(f"  {loaded} = memref.load %m{number}[%lane] : memref<{shape}>")
            if stored != self.type:
                lines.append("  " + converted(loaded, stored, self.type, f"%{name}"))
        for place, case in enumerate(self.cases):
            lines.append("  " + re.sub(r"%([cdir]\d?)\b", rf"%\1_{place}", case.body))
            for number, (type_, _) in enumerate(case.results):
                stored, value = carrier(type_), f"%r{number}_{place}"
                if stored != type_:
                    lines.append("  " + converted(value, type_, stored, f"%w{number}_{place}"))
                    value = f"%w{number}_{place}"
                at, shape = f"%m{buffers[stored]}", shapes[buffers[stored]]
                lines.append(f"  memref.store {value}, {at}[%row{written[stored]}, %lane] : memref<{shape}>")
                written[stored] += 1
        lines.append("}")
        arguments = ", ".join(f"%s{number}: !stream.binding" for number in range(len(shapes)))
        body = "\n".join(f"        {line}" for line in lines)
        return f"      func.func @{self.name}({arguments}) {{\n{body}\n        return\n      }}\n"

    def function(self) -> str:
        """Return the host function that calls the kernel."""
        operands, results = self.signature()
        arguments = ", ".join(f"%x{number}: tensor<{shape}>" for number, shape in enumerate(operands))
        names = ", ".join(f"%x{number}" for number in range(len(operands)))
        given, types = (", ".join(f"tensor<{shape}>" for shape in shapes) for shapes in (operands, results))
        left = ", ".join(f"%y{number}" for number in range(len(results)))
        return (
            f"  func.func @{self.name}({arguments}) -> ({types}) {{\n"
            f"    {left} = flow.dispatch @kernels_{self.name}::@{self.name}({names}) : ({given}) -> ({types})\n"
            f"    return {left} : {types}\n  }}\n"
        )

    def differences(self, results: Sequence[Array], backend: str) -> list[str]:
        """Return a line for each case in which the results of a call on a backend are not the expected ones."""
        found: list[str] = []
        for rows, got in zip(self.rows().values(), results, strict=True):
            for (case, wanted), values in zip(rows, got, strict=True):
                wrong = different(values, wanted.astype(values.dtype), backend in case.any_zero)
                if len(wrong):
                    lane = wrong[0]
                    given = ", ".join(str(operand[lane]) for operand in self.operands)
                    found.append(
                        f"{self.type}: {case.name} of ({given}) is {values[lane]}, not {wanted[lane]}; "
                        f"{len(wrong)} of {self.lanes} differ"
                    )
        return found


def different(got: Array, wanted: Array, any_zero: bool) -> Array:
    """Return the indices of elements that differ; NaN differ in nothing."""
    if got.dtype.kind in "ib":
        return np.flatnonzero(got != wanted)
    x, y = (values.astype(np.float64) for values in (got, wanted))
    same = (x == y) & (any_zero | (np.signbit(x) == np.signbit(y)))
    return np.flatnonzero(~(same | (np.isnan(x) & np.isnan(y))))


def source(tables: Sequence[Table]) -> str:
    """Return a program with a function for each table."""
    parts = ["module {\n"]
    for table in tables:
        parts.append(
            f"  stream.executable private @kernels_{table.name} {{\n"
            f"    stream.executable.export public @{table.name} workgroups() -> (index, index, index) {{\n"
            "      %c1 = arith.constant 1 : index\n      stream.return %c1, %c1, %c1 : index, index, index\n    }\n"
            f"    builtin.module {{\n{table.kernel()}    }}\n  }}\n"
        )
    return "".join([*parts, *(table.function() for table in tables), "}\n"])


# -- edge values


@cache
def integer_edges(type_: str) -> tuple[int, ...]:
    """Return the edge values of an integer type, of the carrier for a narrow index."""
    bits = 32 if type_ == "narrow index" else BITS[type_]
    if bits <= 5:
        return tuple(range(-(1 << (bits - 1)), 1 << (bits - 1)))
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    values = [0, 1, -1, 2, -2, 3, -3, 7, -7, 10, low, low + 1, high, high - 1, 1 << (bits // 2), -1 << (bits // 2)]
    values += [bits - 1, bits, bits + 1, 31, 32, 33, 63, 64, 65, 1 << 31, -1 << 31, (1 << 31) + 5, 1 << 32, 10**15]
    return tuple(dict.fromkeys(value for value in values if low <= value <= high))


def float_edges(type_: str) -> list[float]:
    """Return the edge values of a float type."""
    limits = ml_dtypes.finfo(STORED[type_])
    values = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 100.25, 1e-3, 127.5, 300.0, 65504.0, 2.0**31, 2.0**53, 1e18]
    values += [float(limits.max), float(limits.tiny), float(limits.eps), float("inf")]
    return [*values, *(-value for value in values), float("nan")]


def integer_array(values: Sequence[int], type_: str) -> Array:
    """Return integers as elements of the carrier of a type, wrapped to the width of the type."""
    stored = carrier(type_)
    bits = min(BITS[type_], BITS[stored])
    return ref.wrapped([ref.signed(value, bits) for value in values], STORED[stored], BITS[stored])


# -- integers


def integer_tables(type_: str) -> Iterator[Table]:
    """Build the tables of an integer type: binary operations, constants, and conversions."""
    bits, name, text = BITS[type_], type_.replace(" ", "_"), element(type_)
    pairs = list(product(integer_edges(type_), repeat=2))
    xs, ys = ([pair[side] for pair in pairs] for side in (0, 1))
    operands = integer_array(xs, type_), integer_array(ys, type_)

    def of(values: Sequence[int], result: str = type_) -> tuple[str, Array]:
        return result, integer_array(values, result)

    table = Table(f"{name}_loaded", type_, operands)
    for op, function in ref.binary(type_).items():
        values = [function(x, y, bits) for x, y in pairs]
        table.cases.append(Case(op, f"%r0 = {ref.full(op)} %a, %b : {text}", (of(values),)))
    for predicate, function in ref.PREDICATES.items():
        values = [int(function(x, y, bits)) for x, y in pairs]
        body = f"%r0 = arith.cmpi {predicate}, %a, %b : {text}"
        table.cases.append(Case(f"arith.cmpi {predicate}", body, (of(values, "i1"),)))
    body = f"%c = arith.cmpi slt, %a, %b : {text}\n  %r0 = arith.select %c, %a, %b : {text}"
    table.cases.append(Case("arith.select", body, (of([min(x, y) for x, y in pairs]),)))
    table.cases += _two_results(type_, pairs)
    for op, single in ref.UNARY.items():
        values = [single(x, bits) for x in xs]
        table.cases.append(Case(op, f"%r0 = {op} %a : {text}", (of(values),)))
    yield table

    ones = (integer_array(integer_edges(type_), type_),)
    if type_ not in ("i5", "i16", "i33"):  # where registers are wider; those of i8 and i1 are, too
        yield from _split(f"{name}_constants", type_, ones, list(_with_constants(type_)))
    yield from _split(f"{name}_casts", type_, ones, list(_casts(type_)))


def _two_results(type_: str, pairs: Sequence[tuple[int, int]]) -> Iterator[Case]:
    """Return the cases of products and sums with a second result."""
    bits, text = BITS[type_], element(type_)
    if text == "index":
        return
    for op, as_ in (("mulsi_extended", ref.signed), ("mului_extended", ref.unsigned)):
        if bits in (5, 33):
            continue
        products = [as_(x, bits) * as_(y, bits) for x, y in pairs]
        halves = (type_, integer_array(products, type_)), (type_, integer_array([p >> bits for p in products], type_))
        yield Case(f"arith.{op}", f"%r0, %r1 = arith.{op} %a, %b : {text}", halves)
    sums = [ref.unsigned(x, bits) + ref.unsigned(y, bits) for x, y in pairs]
    both = (type_, integer_array(sums, type_)), ("i1", integer_array([s >> bits for s in sums], "i1"))
    yield Case("arith.addui_extended", f"%r0, %r1 = arith.addui_extended %a, %b : {text}, i1", both)


def _with_constants(type_: str) -> Iterator[Case]:
    """Return the cases of binary operations of which one operand, or both, are constants."""
    bits, text, edges = BITS[type_], element(type_), integer_edges(type_)
    width = 32 if type_ == "narrow index" else bits
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    at_right = sorted({value for value in (0, 1, -1, 8, low, width) if low <= value <= high})
    at_left = sorted({value for value in (-1, low) if low <= value <= high})

    def constant(name: str, value: int) -> str:
        shown = ("false", "true")[value & 1] if type_ == "i1" else f"{value} : {text}"
        return f"%{name} = arith.constant {shown}\n  "

    for op, function in ref.binary(type_).items():
        for value in at_right:
            values = integer_array([function(x, value, bits) for x in edges], type_)
            body = f"{constant('c', value)}%r0 = {ref.full(op)} %a, %c : {text}"
            yield Case(f"{op} with {value} on the right", body, ((type_, values),))
        for value in at_left:
            values = integer_array([function(value, x, bits) for x in edges], type_)
            body = f"{constant('c', value)}%r0 = {ref.full(op)} %c, %a : {text}"
            yield Case(f"{op} with {value} on the left", body, ((type_, values),))
        for x, y in ((low, -1), (-1, 0)):
            folded = integer_array([function(x, y, bits)] * len(edges), type_)
            body = f"{constant('c', x)}{constant('d', y)}%r0 = {ref.full(op)} %c, %d : {text}"
            yield Case(f"{op} of {x} and {y}", body, ((type_, folded),))
    for predicate, function in ref.PREDICATES.items():
        for value in sorted({-1, high}):
            truths = [int(function(x, value, bits)) for x in edges]
            body = f"{constant('c', value)}%r0 = arith.cmpi {predicate}, %a, %c : {text}"
            result = ("i1", integer_array(truths, "i1"))
            yield Case(f"arith.cmpi {predicate} with {value} on the right", body, (result,))


def _casts(type_: str) -> Iterator[Case]:
    """Return the cases of conversions of an integer type."""
    if element(type_) == "index":
        yield from _index_casts(type_)
        return
    yield from _integer_casts(type_)
    yield from _casts_to_floats(type_)


def _index_casts(type_: str) -> Iterator[Case]:
    """Return the cases of conversions of an index to integers."""
    for target in CAST_TARGETS:
        if type_ == "narrow index" and BITS[target] > 32:
            continue
        for op in ("index_cast", "index_castui"):
            values = integer_array(integer_edges(type_), target)
            yield Case(f"arith.{op} to {target}", f"%r0 = arith.{op} %a : index to {target}", ((target, values),))


def _integer_casts(type_: str) -> Iterator[Case]:
    """Return the cases of conversions of an integer type to other integers and to an index."""
    bits, edges = BITS[type_], integer_edges(type_)
    signs = ref.signed, ref.unsigned
    for target in CAST_TARGETS:
        if BITS[target] > bits:
            for op, as_ in zip(("extsi", "extui"), signs, strict=True):
                values = integer_array([as_(x, bits) for x in edges], target)
                yield Case(f"arith.{op} to {target}", f"%r0 = arith.{op} %a : {type_} to {target}", ((target, values),))
        if BITS[target] < bits:
            values = integer_array(edges, target)
            yield Case(f"arith.trunci to {target}", f"%r0 = arith.trunci %a : {type_} to {target}", ((target, values),))
    for op, as_ in zip(("index_cast", "index_castui"), signs, strict=True):
        values = integer_array([as_(x, bits) for x in edges], "i64")
        body = f"%i = arith.{op} %a : {type_} to index\n  %r0 = arith.index_cast %i : index to i64"
        yield Case(f"arith.{op} to index", body, (("i64", values),))


def _casts_to_floats(type_: str) -> Iterator[Case]:
    """Return the cases of conversions of an integer type to floats."""
    bits, edges = BITS[type_], integer_edges(type_)
    for target in FLOATS:
        for op, as_ in (("sitofp", ref.signed), ("uitofp", ref.unsigned)):
            floats = ref.to_float([as_(x, bits) for x in edges], target)
            yield Case(f"arith.{op} to {target}", f"%r0 = arith.{op} %a : {type_} to {target}", ((target, floats),))
        if ref.FLOATS[target][1] == bits:
            same = integer_array(edges, type_).view(STORED[target])
            yield Case(f"arith.bitcast to {target}", f"%r0 = arith.bitcast %a : {type_} to {target}", ((target, same),))


def _split(name: str, type_: str, operands: tuple[Array, ...], cases: Sequence[Case]) -> Iterator[Table]:
    """Distribute cases over tables, so that each has results of few types."""
    tables = [Table(f"{name}_0", type_, operands)]
    for case in cases:
        known, last = tables[-1].rows().keys(), tables[-1]
        results = {carrier(result) for result, _ in case.results}
        if len(known | results) > MOST_RESULTS or len(last.cases) == MOST_CASES:
            tables.append(Table(f"{name}_{len(tables)}", type_, operands))
        tables[-1].cases.append(case)
    yield from tables


# -- floats


def float_tables(type_: str) -> Iterator[Table]:
    """Build the tables of a float type: arithmetic, comparisons, and conversions."""
    with np.errstate(all="ignore"):
        single = np.array(float_edges(type_)).astype(STORED[type_])
    a, b = (np.ascontiguousarray(side) for side in (np.repeat(single, single.size), np.tile(single, single.size)))
    x, y = a.astype(np.float64), b.astype(np.float64)

    table = Table(f"{type_}_loaded", type_, (a, b))
    for op, (arity, _) in ref.EXACT.items():
        body = f"%r0 = {ref.full(op)} {', '.join(('%a', '%b')[:arity])} : {type_}"
        table.cases.append(_arithmetic(op, op, body, type_, (a, b)))
    for predicate in ref.FLOAT_PREDICATES:
        body = f"%r0 = arith.cmpf {predicate}, %a, %b : {type_}"
        table.cases.append(Case(f"arith.cmpf {predicate}", body, (("i1", ref.compared(predicate, x, y)),)))
    body = f"%c = arith.cmpf olt, %a, %b : {type_}\n  %r0 = arith.select %c, %a, %b : {type_}"
    table.cases.append(Case("arith.select", body, ((type_, np.where(ref.compared("olt", x, y), a, b)),)))
    for kind, test in ref.KINDS.items():
        table.cases.append(Case(f"math.{kind}", f"%r0 = math.{kind} %a : {type_}", (("i1", test(x)),)))
    yield table
    yield from _split(f"{type_}_constants", type_, (single,), list(_with_float_constants(type_, single)))
    yield from _split(f"{type_}_casts", type_, (single,), list(_float_casts(type_, single)))


def _arithmetic(
    name: str, op: str, body: str, type_: str, operands: Sequence[Array], any_zero: tuple[str, ...] = ()
) -> Case:
    """Build the case of a float operation, whose expected values are rounded once."""
    if op in ("maxnumf", "minnumf"):
        any_zero = EVERYWHERE
    arity, reference = ref.EXACT[op]
    is_rounded_itself = type_ == "f64" and op in ("addf", "subf", "mulf", "divf", "remf", "math.sqrt")
    wide = np.float64 if is_rounded_itself or type_ != "f64" else np.longdouble
    exact = ref.quiet(reference)(*(operand.astype(wide) for operand in operands[:arity]))
    return Case(name, body, ((type_, ref.rounded(exact, STORED[type_])),), any_zero)


def _with_float_constants(type_: str, values: Array) -> Iterator[Case]:
    """Return the cases of binary operations of floats of which one operand is a constant."""
    bits = ref.FLOATS[type_][1]
    for op, (arity, _) in ref.EXACT.items():
        if arity == 1:
            continue
        zeros = () if op == "mulf" else (-0.0,)  # drivers may ignore that infinity times 0 is NaN
        for number in (1.5, float("inf"), float("nan"), *zeros):
            constant = np.full_like(values, number)
            pattern = int(constant[:1].view(f"u{bits // 8}")[0])
            line = f"%c = arith.constant 0x{pattern:0{bits // 4}X} : {type_}\n  %r0 = {ref.full(op)}"
            name = f"{op} with {number}"
            lax = IGNORE_SIGNS_OF_ZERO if number == 0 else ()
            yield _arithmetic(f"{name} on the right", op, f"{line} %a, %c : {type_}", type_, (values, constant), lax)
            yield _arithmetic(f"{name} on the left", op, f"{line} %c, %a : {type_}", type_, (constant, values), lax)


def _float_casts(type_: str, values: Array) -> Iterator[Case]:
    """Return the cases of conversions of a float type."""
    bits = ref.FLOATS[type_][1]
    exact = values.astype(np.float64)
    for target in CAST_TARGETS:
        width = BITS[target]
        for op, low in (("fptosi", -(1 << (width - 1))), ("fptoui", 0)):
            whole = ref.saturated(exact, low, low + (1 << width) - 1)
            body = f"%r0 = arith.{op} %a : {type_} to {target}"
            yield Case(f"arith.{op} to {target}", body, ((target, integer_array(whole, target)),))
        if width == bits:
            same = values.view(STORED[target])
            body = f"%r0 = arith.bitcast %a : {type_} to {target}"
            yield Case(f"arith.bitcast to {target}", body, ((target, same),))
    for target in FLOATS:
        width = ref.FLOATS[target][1]
        if width == bits:
            continue
        op = "extf" if width > bits else "truncf"
        near = ref.through_odd(exact) if type_ == "f64" and bits > 2 * width else exact
        with np.errstate(all="ignore"):
            result = near.astype(STORED[target])
        yield Case(f"arith.{op} to {target}", f"%r0 = arith.{op} %a : {type_} to {target}", ((target, result),))


@cache
def tables() -> dict[str, tuple[Table, ...]]:
    """Return the tables of each type."""
    found = {type_: tuple(integer_tables(type_)) for type_ in INTEGERS}
    return found | {type_: tuple(float_tables(type_)) for type_ in FLOATS}
