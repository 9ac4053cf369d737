"""Interfaces of public functions: the names of arguments, results and dynamic sizes that callers see.

The attribute `pyd.name` names an argument or result; an argument without it has its name from the program text. The
attribute `pyd.shape` has an entry for each axis: a string that names a dynamic size, or the static size. Other dynamic
sizes are named d0, d1, ...; sizes that the program states to be equal share a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    ComplexType,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.analysis.known_sizes import Sizes
from pydispatch.compiler.analysis.sizes import size_cache
from pydispatch.compiler.tensor_ops.terms import Product, Sum, Term
from pydispatch.errors import CompileError
from pydispatch.formats.artifact.manifest import FunctionEntry, ValueEntry
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.functions import RETURNS, symbol_name
from pydispatch.ir.values import Dim

NAME, SHAPE = "pyd.name", "pyd.shape"
LONGEST = 80
"""Maximum number of characters of an expression that stands for a size in the interface; longer ones get a name."""


def argument_names(function: Operation) -> list[str]:
    """Return the name of each argument: that of `pyd.name`, else that of the program text, else `arg0` and the like.

    Raises CompileError for a wrong attribute.
    """
    arguments = function.regions[0].blocks[0].args
    stated = _names(function, "arg_attrs", len(arguments))
    return [name or value.name_hint or f"arg{i}" for i, (name, value) in enumerate(zip(stated, arguments, strict=True))]


def result_names(function: Operation) -> list[str]:
    """Return the name of each result, "" for those without one. Raises CompileError for a wrong attribute."""
    return _names(function, "res_attrs", len(cast(FunctionType, function.properties["function_type"]).outputs))


def interface_of(function: Operation) -> FunctionEntry:
    """Return the names, types and sizes of a function's arguments and results, as its callers see them.

    The function

        func.func @both(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
          %0 = arith.addf %a, %b : tensor<?xf32>
          %1 = tensor.concat dim(0) %a, %b : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
          return %0, %1 : tensor<?xf32>, tensor<?xf32>
        }

    has the inputs (a: f32[d0], b: f32[d0]), since the sum requires equal sizes, and the outputs
    (f32[d0], f32[d0 + d0]).

    Raises CompileError for a malformed attribute of an argument or result.
    """
    type = cast(FunctionType, function.properties["function_type"])
    names = _SizeNames(function)
    arguments: Sequence[SSAValue] = function.regions[0].blocks[0].args
    argument_attributes = _attributes(function, "arg_attrs", len(arguments))
    # The names that the program states are recorded before others are generated, which must differ from them.
    for value, attributes in zip(arguments, argument_attributes, strict=True):
        names.record_stated(value, _shape(function, value.type, attributes))
    inputs = [
        ValueEntry(name, *names.type_and_shape(value.type, value, stated=None))
        for name, value in zip(argument_names(function), arguments, strict=True)
    ]
    # Sizes of results follow those of arguments, whose names they use. `returned_values` are None if the function has
    # several returns: the sizes of its results then get names of their own.
    returned_values = names.returned_values(len(type.outputs))
    result_attributes = _attributes(function, "res_attrs", len(type.outputs))
    outputs = [
        ValueEntry(name, *names.type_and_shape(result, value, _shape(function, result, attributes)))
        for name, result, value, attributes in zip(
            result_names(function), type.outputs, returned_values, result_attributes, strict=True
        )
    ]
    return FunctionEntry(symbol_name(function), str(type), inputs, outputs)


def _which(value: SSAValue | None) -> str:
    """Return text that names an argument, or a result, for messages."""
    return f"argument {value.index}" if isinstance(value, BlockArgument) else "a result"


class _SizeNames:
    """Names of the dynamic sizes in the interface of one function.

    Stated names of all arguments are recorded by `record_stated` before `type_and_shape` is called for arguments and
    results, in order. A size has the name that the program states, an expression over other sizes, or a new name: d0,
    d1, ...
    """

    def __init__(self, function: Operation) -> None:
        """Begin with no names in use; other methods name the sizes in the interface of `function`."""
        self._function = function
        self._blocks = list(function.regions[0].blocks)  # the arguments of the first are those of the function
        self._known: dict[Any, Term] = {}  # cache of the size analysis, see `size_cache`
        self._size_names: dict[Term, str] = {}  # size → its name, or its expression
        self._taken = set(argument_names(function))  # names in use: expressions have those of arguments, too
        self._count = 0  # of the names d0, d1, ...
        self._sizes: Sizes | None = None  # analysis of equal sizes, made when it is first needed

    def record_stated(self, value: SSAValue, shape: Sequence[int | str] | None) -> None:
        """Record the names that the program states for the sizes of an argument.

        shape: for each axis the name of its dynamic size, or its static size; None if the program states none.
        """
        for axis, name in enumerate(shape or ()):
            if isinstance(name, str):
                self._taken.add(name)
                self._size_names.setdefault(Dim(value, axis), name)
                equal_size = self._resolved(value)[axis]  # the representative of all sizes known to be equal to it
                self._size_names.setdefault(equal_size, name)

    def type_and_shape(
        self, type: Attribute, value: SSAValue | None, stated: Sequence[int | str] | None
    ) -> tuple[str, list[int | str] | None]:
        """Return the element type and the shape of an argument or result.

        The shape has an integer for each static size and a string for each dynamic one: its name, or an expression such
        as "n * 4". For tensor<?x4xf32> the result is ("f32", ["d0", 4]), for the scalar f32 ("f32", None).

        Args:
            type: Type of the argument or result.
            value: The argument, or the value that the function returns. None for a result of a function with several
                returns; its dynamic sizes then get new names.
            stated: The shape in the attribute `pyd.shape` of a result, which is returned as it is. None if it has none,
                and for an argument, whose attribute `record_stated` has recorded.

        Raises:
            CompileError: Callers cannot pass a value of this type.
        """
        get_shape = getattr(type, "get_shape", None)
        if get_shape is None:  # a scalar
            return spelled(type), None
        if not isinstance(type, TensorType):
            raise self._refused(type, value)
        element = spelled(cast(Any, type).element_type)
        if stated is not None:
            return element, list(stated)
        sizes: Sequence[int] = get_shape()  # -1 for a dynamic size
        if all(size >= 0 for size in sizes):
            return element, list(sizes)
        if value is None:
            return element, [size if size >= 0 else self._fresh() for size in sizes]
        # The term of a size is the same for all sizes that are known to be equal, and has one name. A name that the
        # program states for this very size takes precedence over that of its term.
        terms = self._resolved(value)
        return element, [
            size if size >= 0 else self._size_names.get(Dim(value, axis)) or self._name(terms[axis])
            for axis, size in enumerate(sizes)
        ]

    def _refused(self, type: Attribute, value: SSAValue | None) -> CompileError:
        """Return the error for an argument or result of a type that callers cannot pass or get."""
        return CompileError(
            f"{_which(value)} of @{symbol_name(self._function)} has the type {type}, which callers cannot pass or get",
            location_of(self._function),
            "make the function private, or pass tensors and numbers",
        )

    def returned_values(self, count: int) -> Sequence[SSAValue | None]:
        """Return the values that the function returns; None for each of `count` results if it has several returns."""
        ends = [b.last_op for b in self._blocks if b.last_op is not None and b.last_op.name in RETURNS]
        return list(ends[0].operands) if len(ends) == 1 else [None] * count

    def _resolved(self, value: SSAValue) -> list[Term]:
        """Return the size of each axis of a tensor as a term. Sizes that are known to be equal have the same term."""
        with size_cache(self._known):  # size lookups inside are cached in self._known
            if self._sizes is None:
                self._sizes = Sizes()
                for argument in self._blocks[0].args:
                    self._sizes.record_value(argument)
                for op in self._blocks[0].ops:  # operations of other blocks may not be executed
                    for result in op.results:
                        self._sizes.record_value(result)
                    self._sizes.record_equal_sizes(op)
            return self._sizes.of(value)

    def _name(self, term: Term) -> int | str:
        """Return a size as the interface shows it: an integer, an expression over sizes of arguments, or a name."""
        if isinstance(term, int):
            return term
        if term not in self._size_names:  # `_text` returns an expression, or None
            self._size_names[term] = self._text(term) or self._fresh()
        return self._size_names[term]

    def _text(self, term: Term) -> str | None:
        """Return a size as an expression over sizes of arguments and scalar arguments, such as "n * 4 + k".

        Return None if it depends on other values, or if the expression is longer than LONGEST.

        Args:
            term: A size without a name. That of `tensor.empty(%k)` is the index value %k, with the text "k" if %k is an
                argument of the function. `Sum((Dim(%x, 0), 1))` has the text "n + 1" if the size of %x is named n. A
                `Dim` alone has no text: no other size determines it.
        """
        function_arguments = self._blocks[0].args
        if isinstance(term, SSAValue):
            if term not in function_arguments:
                return None
            return argument_names(self._function)[function_arguments.index(term)]
        if not isinstance(term, Sum | Product):
            return None
        names = self._size_names
        parts = [part if isinstance(part, int) else names.get(part) or self._text(part) for part in term.parts]
        if any(part is None for part in parts):
            return None
        if isinstance(term, Sum):
            text = " + ".join(map(str, parts))
        else:  # a sum inside of a product needs parentheses
            text = " * ".join(f"({part})" if " + " in str(part) else str(part) for part in parts)
        return text if len(text) <= LONGEST else None

    def _fresh(self) -> str:
        """Return the first unused name of d0, d1, ..., and mark it as used."""
        name = f"d{self._count}"
        self._count += 1
        if name in self._taken:
            return self._fresh()
        self._taken.add(name)
        return name


def spelled(type: Attribute) -> str:
    """Return an element type in MLIR's spelling."""
    return f"complex<{type.element_type}>" if isinstance(type, ComplexType) else str(type)


