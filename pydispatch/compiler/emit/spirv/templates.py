"""Cache of definitions as SPIR-V words: emitted once, then copied into modules with renumbered ids.

A definition is up to a few hundred operations. The words of one are literals, types and constants of the module,
operands, and results of its own; a copy looks all of them up in one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.kernels import Kernels
from pydispatch.compiler.emit.spirv.module import Id, Module
from pydispatch.compiler.emit.spirv.words import OP
from pydispatch.compiler.kernel_ir.scan import ops_by_name
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel

_LITERAL_POSITION = {
    OP["ExtInst"]: 4, OP["CompositeExtract"]: 4, OP["SelectionMerge"]: 2, OP["LoopMerge"]: 3, OP["Decorate"]: 2
}  # fmt: skip
"""Opcode -> position of the only word of an instruction, besides the first, that is a literal instead of an id.

Definitions have no other instructions with literals.
"""

Make = Callable[[Module, list[Id]], Id]
"""Declares a type, constant or table in a module, from the ids there of its parts, and returns its id.

The parts are the declarations that it refers to, such as the element type of an array.
"""


class Template:
    """Function in SPIR-V that is emitted once, and whose words are copied into modules with renumbered ids.

    `definitions.py` creates one for each function that computes an operation such as exp, and caches it. `copy` is then
    called for each such operation. It looks up every word of the copy in one table, by positions recorded before.

    Of the instruction `%r = OpFMul %float %x %two`, the first word (its length and opcode) is a literal, which all
    copies share; %float and %two are declared outside functions, and have other ids in another module; %x is an
    operand; %r is an id of the function's own, which is new in each copy.

    Args:
        function: The function in kernel IR, whose parameters and results are scalars.
        tables: Constant tables (`memref.global`) that the function reads, by symbol.
        rows: Lowering of each operation, by operation name.
        index_width: Bits of an index.
    """

    def __init__(
        self, function: FuncOp, tables: dict[str, Operation], rows: Mapping[str, Lowering], index_width: int
    ) -> None:
        """Emit the function in a module of its own, and record how `copy` computes the words of each copy.

        `copy` builds a table of words, in this order: literals; ids of declarations outside functions (`outer`);
        operands; the label of the block that the copy begins in; new ids for the function's own. The ids are those of
        the module that is copied into. For each word of the function, its position in such a table is recorded here.
        """
        # The function in a module of its own: `code` are its instructions.
        kernels = Kernels(ModuleOp([]), rows, constant_keys=())
        kernels.memref_globals = tables
        f = FunctionEmitter(kernels, Kernel(function, size=(1, 1, 1), ops=ops_by_name(function)))
        f.index_width = index_width
        module, code, arguments = f.m, f.code, function.body.blocks[0].args
        operands = [module.id() for _ in arguments]
        f.values.update(zip(arguments, operands, strict=True))
        first_label, results = code.label, list[Id]()

        def leave(end: Operation) -> None:
            """Record the registers that the function returns."""
            results.extend(f.get(operand) for operand in end.operands)

        f.region(function.body, leave)
        self._iterations = f.iterations.total  # of the function's loops; copy() adds them to those of the entry point
        # The contents of the table. A word that is neither literal, operand nor first label is an id: either `outer`
        # records it as declared outside functions, or it is the function's own.
        outer = _Declarations(module)
        literals: dict[int, int] = {}  # literal -> its position in the table
        own_ids: dict[int, int] = {}  # id that the function allocates -> its position among these ids
        for word, is_literal in _words([*code.lines, *module.decorations]):
            if is_literal:
                literals.setdefault(word, len(literals))
            elif word not in operands and word != first_label:
                is_declared_outside = outer.record(word)
                if not is_declared_outside:
                    own_ids.setdefault(word, len(own_ids))
        for result in results:
            outer.record(result)  # does nothing unless it is a constant, which is declared outside the function
        ids = [*outer.ids, *operands, first_label, *own_ids]
        index_of_id = {id_: len(literals) + index for index, id_ in enumerate(ids)}
        # What `copy` builds its table from.
        self._literals, self._own_count, self._outer = list(literals), len(own_ids), outer.declarations
        # Functions that look up the words of a copy in its table.
        self._lines = _table_getter(code.lines, literals, index_of_id)
        self._decorations = _table_getter(module.decorations, literals, index_of_id)
        # Positions in the table.
        self._results = [index_of_id[result] for result in results]
        self._last_label = index_of_id[code.label]  # of the block that is open at the end

    def copy(self, emitter: FunctionEmitter, operands: list[Id]) -> list[Id]:
        """Append the function's body to an entry point, and return the ids of its results.

        The body continues the block that is open, and leaves its last block open.

        operands: ids of the values of the function's parameters.
        """
        # Declare the types, constants and tables that the function refers to, unless the module has them already, and
        # collect their ids. `make` declares one from the ids of the earlier declarations at `positions`.
        module, outer = emitter.m, list[Id]()
        for make, positions in self._outer:
            outer.append(make(module, [outer[position] for position in positions]))
        own_ids = range(module.bound, module.bound + self._own_count)
        # The order of __init__: literals, declarations outside, operands, the label of the first block, own ids.
        table = [*self._literals, *outer, *operands, emitter.code.label, *own_ids]
        module.bound += self._own_count
        # Without the last two words: each itemgetter has two extra positions so that it always returns a tuple.
        emitter.code.lines += self._lines(table)[:-2]
        module.decorations += self._decorations(table)[:-2]
        emitter.code.label = Id(table[self._last_label])
        emitter.iterations.add(self._iterations)  # of the function's loops
        return [Id(table[result]) for result in self._results]


def _words(code: list[int]) -> Iterator[tuple[int, bool]]:
    """Yield each word of instructions, and whether it is a literal instead of an id; first words count as literals."""
    position = 0
    while position < len(code):
        first_word = code[position]  # the number of words in the high half, the opcode in the low one
        count, literal_position = first_word >> 16, _LITERAL_POSITION.get(first_word & 0xFFFF)
        for index in range(count):
            yield code[position + index], index == 0 or index == literal_position
        position += count


def _table_getter(
    words: list[int], literals: dict[int, int], index_of_id: dict[int, int]
) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """Return a function that computes the words of a copy of the template from the table that `Template.copy` builds.

    The table has the literals of the template and the ids that the copy uses. The function returns the words of the
    copy and two more words, which the caller drops.

    Args:
        words: The words of the template.
        literals: Literal -> its position in the table.
        index_of_id: Id -> its position in the table.
    """
    positions = [literals[word] if is_literal else index_of_id[word] for word, is_literal in _words(words)]
    # An itemgetter of no item is an error, and that of one item returns no tuple: two more positions prevent both.
    return itemgetter(*positions, 0, 0)


def _opcode(words: Sequence[int]) -> int:
    """Return the opcode of an instruction, which is in the low half of its first word."""
    return words[0] & 0xFFFF


def _declared_id(words: Sequence[int]) -> int:
    """Return the id that an instruction outside functions declares.

    A type has it in word 1. Constants and variables, whose opcodes are larger, have it in word 2, after their type.
    """
    return words[1 if _opcode(words) < OP["ConstantTrue"] else 2]


class _Declarations:
    """Types, constants and tables that a template refers to, with the calls that recreate them in another module.

    Args:
        module: The module that declares them.

    Attributes:
        ids: Ids of the declarations, in the order of `declarations`.
        declarations: For each, the call that declares it from a module and the ids of its parts there, and the
            positions of these parts in `ids`.
    """

    def __init__(self, module: Module) -> None:
        """Index the declarations of `module` by id, so that those that a template refers to can be recorded."""
        # id -> key of its declaration: (name of the instruction, operands), that of a constant table for its variable,
        # or "glsl" for the instruction set GLSL.std.450
        self._keys = module.keys()
        self._globals: dict[int, list[int]] = {}  # id -> words of the instruction that declares it
        start = 0  # of an instruction
        while start < len(module.globals):
            length = module.globals[start] >> 16  # the first word has it in its high half
            words = module.globals[start : start + length]
            self._globals[_declared_id(words)] = words
            start += length
        # Recorded so far: ids, and for each the function that declares it in another module, with the positions in
        # `ids` of the declarations that it refers to.
        self.ids: list[int] = []
        self.declarations: list[tuple[Make, list[int]]] = []

    def record(self, id: int) -> bool:
        """Record the declaration of an id, after the declarations that it needs, if it is outside functions.

        Return whether the declaration is outside functions: it is a type, a constant or constant table of the module,
        or the import of GLSL's functions ("glsl"). The constant 2.0 is recorded as the call
        `m.constant(parts[0], 0x40000000)`, where m is the module that is copied into, and parts[0] is the id there of
        its type, float, which is recorded first.
        """
        if id in self.ids:
            return True
        if self._keys.get(id) == "glsl":
            return self._add(id, lambda m, parts: m.glsl(), parts=())
        words = self._globals.get(id)
        if words is None:
            return False
        key: Any = self._keys.get(id, ("", ()))  # of a type, (name of the instruction, operands), see `Module.type`
        code = _opcode(words)
        # Each declaration is recorded with a function that declares it in the module `m` from the ids of its `parts`.
        # Words after the first. Constant: type, id, value. TypeInt and TypeFloat: id, width.
        if code == OP["Variable"]:  # outside functions, the variables of a definition are its constant tables
            return self._record_table(id, key, words)
        if code in (OP["TypeInt"], OP["TypeFloat"]):
            width = words[2]
            return self._add(id, lambda m, parts: (m.int if code == OP["TypeInt"] else m.float)(width), parts=())
        if code == OP["Constant"]:
            type_, value_words = words[1], words[3:]
            return self._add(id, lambda m, parts: m.constant(parts[0], *value_words), parts=[type_])
        if code in (OP["ConstantTrue"], OP["ConstantFalse"]):
            return self._add(id, lambda m, parts: m.truth(code == OP["ConstantTrue"]), parts=())
        name, operands = key
        if name == "TypePointer":  # its first operand is a storage class, a literal; other types have ids only
            return self._add(id, lambda m, parts: m.type(name, operands[0], *parts), operands[1:])
        return self._add(id, lambda m, parts: m.type(name, *parts), operands)

    def _record_table(self, id: int, key: Any, variable: Sequence[int]) -> bool:
        """Record a constant table. Return True, which `record` returns: the id is declared outside functions.

        A table is a variable with an initializer, and is declared again from the values of its elements:

            %values = OpConstantComposite %array %first %second
            %id = OpVariable %pointer Private %values

        Args:
            id: Id of the variable that holds the table.
            key: Key by which a module finds the table if it has declared it already.
            variable: Words of the variable: after the first, its type, id, storage class and initializer.
        """
        composite = self._globals[variable[4]]  # the words of a ConstantComposite
        _, array, _, *elements = composite  # after the first word: its type, its id, the ids of its elements
        element = self._globals[elements[0]][1]  # the type of the first element, which is that of all
        words_of_elements = [self._globals[id_][3:] for id_ in elements]  # the values; one of 64 bits has two words

        def table(module: Module, parts: list[Id]) -> Id:
            """Declare the same table in a module that is copied into.

            parts: the ids there of the types of the array and of an element.
            """
            array_type, element_type = parts
            return module.constant_table(
                key, array_type, lambda: [module.constant(element_type, *words) for words in words_of_elements]
            )

        return self._add(id, table, [array, element])

    def _add(self, id: int, make: Make, parts: Sequence[int]) -> bool:
        """Record that `make` declares `id` in a module that the template is copied into, and return True.

        The ids `parts`, which the declaration refers to, are recorded first: each copy declares them before, and passes
        their new ids to `make`. The caller returns the True in turn: it states that `id` is declared outside functions.
        """
        for part in parts:
            self.record(part)
        # A copy has a list of new ids in the order of `self.ids`: a part is stored as its position there.
        self.declarations.append((make, [self.ids.index(part) for part in parts]))
        self.ids.append(id)
        return True
