"""Combination of several sources into one program, in which equal weights are stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.symbols import symbols_of
from pydispatch.ir.dialects.pyd.array import HostArray, NumPyArrayAttr
from pydispatch.ir.dialects.util.dialect import GlobalOp
from pydispatch.ir.functions import FUNCTIONS


def combine(programs: Mapping[str, ModuleOp]) -> ModuleOp:
    """Move the contents of several programs into one, and return it; the given programs are emptied.

    A program's only public function gets the name of its key. If there are several, the key is prepended to the name of
    each ("decode" and "step" become "decode_step"). Other symbols keep their names unless these are taken. Globals of
    equal type and initial value are merged, as are those of the same parameter; mutable ones only if they have the same
    name. Declarations of imports are shared by name.

    Raises CompileError if two functions get one name, or an import is declared with two types.
    """
    _share_arrays(programs)
    combined = _Combined()
    for key, program in programs.items():
        combined.add(key, program)
    return combined.module


class _Combined:
    """The program that is combined from several.

    Attributes:
        symbols: the operations of the program by their names.
        contents: the names of its globals by what they contain.
    """

    def __init__(self) -> None:
        self.module = ModuleOp([])
        self.symbols: dict[str, Operation] = {}
        self.contents: dict[object, list[str]] = {}

    def add(self, key: str, program: ModuleOp) -> None:
        """Move the operations of a program, whose key is `key`, into this one."""
        symbols = symbols_of(program)
        public = [op for _, op in symbols if _is_public(op)]
        names, merged = {}, []
        for name, op in symbols:
            if op in public:
                names[name] = self._public_name(op, key if len(public) == 1 else f"{key}_{name}")
            elif (equal := self._equal(name, op)) is not None:
                names[name] = equal
                merged.append(op)
            else:
                names[name] = name if name not in self.symbols else self._free(f"{name}.{key}")
        for op in merged:
            op.detach()
            op.erase(safe_erase=False)
        _rename_references(program, names)
        for name, op in symbols:
            if op not in merged:
                op.properties["sym_name"] = StringAttr(names[name])
                self.symbols[names[name]] = op
                if isinstance(op, GlobalOp):
                    self.contents.setdefault(_contents(op), []).append(names[name])
        for op in list(program.ops):
            op.detach()
            self.module.body.block.add_op(op)
        self._add_attributes(program)

    def _public_name(self, op: Operation, name: str) -> str:
        if name in self.symbols:
            raise CompileError(f"two functions are named '{name}'", location_of(op), "give one source another key")
        return name

    def _equal(self, name: str, op: Operation) -> str | None:
        """Return the symbol of this program that can replace `op`; None if there is none."""
        if _is_import(op) and name in self.symbols:
            if _contents(self.symbols[name]) != _contents(op):
                raise CompileError(f"@{name} is declared with another type in another source", location_of(op))
            return name
        if not isinstance(op, GlobalOp):
            return None
        equal = self.contents.get(_contents(op), ())
        if "is_mutable" in op.properties:
            return name if name in equal else None
        return equal[0] if equal and op.initial_value is not None else None

    def _free(self, name: str) -> str:
        """Return `name`, with a number when it is taken."""
        index, candidate = 0, name
        while candidate in self.symbols:
            index, candidate = index + 1, f"{name}.{index}"
        return candidate

    def _add_attributes(self, program: ModuleOp) -> None:
        for name, value in program.attributes.items():
            known = self.module.attributes.get(name)
            if isinstance(known, DictionaryAttr) and isinstance(value, DictionaryAttr):
                value = DictionaryAttr({**value.data, **known.data})
            elif known is not None:
                continue
            self.module.attributes[name] = value


def _is_public(op: Operation) -> bool:
    return op.name in FUNCTIONS and not _is_import(op) and op.properties.get("sym_visibility") != StringAttr("private")


def _is_import(op: Operation) -> bool:
    return op.name in FUNCTIONS and not op.regions[0].blocks


def _contents(op: Operation) -> object:
    """Return the properties of a global or declaration that determine its behaviour: without names, and for arrays with
    the elements.
    """
    contents = {name: value for name, value in op.properties.items() if name not in ("sym_name", "sym_visibility")}
    value = contents.get("initial_value")
    if isinstance(value, NumPyArrayAttr):
        contents["initial_value"] = value.host_array
    return frozenset(contents.items())


# -- arrays


def _share_arrays(programs: Mapping[str, ModuleOp]) -> None:
    """Merge equal arrays of weights. An array is read as a whole only if another one has its type and first
    elements.
    """
    candidates: dict[object, list[tuple[GlobalOp, NumPyArrayAttr]]] = {}
    for program in programs.values():
        for op in program.ops:
            if isinstance(op, GlobalOp) and isinstance(op.initial_value, NumPyArrayAttr):
                value = op.initial_value
                head = value.array.reshape(-1)[:_HEAD].tobytes()
                candidates.setdefault((value.type, head), []).append((op, value))
    for group in candidates.values():
        shared: dict[bytes, HostArray] = {}
        digests: dict[int, bytes] = {}
        for op, value in group if len(group) > 1 else ():
            array = id(value.array)
            if array not in digests:
                digests[array] = _digest(value.array)
            held = shared.setdefault(digests[array], value.host_array)
            op.properties["initial_value"] = NumPyArrayAttr(value.key, value.type, held)


_HEAD = 1024
"""Number of leading elements that are compared before whole arrays are; with more, small weights are read twice."""


def _digest(array: Any) -> bytes:
    import numpy as np

    return hashlib.blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=32).digest()


# -- references


def _rename_references(program: ModuleOp, names: Mapping[str, str]) -> None:
    changed = {old: new for old, new in names.items() if old != new}
    if not changed:
        return
    for op in _referring(program):
        for attributes in (op.properties, op.attributes):
            for name, value in attributes.items():
                attributes[name] = _renamed(value, changed)


def _referring(program: ModuleOp) -> Iterator[Operation]:
    """Yield the operations that may name symbols of the program: those in its own symbol table, not in nested ones."""
    pending = list(program.ops)
    while pending:
        op = pending.pop()
        yield op
        if op.name not in ("hal.executable", "hal.executable.source", "stream.executable", "flow.executable"):
            pending += [inner for region in op.regions for block in region.blocks for inner in block.ops]


def _renamed(attribute: Attribute, names: Mapping[str, str]) -> Attribute:
    if isinstance(attribute, SymbolRefAttr):
        new = names.get(attribute.root_reference.data)
        return attribute if new is None else SymbolRefAttr(new, attribute.nested_references)
    if isinstance(attribute, ArrayAttr):
        return ArrayAttr([_renamed(item, names) for item in attribute])
    if isinstance(attribute, DictionaryAttr):
        return DictionaryAttr({name: _renamed(value, names) for name, value in attribute.data.items()})
    if isinstance(attribute, ParametrizedAttribute) and any(
        isinstance(p, (SymbolRefAttr, ArrayAttr, DictionaryAttr)) for p in attribute.parameters
    ):
        return attribute.new([_renamed(p, names) for p in attribute.parameters])
    return attribute