def _attributes(function: Operation, key: str, count: int) -> list[dict[str, Attribute]]:
    """Return the attributes of each argument (`key` "arg_attrs") or result ("res_attrs") of a function."""
    stated = function.properties.get(key)
    if not isinstance(stated, ArrayAttr) or len(stated) != count:  # optional; a malformed list counts as absent
        return [{}] * count
    return [dict(attributes.data) if isinstance(attributes, DictionaryAttr) else {} for attributes in stated]


def _names(function: Operation, key: str, count: int) -> list[str]:
    """Return the names that `pyd.name` states for the arguments or results; "" for those without one.

    Raises CompileError for a name that is no text.

    key: "arg_attrs" or "res_attrs". count: number of arguments or results.
    """
    names = []
    for attributes in _attributes(function, key, count):
        name = attributes.get(NAME, StringAttr(""))
        if not isinstance(name, StringAttr) or not _is_unicode(name.data):
            raise CompileError(
                f"the attribute {NAME} of '@{symbol_name(function)}' is {_shown(name)}", location_of(function),
                f'write a text: {{{NAME} = "input_ids"}}',
            )  # fmt: skip
        names.append(name.data)
    return names


def _shape(function: Operation, type: Attribute, attributes: dict[str, Attribute]) -> tuple[int | str, ...] | None:
    """Return the shape that the attribute `pyd.shape` of an argument or result states; None if it has none.

    For tensor<?x4xf32> {pyd.shape = ["batch", 4]} it is ("batch", 4); a static size may also be a text, "4".

    Args:
        function: The function, for messages.
        type: Type of the argument or result; that of a scalar permits an empty list only.
        attributes: All attributes of the argument or result.

    Raises:
        CompileError: The attribute does not have a name for each dynamic size and the same number for each static one.
    """
    stated = attributes.get(SHAPE)
    if stated is None:
        return None
    sizes: tuple[int, ...] = tuple(type.get_shape()) if hasattr(type, "get_shape") else ()
    try:
        entries = [_entry(axis_attribute) for axis_attribute in cast(Any, stated)]
        if len(entries) != len(sizes) or not all(map(_fits, entries, sizes)):
            raise VerifyException("it does not fit")  # replaced by the CompileError below
    except (TypeError, VerifyException):
        raise CompileError(
            f"the attribute {SHAPE} of '@{symbol_name(function)}' is {_shown(stated)}, of a value of type {type}",
            location_of(function), f'write an entry for each axis: {{{SHAPE} = ["batch", 4]}}',
        ) from None  # fmt: skip
    # A static size is returned as the integer of the type, even if the entry is a text.
    return tuple(entry if size < 0 else size for entry, size in zip(entries, sizes, strict=True))


def _entry(value: Attribute) -> int | str:
    """Return an entry of the attribute `pyd.shape`; raises VerifyException if it is neither text nor integer."""
    if isinstance(value, StringAttr) and value.data and _is_unicode(value.data):
        return value.data
    if isinstance(value, IntegerAttr):
        return value.value.data
    raise VerifyException("neither a text nor a number")


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded; one with half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Attribute) -> str:
    """Return an attribute as text for a message."""
    try:
        return str(value)
    except UnicodeEncodeError:
        return "not valid Unicode"


def _fits(entry: int | str, size: int) -> bool:
    """Return whether an entry of `pyd.shape` fits a size of the type: a name for a dynamic one, else the same size."""
    return isinstance(entry, str) if size < 0 else str(entry) == str(size)
