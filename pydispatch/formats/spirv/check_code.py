"""The functions of a SPIR-V module: blocks, branches, and the types of operands. See `check.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.errors import ArtifactError
from pydispatch.formats.spirv.check_blocks import (
    BRANCH,
    BRANCH_CONDITIONAL,
    LOOP_MERGE,
    NO_CODE,
    PHI,
    RETURN,
    RETURN_VALUE,
    SELECTION_MERGE,
    SWITCH,
    check_blocks,
)
from pydispatch.formats.spirv.declared import FUNCTION, NON_SEMANTIC, Body, Declared, Shape, check_variable
from pydispatch.formats.spirv.names import Op, Storage
from pydispatch.formats.spirv.parts import EXT_INST, LABEL, UNDEF, Inst

_FREE = NO_CODE | {LABEL, LOOP_MERGE, SELECTION_MERGE, BRANCH, UNDEF}

_MAPS = {
    **dict.fromkeys((109, 110), "i f"), **dict.fromkeys((111, 112), "f i"), **dict.fromkeys((113, 114), "i i"),
    **dict.fromkeys((115, 116, *range(207, 216)), "f f"), 126: "i =", 127: "f =",
    **dict.fromkeys((128, 130, 132), "i =="),
    **dict.fromkeys((134, 135, 137, 138, 139, 197, 198, 199), "i =="),
    **dict.fromkeys((129, 131, 133, 136, 140, 141), "f =="),
    **dict.fromkeys((156, 157), "b f"), **dict.fromkeys((164, 165, 166, 167), "b =="), 168: "b =",
    **dict.fromkeys(range(170, 180), "b ii"), **dict.fromkeys(range(180, 192), "b ff"),
    **dict.fromkeys((194, 195, 196), "i =i"), **dict.fromkeys((200, 204), "i ="), 205: "i i",
    201: "i ==sS", **dict.fromkeys((202, 203), "i =sS"),
}  # fmt: skip
"""Opcode → kind of the result and of each operand, component by component: i, f, b any of that kind, = the same as the
result, s and S integers alone. Operands of the same kind, written twice, have the same width."""

_GLSL = {
    **dict.fromkeys((1, 2, 3, 4, 6, 8, 9, 10, *range(11, 25), *range(27, 33), 69), "f ="),
    **dict.fromkeys((5, 7, 74, 75, 73), "i ="), **dict.fromkeys((25, 26, 37, 40, 48, 79, 80, 71), "f =="),
    **dict.fromkeys((38, 39, 41, 42), "i =="), **dict.fromkeys((43, 46, 49, 50, 81, 70), "f ==="),
    **dict.fromkeys((44, 45), "i ==="), 53: "f =i",
}  # fmt: skip
"""Instructions of GLSL.std.450 whose operands are like their result."""
_WORD, _PAIR, _DOUBLE = Shape("i", 32, 1), Shape("i", 32, 2), Shape("f", 64, 1)
_PACKED = {
    **dict.fromkeys((54, 55), (Shape("f", 32, 4), _WORD)), **dict.fromkeys((56, 57, 58), (Shape("f", 32, 2), _WORD)),
    **dict.fromkeys((60, 61, 62), (_WORD, Shape("f", 32, 2))), **dict.fromkeys((63, 64), (_WORD, Shape("f", 32, 4))),
    59: (_PAIR, _DOUBLE), 65: (_DOUBLE, _PAIR),
}  # fmt: skip
"""Pack and unpack instructions of GLSL.std.450 → their operand and result."""

_IN_CONSTANTS = frozenset((
    *range(109, 118), 124, *range(126, 140), 140, 141, 164, 165, 166, 167, 168, 169, 77, 78, 79, 81, 82, 65, 66, 67, 70,
    *range(170, 192), *range(194, 201),
))  # fmt: skip


def check_code(declared: Declared, is_open: bool) -> None:
    """Checks the functions. is_open: the module has instructions that are not known, whose results may be anything."""
    calls: dict[int, list[int]] = {}
    for id, body in declared.bodies.items():
        calls[id] = _Code(declared, body, is_open).check()
    _check_recursion(declared, calls)


def check_constant(declared: Declared, inst: Inst) -> None:
    """The operation of an OpSpecConstantOp."""
    op = inst.words[3]
    if op not in _IN_CONSTANTS:
        raise declared.fail(inst.at, f"a constant of opcode {op}, which computes no constants")
    inner = Inst(op, [0, inst.type_id, inst.id, *inst.words[4:]], 1, 2, [p - 1 for p in inst.ids], inst.at)
    body = Body(inst)
    _Code(declared, body, False).rule(inner)


def _check_recursion(declared: Declared, calls: dict[int, list[int]]) -> None:
    state: dict[int, int] = {}
    for root in calls:
        stack = [(root, False)]
        while stack:
            id, leaving = stack.pop()
            if leaving:
                state[id] = 2
                continue
            if state.get(id):
                continue
            state[id] = 1
            stack.append((id, True))
            for callee in calls[id]:
                if state.get(callee) == 1:
                    raise ArtifactError(f"{declared.what}: function id {callee} calls itself, which shaders cannot")
                stack.append((callee, False))


class _Code:
    """One function."""

    def __init__(self, declared: Declared, body: Body, is_open: bool) -> None:
        self.declared, self.body, self.is_open = declared, body, is_open
        self.values: dict[int, int] = {}
        self.labels: set[int] = set()
        self.calls: list[int] = []
        self.later: list[tuple[int, int, int]] = []  # (word, id, its type) of operands of phis

    def fail(self, at: int, text: str) -> ArtifactError:
        return self.declared.fail(at, text)

    def check(self) -> list[int]:
        """The functions that it calls."""
        declared, body = self.declared, self.body
        op, words = declared.type(body.head.words[4])
        given = [p.type_id for p in body.parameters]
        if op != Op.TYPE_FUNCTION or words[0] != body.head.type_id or words[1:] != given:
            raise self.fail(body.head.at, "a function does not have the parameters and result of its type")
        for parameter in body.parameters:
            self.values[parameter.id] = parameter.type_id
        if not body.code:
            if body.head.id not in declared.tables.linkage:
                raise self.fail(body.head.at, "a function without code that is not imported either")
            return []
        self.labels = {inst.id for inst in body.code if inst.op == LABEL}
        check_blocks(declared, body)
        for inst in body.code:
            self.rule(inst)
            if inst.type:
                self.values[inst.id] = inst.type_id
        for at, id, type_ in self.later:
            if self._found(id) != type_ and not self.is_open:
                raise self.fail(at, f"id {id} is no value of the type {type_}")
        return self.calls

    # Values

    def _found(self, id: int) -> int:
        """The type of a value, 0 for another id."""
        return self.values.get(id) or self.declared.values.get(id, 0)

    def value(self, inst: Inst, place: int) -> int:
        """The type of the value that a word of an instruction names."""
        id = inst.words[place]
        type_ = self._found(id)
        if not type_ or self.declared.type(type_)[0] == Op.TYPE_VOID:
            if self.is_open:
                return 0
            raise self.fail(inst.at + place, f"id {id} is no value that was computed before")
        return type_

    def shape(self, inst: Inst, place: int) -> Shape:
        shape = self.declared.shape(self.value(inst, place))
        if shape is None:
            raise self.fail(inst.at + place, f"id {inst.words[place]} is no number")
        return shape

    def pointer(self, inst: Inst, place: int) -> tuple[int, int]:
        """(storage class, type after it) of a pointer."""
        found = self.declared.pointee(self.value(inst, place))
        if found is None:
            raise self.fail(inst.at + place, f"id {inst.words[place]} is no pointer")
        return found

    def same(self, inst: Inst, place: int, type_: int) -> None:
        given = self.value(inst, place)
        if given != type_:
            raise self.fail(inst.at + place, f"id {inst.words[place]} has the type {given}, expected {type_}")

    def integers(self, inst: Inst, *places: int) -> None:
        for place in places:
            shape = self.shape(inst, place)
            if shape.kind != "i" or shape.count != 1:
                raise self.fail(inst.at + place, f"id {inst.words[place]} is no integer")

    def scopes(self, inst: Inst, *places: int) -> None:
        """Scopes and semantics are constants."""
        for place in places:
            self.integers(inst, place)
            if inst.words[place] not in self.declared.constants:
                raise self.fail(inst.at + place, f"id {inst.words[place]} is no constant")

    def demand(self, inst: Inst, fits: bool, what: str = "operands or a result of types that it does not take") -> None:
        if not fits:
            raise self.fail(inst.at, f"opcode {inst.op} has {what}")

    # Rules

    def rule(self, inst: Inst) -> None:
        """Checks the operands of one instruction."""
        op = inst.op
        if self.is_open and any(not self._is_known(inst.words[place]) for place in inst.ids):
            return
        mapping = _MAPS.get(op)
        if mapping is not None:
            self._map(inst, mapping, inst.ids)
            return
        found = _RULES.get(op)
        if found is not None:
            found(self, inst)
            return
        if op in _FREE:
            return
        if Op.ATOMIC_LOAD <= op <= Op.ATOMIC_LAST:
            self._atomic(inst)
        elif Op.GROUP_NON_UNIFORM_FIRST <= op <= Op.GROUP_NON_UNIFORM_LAST:
            self._group(inst)
        else:
            for place in inst.ids:
                self.value(inst, place)

    def _is_known(self, id: int) -> bool:
        declared = self.declared
        return bool(self._found(id)) or id in self.labels or id in declared.bodies or id in declared.sets

    def _map(self, inst: Inst, mapping: str, places: Sequence[int]) -> None:
        result = self.declared.shape(inst.type_id)
        kind, _, operands = mapping.partition(" ")
        fits = result is not None and result.kind == kind and len(places) == len(operands)
        widths: dict[str, int] = {}
        for letter, place in zip(operands, places, strict=False):
            if not fits or result is None:
                break
            given = self.shape(inst, place)
            if letter == "=":
                fits = given == result
            elif letter in "sS":
                fits = given.kind == "i" and given.count == 1
            else:
                fits = given.kind == letter and given.count == result.count
                fits = fits and widths.setdefault(letter, given.width) == given.width
        self.demand(inst, fits)

    def _variable(self, inst: Inst) -> None:
        found = self.declared.pointee(inst.type_id)
        self.demand(
            inst, found is not None and found[0] == FUNCTION == inst.words[3], "another storage class than Function"
        )
        assert found is not None
        check_variable(self.declared, inst, found[1])
        if inst.ids:
            self.same(inst, inst.ids[0], found[1])

    def _load(self, inst: Inst) -> None:
        pointee = self.pointer(inst, 3)[1]
        is_sized = self.declared.type(pointee)[0] not in (Op.TYPE_RUNTIME_ARRAY, Op.TYPE_FUNCTION, Op.TYPE_VOID)
        self.demand(inst, pointee == inst.type_id and is_sized, "a result that is not what the pointer points to")

    def _store(self, inst: Inst) -> None:
        storage, pointee = self.pointer(inst, 1)
        self.same(inst, 2, pointee)
        self.demand(
            inst, storage not in (0, Storage.INPUT, Storage.PUSH_CONSTANT), "a pointer to what cannot be written"
        )

    def _copy_memory(self, inst: Inst) -> None:
        self.demand(inst, self.pointer(inst, 1)[1] == self.pointer(inst, 2)[1])

    def _chain(self, inst: Inst) -> None:
        declared = self.declared
        result = declared.pointee(inst.type_id)
        storage, type_ = self.pointer(inst, 3)
        places = list(range(4, len(inst.words)))
        if inst.op in (Op.PTR_ACCESS_CHAIN, Op.IN_BOUNDS_PTR_ACCESS_CHAIN):
            self.integers(inst, *places[:1])
            places = places[1:]
        for place in places:
            self.integers(inst, place)
            number = declared.number(inst.words[place])
            inner = declared.part(type_, number)
            if inner is None:
                raise self.fail(inst.at + place, f"type {type_} has no element {inst.words[place]}")
            type_ = inner
        self.demand(inst, result == (storage, type_), "a result that is no pointer to the element")

    def _length(self, inst: Inst) -> None:
        type_ = self.pointer(inst, 3)[1]
        inner = self.declared.part(type_, inst.words[4]) if self.declared.type(type_)[0] == Op.TYPE_STRUCT else None
        self.demand(inst, inner is not None and self.declared.type(inner)[0] == Op.TYPE_RUNTIME_ARRAY)
        self.demand(inst, self.declared.is_integer(inst.type_id))

    def _call(self, inst: Inst) -> None:
        callee = self.declared.bodies.get(inst.words[3])
        if callee is None:
            raise self.fail(inst.at + 3, f"a call of id {inst.words[3]}, which is no function")
        self.calls.append(inst.words[3])
        given = len(inst.words) - 4
        self.demand(inst, callee.head.type_id == inst.type_id, "another result than the function that it calls")
        self.demand(
            inst, given == len(callee.parameters), f"{given} arguments, the function takes {len(callee.parameters)}"
        )
        for place, parameter in enumerate(callee.parameters, 4):
            self.same(inst, place, parameter.type_id)

    def _ext(self, inst: Inst) -> None:
        name = self.declared.sets.get(inst.words[3])
        if name is None:
            raise self.fail(inst.at + 3, f"id {inst.words[3]} is no set of instructions")
        if name != "GLSL.std.450":
            if not name.startswith(NON_SEMANTIC):
                raise self.fail(inst.at, f"an instruction of the set '{name}', which shaders for compute do not have")
            return
        number, places = inst.words[4], inst.ids[1:]
        mapping = _GLSL.get(number)
        if mapping is not None:
            self._map(inst, mapping, places)
            return
        if number in _PACKED:
            given = [self.declared.shape(self.value(inst, place)) for place in places]
            fits = [*given, self.declared.shape(inst.type_id)] == list(_PACKED[number])
        else:
            fits = self._ext_other(inst, number, places)
        self.demand(inst, fits, f"instruction {number} of GLSL.std.450, or operands, that do not fit")

    def _ext_other(self, inst: Inst, number: int, places: Sequence[int]) -> bool:
        result = self.declared.shape(inst.type_id)
        given = [self.declared.shape(self.value(inst, place)) for place in places]
        floats = [each is not None and each.kind == "f" for each in given]
        fits = True
        if number in (66, 67):
            fits = len(given) == number - 65 and all(floats) and len(set(given)) == 1
            fits = fits and given[0] is not None and result == Shape("f", given[0].width, 1)
        elif number == 68:
            fits = result is not None and result.count == 3 and result.kind == "f" and given == [result, result]
        elif number == 72:
            fits = len(given) == 3 and result is not None and given[:2] == [result, result] and floats[2]
        elif number in (35, 51):
            fits = len(places) == 2 and result is not None and given[0] == result and floats[0]
            fits = fits and self.pointer(inst, places[1])[0] not in (0, Storage.INPUT, Storage.PUSH_CONSTANT)
            inner = self.declared.shape(self.pointer(inst, places[1])[1]) if fits else None
            fits = fits and inner is not None and result is not None and inner.count == result.count
            fits = fits and inner is not None and inner.kind == ("f" if number == 35 else "i")
        elif number in (36, 52):
            members = self.declared.parts(inst.type_id)[1]
            fits = len(places) == 1 and floats[0] and self.declared.type(inst.type_id)[0] == Op.TYPE_STRUCT
            shapes = [self.declared.shape(member) for member in members]
            fits = fits and len(shapes) == 2 and shapes[0] == given[0] and shapes[1] is not None
            fits = fits and shapes[1].kind == ("f" if number == 36 else "i") and shapes[1].count == given[0].count  # type: ignore[union-attr]
        elif number in (33, 34):
            fits = len(places) == 1 and self.declared.type(self.value(inst, places[0]))[0] == Op.TYPE_MATRIX
        else:
            fits = False
        return bool(fits)

    def _select(self, inst: Inst) -> None:
        condition = self.shape(inst, 3)
        result = self.declared.shape(inst.type_id)
        self.same(inst, 4, inst.type_id)
        self.same(inst, 5, inst.type_id)
        self.demand(
            inst,
            condition.kind == "b"
            and (condition.count == 1 or (result is not None and result.count == condition.count)),
        )

    def _bitcast(self, inst: Inst) -> None:
        result, given = self.declared.shape(inst.type_id), self.declared.shape(self.value(inst, 3))
        if result is None or given is None:
            pointers = [self.declared.pointee(inst.type_id), self.declared.pointee(self.value(inst, 3))]
            self.demand(inst, any(pointer is not None for pointer in pointers))
            return
        self.demand(
            inst, "b" not in (result.kind, given.kind) and result.width * result.count == given.width * given.count
        )

    def _extract(self, inst: Inst) -> None:
        type_ = self.value(inst, 3)
        for at in range(4, len(inst.words)):
            inner = self.declared.part(type_, inst.words[at])
            if inner is None:
                raise self.fail(inst.at + at, f"type {type_} has no element {inst.words[at]}")
            type_ = inner
        self.demand(inst, type_ == inst.type_id)

    def _insert(self, inst: Inst) -> None:
        self.same(inst, 4, inst.type_id)
        type_ = inst.type_id
        for at in range(5, len(inst.words)):
            inner = self.declared.part(type_, inst.words[at])
            if inner is None:
                raise self.fail(inst.at + at, f"type {type_} has no element {inst.words[at]}")
            type_ = inner
        self.same(inst, 3, type_)

    def _construct(self, inst: Inst) -> None:
        declared, result = self.declared, self.declared.shape(inst.type_id)
        if result is not None:
            shapes = [self.shape(inst, place) for place in inst.ids]
            fits = all((s.kind, s.width) == (result.kind, result.width) for s in shapes) and result.count > 1
            self.demand(inst, fits and sum(s.count for s in shapes) == result.count)
            return
        count, types = declared.parts(inst.type_id)
        self.demand(inst, bool(types) and (count is None or count == len(inst.ids)))
        is_struct = declared.type(inst.type_id)[0] == Op.TYPE_STRUCT
        for number, place in enumerate(inst.ids):
            self.same(inst, place, types[number if is_struct else 0])

    def _shuffle(self, inst: Inst) -> None:
        result, a, b = self.declared.shape(inst.type_id), self.shape(inst, 3), self.shape(inst, 4)
        chosen = inst.words[5:]
        self.demand(inst, result is not None and result.count == len(chosen) > 1 and a.count > 1 and b.count > 1)
        assert result is not None
        self.demand(inst, {(s.kind, s.width) for s in (result, a, b)} == {(result.kind, result.width)})
        self.demand(
            inst, all(c < a.count + b.count or c == 0xFFFFFFFF for c in chosen), "components that are not there"
        )

    def _element(self, inst: Inst) -> None:
        """VectorExtractDynamic and VectorInsertDynamic."""
        self.shape(inst, 3)
        part = self.declared.part(self.value(inst, 3), None)
        if inst.op == 77:
            self.demand(inst, part == inst.type_id and part is not None)
            self.integers(inst, 4)
        else:
            self.demand(inst, self.value(inst, 3) == inst.type_id and part is not None)
            self.same(inst, 4, part or 0)
            self.integers(inst, 5)

    def _copy(self, inst: Inst) -> None:
        self.same(inst, 3, inst.type_id)

    def _product(self, inst: Inst) -> None:
        """Products of vectors and matrices."""
        types = [self.value(inst, 3), self.value(inst, 4)]
        rows, columns = zip(*(self._sides(type_) for type_ in types), strict=True)
        result = self._sides(inst.type_id)
        kinds = {self._scalar(type_) for type_ in (*types, inst.type_id)}
        shape = {
            142: (rows[0], 1, (1, 1)), 143: (rows[0], columns[0], (1, 1)), 144: (columns[1], 1, (rows[1], rows[0])),
            145: (rows[0], 1, (columns[0], rows[1])), 146: (rows[0], columns[1], (columns[0], rows[1])),
            147: (rows[0], rows[1], (1, 1)), 148: (1, 1, (rows[0], rows[1])),
        }[inst.op]  # fmt: skip
        ops = [self.declared.type(type_)[0] == Op.TYPE_MATRIX for type_ in types]
        matrices = {142: [False, False], 143: [True, False], 144: [False, True], 145: [True, False], 146: [True, True],
                    147: [False, False], 148: [False, False]}[inst.op]  # fmt: skip
        scalar = inst.op not in (142, 143) or (rows[1], columns[1]) == (1, 1)
        fits = kinds != {None} and len(kinds) == 1 and ops == matrices and scalar and shape[2][0] == shape[2][1]
        self.demand(inst, fits and result == shape[:2])

    def _sides(self, type_: int) -> tuple[int, int]:
        """(rows, columns) of a matrix, vector or scalar."""
        op, words = self.declared.type(type_)
        inner = self.declared.shape(words[0]) if op == Op.TYPE_MATRIX else None
        if inner is not None:
            return inner.count, words[1]
        shape = self.declared.shape(type_)
        return (shape.count if shape is not None else 0), 1

    def _scalar(self, type_: int) -> tuple[str, int] | None:
        op, words = self.declared.type(type_)
        shape = self.declared.shape(words[0] if op == Op.TYPE_MATRIX else type_)
        return (shape.kind, shape.width) if shape is not None and shape.kind == "f" else None

    def _transpose(self, inst: Inst) -> None:
        rows, columns = self._sides(self.value(inst, 3))
        self.demand(inst, self._sides(inst.type_id) == (columns, rows) and columns > 1)

    def _carry(self, inst: Inst) -> None:
        given = self.value(inst, 3)
        self.same(inst, 4, given)
        members = self.declared.parts(inst.type_id)[1]
        is_struct = self.declared.type(inst.type_id)[0] == Op.TYPE_STRUCT
        self.demand(inst, is_struct and list(members) == [given, given] and self.shape(inst, 3).kind == "i")

    def _any(self, inst: Inst) -> None:
        self.demand(inst, self.declared.shape(inst.type_id) == Shape("b", 0, 1) and self.shape(inst, 3).kind == "b")

    def _barrier(self, inst: Inst) -> None:
        self.scopes(inst, *inst.ids)

    def _phi(self, inst: Inst) -> None:
        self.later += [(inst.at + place, inst.words[place], inst.type_id) for place in range(3, len(inst.words), 2)]

    def _branch(self, inst: Inst) -> None:
        self.demand(inst, self.shape(inst, 1) == Shape("b", 0, 1), "a condition that is no bool")
        self.demand(inst, len(inst.words) in (4, 6), f"{len(inst.words)} words")

    def _switch(self, inst: Inst) -> None:
        self.integers(inst, 1)
        size = 1 + (2 if self.shape(inst, 1).width > 32 else 1)
        cases = [tuple(inst.words[at : at + size - 1]) for at in range(3, len(inst.words), size)]
        self.demand(inst, len(set(cases)) == len(cases), "a case twice")

    def _return(self, inst: Inst) -> None:
        result = self.body.head.type_id
        if inst.op == RETURN:
            self.demand(inst, self.declared.type(result)[0] == Op.TYPE_VOID, "no value, and the function returns one")
        else:
            self.same(inst, 1, result)

    def _atomic(self, inst: Inst) -> None:
        is_store = inst.op == Op.ATOMIC_STORE
        start = 1 if is_store else 3
        storage, pointee = self.pointer(inst, start)
        shape = self.declared.shape(pointee)
        self.demand(inst, shape is not None and shape.kind in "if" and shape.count == 1 and shape.width >= 16)
        self.demand(
            inst, storage not in (0, Storage.INPUT, Storage.PUSH_CONSTANT), "a pointer to what cannot be written"
        )
        self.demand(inst, is_store or inst.type_id == pointee)
        is_exchange = inst.op in (230, 231)
        rest = list(range(start + 1, len(inst.words)))
        scopes = rest[: 3 if is_exchange else 2]
        self.scopes(inst, *scopes)
        for place in rest[len(scopes) :]:
            self.same(inst, place, pointee)
        is_integer = inst.op not in (Op.ATOMIC_LOAD, Op.ATOMIC_STORE, 229)
        self.demand(inst, not is_integer or (shape is not None and shape.kind == "i"))

    def _group(self, inst: Inst) -> None:
        self.scopes(inst, 3)
        for place in inst.ids[1:]:
            self.value(inst, place)
        result = self.declared.shape(inst.type_id)
        self.demand(inst, result is not None)
        assert result is not None
        if inst.op in (333, 334, 335, 336, 340):
            self.demand(inst, result == Shape("b", 0, 1))
        elif inst.op in (337, 338, 345, 346, 347, 348, 365, 366):
            self.same(inst, 4, inst.type_id)
            if len(inst.ids) > 2:
                self.integers(inst, 5)
        elif inst.op in (339, 342, 343, 344, 341):
            self.demand(inst, result.kind == ("b" if inst.op == 341 else "i"))
            place = 5 if inst.op == 342 else 4
            wanted = Shape("b", 0, 1) if inst.op == 339 else Shape("i", 32, 4)
            self.demand(inst, self.shape(inst, place) == wanted)
        else:
            self.same(inst, 5, inst.type_id)
            kinds = {349: "i", 350: "f", 351: "i", 352: "f", 353: "i", 354: "i", 355: "f", 356: "i", 357: "i", 358: "f",
                     359: "i", 360: "i", 361: "i", 362: "b", 363: "b", 364: "b"}  # fmt: skip
            self.demand(inst, result.kind == kinds.get(inst.op, result.kind))
            self.demand(
                inst, inst.words[4] <= 3 and (inst.words[4] != 3 or len(inst.words) > 6), "another operation of groups"
            )
            if len(inst.ids) > 2:
                self.scopes(inst, 6)


_RULES: dict[int, Callable[[_Code, Inst], None]] = {
    Op.VARIABLE: _Code._variable, Op.LOAD: _Code._load, Op.STORE: _Code._store, Op.COPY_MEMORY: _Code._copy_memory,
    **dict.fromkeys((65, 66, 67, 70), _Code._chain), Op.ARRAY_LENGTH: _Code._length, Op.FUNCTION_CALL: _Code._call,
    EXT_INST: _Code._ext, 169: _Code._select, 124: _Code._bitcast, 81: _Code._extract, 82: _Code._insert,
    80: _Code._construct, 79: _Code._shuffle, 77: _Code._element, 78: _Code._element, 83: _Code._copy,
    **dict.fromkeys(range(142, 149), _Code._product), 84: _Code._transpose,
    **dict.fromkeys((149, 150, 151, 152), _Code._carry), 154: _Code._any, 155: _Code._any,
    224: _Code._barrier, 225: _Code._barrier, PHI: _Code._phi, BRANCH_CONDITIONAL: _Code._branch,
    SWITCH: _Code._switch, RETURN: _Code._return, RETURN_VALUE: _Code._return,
}  # fmt: skip
