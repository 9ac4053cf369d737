"""Combination of several programs into one, in which equal weights are stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence, Set
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.symbols import rename_references, symbols_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.pyd.array import HostArray, NumPyArrayAttr
from pydispatch.ir.dialects.util.dialect import GlobalOp, GlobalStoreOp
from pydispatch.ir.functions import FUNCTIONS


def combine(programs: Sequence[tuple[str | None, ModuleOp]]) -> ModuleOp:
    """Move the operations of several programs into one, and return it; the given programs are left empty.

    Public functions of a program without a key keep their names. With a key, the only one gets the key as its name; of
    several, each gets the key as a prefix ("decode" and "step" become "decode_step"). Other symbols keep their names
    unless these are taken; a taken name gets a number ("table_1").

    What is equal is stored once: constant globals of one type and initial value, unless an initializer stores to them;
    executables of one name; declarations of imports. Globals of one name, type and initial value become one global if
    they are mutable in any of the programs: all programs then share the state that one of them changes.

    Args:
        programs: Pairs of a key, or None, and a program.

    Raises:
        CompileError: Two public functions would have the same name, or an import is declared with two types.
    """
    _share_arrays([program for _, program in programs])
    combined = _Combined(_states(program for _, program in programs))
    public_names = [combined.reserve(key, program) for key, program in programs]
    for (_, program), names in zip(programs, public_names, strict=True):
        combined.add(program, names)
    return combined.module


class _Combined:
    """Builder of the program that combines several programs into one.

    `reserve` is called for all programs, so that their public names are known, and then `add` for each.

    Args:
        states: The states of all programs: `_state_of` each mutable global.

    Attributes:
        module: Module with the operations of the programs that were added.
        taken: Names that no further symbol may have.
        symbols: Name → operation of `module`.
        globals: Type and initial value, as `_contents` → name of the constant global of `module` that has them.
    """

    def __init__(self, states: Set[object]) -> None:
        """Begin with an empty module. states: see the class."""
        self.module = ModuleOp([])
        self.taken: set[str] = set()
        self.symbols: dict[str, Operation] = {}
        self.globals: dict[object, str] = {}
        self._states_of_all_programs = states

    def reserve(self, key: str | None, program: ModuleOp) -> dict[Operation, str]:
        """Choose and reserve the names of a program's public functions in the combined program.

        Return public function → name. Raise CompileError if a name is taken. `key` is the key of the program, as in
        `combine`.
        """
        functions = [(name, op) for name, op in symbols_of(program) if _is_public(op)]
        names = {}
        for name, op in functions:
            if key is None:
                combined_name = name
            else:
                combined_name = key if len(functions) == 1 else f"{key}_{name}"
            if combined_name in self.taken:
                raise CompileError(
                    f"two of the functions are called '{combined_name}'", location_of(op),
                    "compile them apart, or give one another name",
                )  # fmt: skip
            self.taken.add(combined_name)
            names[op] = combined_name
        return names

    def add(self, program: ModuleOp, public_names: dict[Operation, str]) -> None:
        """Move the operations of a program into the combined one, which leaves the program empty.

        Each symbol gets a name in the combined program, and all references in the program are changed to it:

            @step, a public function             → its name in `public_names`, such as @decode_step
            @w, equal to the combined @weights   → @weights; the operation is erased
            @t, if the combined program has @t   → @t_1
            any other                            → its own name

        Equal are constants of one type and value, mutable globals and executables of one name and contents, and imports
        of one name. `public_names`: public function → the name that was reserved for it.
        """
        symbols = symbols_of(program)
        own_names = {name for name, _ in symbols}
        # Names of the globals that an operation stores to. Even one that is not mutable may be stored to, by an
        # initializer when the program is loaded: it is not a constant, and must not be replaced by an equal one.
        stored = {op.global_.root_reference.data for op in walk(program) if isinstance(op, GlobalStoreOp)}
        new_names: dict[str, str] = {}
        for name, op in symbols:
            is_stored = name in stored
            if op in public_names:
                new_names[name] = public_names[op]
            elif (equal := self._name_of_equal(name, op, is_stored)) is not None:
                new_names[name] = equal
                erase_op(op, safe_erase=False)
                continue
            else:
                new_names[name] = self._unused(name, own_names)
            self._register(new_names[name], op, is_stored)
        rename_references(program, new_names)
        for op in list(program.ops):
            op.detach()
            self.module.body.block.add_op(op)
        self._add_attributes(program)

    def _register(self, name: str, op: Operation, is_stored: bool) -> None:
        """Add an operation to the symbols of the combined module under a name, which is then taken.

        `is_stored` says whether an operation stores to it. A constant global is also added to `globals`, in which equal
        constants of later programs find it.
        """
        op.properties["sym_name"] = StringAttr(name)
        self.taken.add(name)
        self.symbols[name] = op
        if isinstance(op, GlobalOp) and self._is_constant(op, is_stored):
            self.globals.setdefault(_contents(op), name)

    def _is_constant(self, op: GlobalOp, is_stored: bool) -> bool:
        """Return whether a global always has its initial value.

        No operation may store to it, and no program may have a mutable global with the same name and contents, with
        which it would become one global.
        """
        return op.initial_value is not None and not is_stored and _state_of(op) not in self._states_of_all_programs

    def _name_of_equal(self, name: str, op: Operation, is_stored: bool) -> str | None:
        """Return the name of the symbol of the combined program that can replace `op`; None if there is none.

        The combined program may have a replacement for these kinds of symbols:

        - A constant global: a constant of the same type and initial value, whatever its name is.
        - A state, a global that is mutable in some of the programs: the global of the same name, type and initial
          value. It becomes mutable if one of the two is.
        - An import: the import of the same name.
        - An executable: the executable of the same name, if the contents are equal.

        Args:
            name: Name of `op` in its own program.
            op: The operation of the program that is being added.
            is_stored: Whether an operation stores to it.

        Raises:
            CompileError: `op` is an import, and the import of the same name has another type.
        """
        if isinstance(op, GlobalOp) and self._is_constant(op, is_stored):
            return self.globals.get(_contents(op))
        known = self.symbols.get(name)
        if known is None or known.name != op.name:
            return None
        if _is_import(op) and _is_import(known):
            if _contents(known) != _contents(op):
                raise CompileError(
                    f"@{name} is declared with another type in another source", location_of(op),
                    "declare an import with one type, or give one of the two another name",
                )  # fmt: skip
            return name
        if isinstance(op, GlobalOp) and isinstance(known, GlobalOp):
            if _state_of(op) not in self._states_of_all_programs or _contents(known) != _contents(op):
                return None
            known.is_mutable = known.is_mutable or op.is_mutable  # a program that only reads need not state `mutable`
            return name
        # Of the other operations, only executables are stored once; they are those with symbols of their own.
        if not op.has_trait(SymbolTable):
            return None
        # xDSL also compares the blocks around the two executables, which differ: they are passed as equal.
        assert known.parent is not None and op.parent is not None
        return name if known.is_structurally_equivalent(op, {known.parent: op.parent}) else None

    def _unused(self, name: str, own_names: set[str]) -> str:
        """Return `name`, or, if it is taken, `name_1`, `name_2`, ...: the first name that is free in both programs.

        `own_names` are the names of the symbols of the program that is being added.
        """
        if name not in self.taken:
            return name
        suffix = 1
        while (candidate := f"{name}_{suffix}") in self.taken or candidate in own_names:
            suffix += 1
        return candidate

    def _add_attributes(self, program: ModuleOp) -> None:
        """Add the attributes of a program's module to the combined module.

        If both have an attribute, or an entry of a dictionary, the value of the combined module stays.
        """
        for name, value in program.attributes.items():
            known = self.module.attributes.get(name)
            if isinstance(known, DictionaryAttr) and isinstance(value, DictionaryAttr):
                value = DictionaryAttr({**value.data, **known.data})
            elif known is not None:
                continue
            self.module.attributes[name] = value


def _is_public(op: Operation) -> bool:
    """Return whether `op` is a function that callers of the program can call."""
    is_private = op.properties.get("sym_visibility") == StringAttr("private")
    return op.name in FUNCTIONS and not is_private and not _is_import(op)


def _is_import(op: Operation) -> bool:
    """Return whether `op` is a function without a body, which is linked when the program is loaded."""
    return op.name in FUNCTIONS and not op.regions[0].blocks


def _states(programs: Iterable[ModuleOp]) -> Set[object]:
    """Return the states of programs: (name, contents) of each mutable global, as `_state_of` returns them."""
    globals_ = (op for program in programs for op in program.ops if isinstance(op, GlobalOp))
    return {_state_of(op) for op in globals_ if op.is_mutable is not None}


def _state_of(op: GlobalOp) -> object:
    """Return the name and contents of a global, which identify a state.

    Globals of several programs with equal names and contents become one state, which the programs share, if one of the
    globals is mutable.
    """
    return op.sym_name, _contents(op)


def _contents(op: Operation) -> object:
    """Return the properties of a global or an import without name, visibility and mutability, to compare it.

    A NumPy array is compared by identity, and without the key that names it in texts: `_share_arrays` has replaced
    equal arrays by one.
    """
    ignored = "sym_name", "sym_visibility", "is_mutable"
    contents = {name: value for name, value in op.properties.items() if name not in ignored}
    value = contents.get("initial_value")
    if isinstance(value, NumPyArrayAttr):
        contents["initial_value"] = value.host_array
    return frozenset(contents.items())


# -- arrays


def _share_arrays(programs: Iterable[ModuleOp]) -> None:
    """Make globals with equal arrays share one of the arrays.

    An array is read as a whole only if another array has the same type and the same first `_HEAD` elements.
    """
    candidates: dict[object, list[tuple[GlobalOp, NumPyArrayAttr]]] = {}
    for program in programs:
        for op in program.ops:
            if isinstance(op, GlobalOp) and isinstance(op.initial_value, NumPyArrayAttr):
                value = op.initial_value
                head = value.array.flat[:_HEAD].tobytes()
                candidates.setdefault((value.type, head), []).append((op, value))
    for group in candidates.values():
        shared: dict[bytes, HostArray] = {}  # digest of an array → the array that replaces equal ones
        digests: dict[int, bytes] = {}  # identity of an array → its digest: several globals may have one array
        if len(group) == 1:  # no other array can be equal
            continue
        for op, value in group:
            array = id(value.array)
            if array not in digests:
                digests[array] = _digest(value.array)
            host_array = shared.setdefault(digests[array], value.host_array)
            op.properties["initial_value"] = NumPyArrayAttr(value.key, value.type, host_array)


_HEAD = 1024
"""Number of leading elements that are compared before whole arrays are; with more, small weights are read twice."""


def _digest(array: Any) -> bytes:
    """Return a digest of the bytes of an array."""
    import numpy as np

    return hashlib.blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=32).digest()
