"""Values that a traced function reads besides its arguments, and detection of their changes."""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from operator import is_
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from pydispatch._core.artifact import crc32
from pydispatch.programs.program import ProgramSource
from pydispatch.programs.trace import is_frozen

_LEAVES = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype)
"""Types of immutable values, which are not searched and are compared by value."""
_FOREIGN = frozenset(sys.stdlib_module_names) | {"numpy", "ml_dtypes", "pydispatch"}
"""Packages whose functions, classes and modules are not searched for captured values."""
_ABSENT = object()  # value of a name that does not exist


class Captures:
    """Snapshot of the values that a function uses besides its arguments, directly or through functions and objects.

    Tracing reads these values once, so a compiled program does not see later changes. `TracedProgram` takes a snapshot
    after it has compiled a function, and calls `changed` before each later call: if a value has changed, it compiles
    the function again, or raises an error if the program has state. Of `def f(x): return x * SCALE + layers[0].weight`,
    the values are the globals `SCALE` and `layers`, the element of the list, its attribute `weight`, and the elements
    of that array.

    The values are globals, closure variables, defaults and attributes. Attributes are those whose names occur in the
    code of the functions. Elements of lists, tuples, sets, dicts and deques are included, and elements of arrays unless
    the array is read-only. Changes are found by identity of objects, by value for numbers and texts.

    function: the function. statics: values of its static parameters by name, which are searched too.
    """

    def __init__(self, function: Callable[..., Any], statics: Mapping[str, Any]) -> None:
        """Take the snapshot of the values that the function and its statics reach now."""
        # `_Search` fills these lists. A path is the name of a value in messages, such as `layers[0].weight`.
        self._mappings: list[tuple[Mapping[str, Any], str, Any, str]] = []  # (mapping, key, value at snapshot, path)
        self._attributes: list[tuple[Any, str, Any, str]] = []  # (owner, attribute, value at the snapshot, path)
        self._sequences: list[tuple[Any, tuple[Any, ...], str]] = []  # (sequence, elements at the snapshot, path)
        self._sizes: list[tuple[Mapping[Any, Any], int, str]] = []  # (mapping, length at the snapshot, path)
        self._arrays: list[tuple[np.ndarray[Any, Any], Any, str]] = []  # (array, digest at the snapshot, path)
        self._frozen: list[tuple[np.ndarray[Any, Any], str]] = []  # (read-only array, path)
        _Search(self).run(function, statics)

    def add_attribute(self, owner: Any, name: str, value: Any, path: str) -> None:
        """Add an attribute to the snapshot. path: how messages name it."""
        self._attributes.append((owner, name, value, path))

    def changed(self) -> str | None:
        """Return the path of a value that has changed, such as `layers[0].weight`; None when all are unchanged."""
        try:
            return next(self._changes(), None)
        except ValueError:  # reading the cell of a closure variable that was deleted
            return "a closure variable"

    def _changes(self) -> Iterator[str]:
        """Yield the paths of values that have changed since the snapshot, as `_is_equal` compares them."""
        for mapping, name, value, path in self._mappings:
            now = mapping.get(name, _ABSENT)
            if now is not value and not _is_equal(now, value):
                yield path
        for owner, name, value, path in self._attributes:
            now = getattr(owner, name, _ABSENT)
            if now is not value and not _is_equal(now, value):
                yield path
        for sequence, values, path in self._sequences:
            if len(sequence) != len(values):
                yield path
            elif not all(map(is_, sequence, values)):  # mostly all items are the same objects, which is fast to test
                pairs = zip(sequence, values, strict=True)
                yield from (f"{path}[{n}]" for n, pair in enumerate(pairs) if not _is_equal(*pair))
        yield from self._changed_contents()

    def _changed_contents(self) -> Iterator[str]:
        """Yield the paths of mappings with another length, of arrays with other elements, and of arrays that were
        read-only and are writeable now.
        """
        yield from (path for sized, size, path in self._sizes if len(sized) != size)
        yield from (path for array, digest, path in self._arrays if _digest(array) != digest)
        yield from (path for array, path in self._frozen if array.flags.writeable)


