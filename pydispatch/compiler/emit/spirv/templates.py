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
        emitter, inputs, results = _emitted(function, tables, rows, index_width)
        code, module = emitter.code, emitter.m
        outer, literals, own_ids = _Declarations(module), dict[int, int](), dict[int, int]()  # word -> its index
        # A word that is neither literal nor input is an id: it is declared outside functions, or the function's own.
        for word, is_literal in _words([*code.lines, *module.decorations]):
            if is_literal:
                literals.setdefault(word, len(literals))
            elif word not in inputs and not outer.record(word):
                own_ids.setdefault(word, len(own_ids))
        for result in results:
            outer.record(result)  # does nothing unless it is a constant, which is declared outside the function
        ids = [*outer.ids, *inputs, *own_ids]
        index_of_id = {id_: len(literals) + index for index, id_ in enumerate(ids)}
        # What `copy` builds its table from.
        self._literals, self._own_count, self._outer = list(literals), len(own_ids), outer.declarations
        self._iterations = emitter.iterations.total  # of the function's loops
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


def _emitted(
    function: FuncOp, tables: dict[str, Operation], rows: Mapping[str, Lowering], index_width: int
) -> tuple[FunctionEmitter, list[Id], list[Id]]:
    """Emit the function of a template in a module of its own; the arguments are those of `Template`.

    Returns:
        The emitter, the inputs (ids of the parameters, then the label of the first block), and the ids of the results.
    """
    kernels = Kernels(ModuleOp([]), rows, constant_keys=())
    kernels.memref_globals = tables
    emitter = FunctionEmitter(kernels, Kernel(function, size=(1, 1, 1), ops=ops_by_name(function)))
    emitter.index_width = index_width
    arguments = function.body.blocks[0].args
    operands = [emitter.m.id() for _ in arguments]
    emitter.values.update(zip(arguments, operands, strict=True))
    inputs = [*operands, emitter.code.label]
    returned = emitter.region(function.body).operands
    return emitter, inputs, [emitter.get(operand) for operand in returned]


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

        Return whether it is: a type, a constant or constant table of the module, or the import of GLSL's functions.
        """
        if id in self.ids:
            return True
        declaration = self._declaration(id)
        if declaration is None:
            return False
        make, parts = declaration
        for part in parts:
            self.record(part)
        # A copy has a list of new ids in the order of `self.ids`: a part is stored as its position there.
        self.declarations.append((make, [self.ids.index(part) for part in parts]))
        self.ids.append(id)
        return True

    def _declaration(self, id: int) -> tuple[Make, Sequence[int]] | None:
        """Return the function that declares an id in another module, and the ids of its parts; None inside functions.

        For the constant 2.0, the function is `m.constant(parts[0], 0x40000000)`, where m is the module that is copied
        into, and parts[0] the id there of its one part, the type float.
        """
        key: Any = self._keys.get(id, ("", ()))  # of a type, (name of the instruction, operands), see `Module.type`
        if key == "glsl":
            return (lambda m, parts: m.glsl()), ()
        words = self._globals.get(id)
        if words is None:
            return None
        code = _opcode(words)
        # Words after the first. Constant: type, id, value. TypeInt and TypeFloat: id, width.
        if code == OP["Variable"]:  # outside functions, the variables of a definition are its constant tables
            return self._table(key, words)
        if code == OP["TypeInt"]:
            return (lambda m, parts: m.int(words[2])), ()
        if code == OP["TypeFloat"]:
            return (lambda m, parts: m.float(words[2])), ()
        if code == OP["Constant"]:
            return (lambda m, parts: m.constant(parts[0], *words[3:])), [words[1]]
        if code in (OP["ConstantTrue"], OP["ConstantFalse"]):
            return (lambda m, parts: m.truth(code == OP["ConstantTrue"])), ()
        name, operands = key
        if name == "TypePointer":  # its first operand is a storage class, a literal; other types have ids only
            return (lambda m, parts: m.type(name, operands[0], *parts)), operands[1:]
        return (lambda m, parts: m.type(name, *parts)), operands

    def _table(self, key: Any, variable: Sequence[int]) -> tuple[Make, Sequence[int]]:
        """Return the function that declares a constant table in another module, and the ids of its parts.

        A table is a variable with an initializer, and is declared again from the values of its elements:

            %values = OpConstantComposite %array %first %second
            %id = OpVariable %pointer Private %values

        Args:
            key: Key by which a module finds the table if it has declared it already.
            variable: Words of the variable: after the first, its type, id, storage class and initializer.
        """
        composite = self._globals[variable[4]]  # the words of a ConstantComposite
        _, array, _, *elements = composite  # after the first word: its type, its id, the ids of its elements
        element = self._globals[elements[0]][1]  # the type of the first element, which is that of all
        words_of_elements = [self._globals[id_][3:] for id_ in elements]  # the values; one of 64 bits has two words

        def table(module: Module, parts: list[Id]) -> Id:
            """Declare the table in a module; `parts` are the ids there of the types of the array and of an element."""
            array_type, element_type = parts
            return module.constant_table(
                key, array_type, lambda: [module.constant(element_type, *words) for words in words_of_elements]
            )

        return table, [array, element]