def _is_equal(now: Any, value: Any) -> bool:
    """Return whether two values are one object, or equal numbers or texts of one type; 0.0 and -0.0 differ."""
    return now is value or (type(now) is type(value) and isinstance(now, _LEAVES) and repr(now) == repr(value))


def _digest(array: np.ndarray[Any, Any]) -> Any:
    """Return a value that changes, but for collisions of CRC-32, with the elements, the shape or the dtype of an array.

    Elements of an object array are compared by identity; `_Search` visits them too.
    """
    if array.dtype.hasobject:
        return array.shape, tuple(map(id, array.flat))
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return array.shape, array.dtype, crc32(raw.data)


class _Search:
    """Search of one function for the values that it uses besides its arguments, which it records in `Captures`.

    `run` repeats the search until the visited code contributes no further attribute names. Each `_search_` method
    records in the Captures what may change in a value of its type, and searches the values in it. `path` is the name of
    the value in messages.
    """

    def __init__(self, captures: Captures) -> None:
        """Create a search that adds to `captures`."""
        self._captures = captures
        # Names of the attributes that are searched: names in visited code, and its strings, which getattr may take.
        self._names: set[str] = set()
        self._seen: dict[int, Any] = {}  # visited values by id, referenced so that ids stay unique

    def run(self, function: Callable[..., Any], statics: Mapping[str, Any]) -> None:
        """Search a function and its statics. Start again as long as the visited code has names that were not known.

        Objects are searched for attributes with known names only, so that a new name may exist in objects that were
        visited before it was known.
        """
        known_count = -1
        while known_count != len(self._names):
            known_count, self._seen = len(self._names), {}
            for entries in vars(self._captures).values():  # all attributes are lists; the search fills them again
                entries.clear()
            self._search_function(function, function.__name__)
            for name, value in statics.items():
                self._search_value(value, name)

    def _search_value(self, value: Any, path: str) -> None:
        """Search a value by the method for its type in `_SEARCHES`, unless it was searched before or is immutable."""
        if isinstance(value, _LEAVES) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        for type_, search in _SEARCHES:
            if isinstance(value, type_):
                search(self, value, path)
                return
        self._search_object(value, path)

    def _search_function(self, function: Any, path: str) -> None:
        """Search the closure, globals and defaults of a function, unless it is foreign (see `_is_foreign`)."""
        if _is_foreign(function):
            return
        self._collect_names(function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # the enclosing function has not assigned the variable yet
                continue
            self._captures.add_attribute(cell, "cell_contents", value, path=name)
            self._search_value(value, name)
        self._record_entries(function.__globals__, "", self._names & function.__globals__.keys())
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._search_value(default, f"a default of {path}")

    def _collect_names(self, code: CodeType) -> None:
        """Collect the names and string constants of code, including nested functions."""
        self._names.update(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._collect_names(constant)
            elif isinstance(constant, str):
                self._names.add(constant)  # may be the name of an attribute: getattr(config, "scale")

    def _record_entries(self, mapping: Mapping[Any, Any], prefix: str, names: Any) -> None:
        """Record the entries of a mapping with the keys `names`, and search their values.

        prefix: start of their paths, before the key: "" for globals, "layer." for attributes of an object.
        """
        for name in sorted(names, key=str):
            value = mapping[name]
            path = f"{prefix}{name}"
            self._captures._mappings.append((mapping, name, value, path))
            self._search_value(value, path)

    def _search_sequence(self, sequence: Any, path: str) -> None:
        """Record the elements of a list, set or deque, and search them; tuples cannot change."""
        values = tuple(sequence)
        if not isinstance(sequence, (tuple, frozenset)):
            self._captures._sequences.append((sequence, values, path))
        for index, value in enumerate(values):
            self._search_value(value, f"{path}[{index}]")

    def _search_mapping(self, mapping: Mapping[Any, Any], path: str) -> None:
        """Record the length and the entries of a dict, and search the values."""
        self._captures._sizes.append((mapping, len(mapping), path))
        for key, value in mapping.items():
            self._captures._mappings.append((mapping, key, value, f"{path}[{key!r}]"))
            self._search_value(value, f"{path}[{key!r}]")

    def _search_array(self, array: np.ndarray[Any, Any], path: str) -> None:
        """Record an array: a digest of its contents, or only that it is read-only if it is."""
        if array.dtype.hasobject:
            for element in array.flat:
                self._search_value(element, path)
        if is_frozen(array):
            self._captures._frozen.append((array, path))
        else:
            self._captures._arrays.append((array, _digest(array), path))

    def _search_method(self, method: MethodType, path: str) -> None:
        """Search the function and the instance of a bound method."""
        self._search_value(method.__func__, path)
        self._search_value(method.__self__, path)

    def _search_partial(self, partial: functools.partial[Any], path: str) -> None:
        """Search the function and the arguments of a functools.partial."""
        for component in (partial.func, partial.args, partial.keywords):
            self._search_value(component, path)

    def _search_program(self, program: ProgramSource, path: str) -> None:
        """Search a program that the function calls: its function and statics, the rule of its derivative, and its
        primal, the program whose gradients it computes, if it is a derivative.
        """
        self._search_value(program.function, path)
        self._search_value(program.statics, path)
        # The stated derivative is recorded, because it may be replaced after tracing, unlike the other attributes.
        rule = program.stated_derivative
        self._captures.add_attribute(program, "stated_derivative", rule, path=f"the derivative of {path}")
        self._search_value(rule, f"the derivative of {path}")
        self._search_value(program.primal, path)

    def _search_namespace(self, owner: Any, path: str) -> None:
        """Search the members of a module or a class whose names occur in visited code."""
        if not _is_foreign(owner):
            for name in sorted(self._names & vars(owner).keys()):
                self._captures.add_attribute(owner, name, getattr(owner, name, _ABSENT), path=f"{path}.{name}")
                # For a descriptor the function that it wraps is searched: the getter of a property (`fget`), or the
                # function of a static method or class method (`__func__`).
                member = vars(owner)[name]
                wrapped = getattr(member, "fget", None) or getattr(member, "__func__", member)
                self._search_value(wrapped, f"{path}.{name}")

    def _search_object(self, value: Any, path: str) -> None:
        """Search the attributes of an instance whose names occur in visited code, its classes, and the function that it
        wraps. Instances of types of NumPy, pydispatch and Python itself are not searched.
        """
        if type(value).__module__.partition(".")[0] in ("numpy", "pydispatch", "builtins"):
            return
        for kind in type(value).__mro__:
            self._search_value(kind, kind.__name__)
            slots = kind.__dict__.get("__slots__", ())
            if isinstance(slots, str):  # __slots__ = "name" declares one slot
                slots = (slots,)
            for name in self._names.intersection(slots):
                referenced = getattr(value, name, _ABSENT)
                self._captures.add_attribute(value, name, referenced, path=f"{path}.{name}")
                self._search_value(referenced, f"{path}.{name}")
        referenced = getattr(value, "__dict__", {})
        self._record_entries(referenced, f"{path}.", self._names & referenced.keys())
        self._search_value(getattr(value, "__wrapped__", None), path)


_SEARCHES: list[tuple[Any, Callable[[_Search, Any, str], None]]] = [
    (np.ndarray, _Search._search_array), (FunctionType, _Search._search_function), (MethodType, _Search._search_method),
    (functools.partial, _Search._search_partial), (ProgramSource, _Search._search_program),
    ((list, tuple, set, frozenset, deque), _Search._search_sequence), (dict, _Search._search_mapping),
    ((ModuleType, type), _Search._search_namespace),
]  # fmt: skip
"""Types of values, and the method that searches such a value; the first that fits is used."""


def _is_foreign(owner: Any) -> bool:
    """Return whether a function, class or module belongs to a package of `_FOREIGN`, which is not searched: the
    standard library, NumPy, ml_dtypes or pydispatch itself.
    """
    module = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", None)
    return (module or "").partition(".")[0] in _FOREIGN
