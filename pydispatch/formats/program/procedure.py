"""Builds the procedures of a host program: steps over slots that hold whole values (docs/program.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pydispatch.formats.program.function import ProgramFunction
from pydispatch.formats.program.opcodes import NONE
from pydispatch.formats.program.references import References
from pydispatch.formats.program.steps import LAST_USE, CheckKind, Step


@dataclass(frozen=True)
class Slot:
    """Type of a slot, a variable of a procedure that holds a whole tensor or a scalar.

    Attributes:
        dtype: Word that encodes the element type.
        rank: Number of dimensions of a tensor; None for a scalar.
    """

    dtype: int
    rank: int | None


@dataclass(frozen=True)
class Port:
    """Argument or result of a procedure that is being built.

    Attributes:
        dtype: Word that encodes the element type.
        dims: Sizes, -1 for a dynamic one; None for a scalar.
        name: Name; "" for none.
        slot: Number of the slot that the procedure receives an argument in; 0, unused, for a result.
    """

    dtype: int
    dims: tuple[int, ...] | None
    name: str = ""
    slot: int = 0


@dataclass(frozen=True)
class Global:
    """Global of a host program that is being built: a variable of the loaded program.

    Attributes:
        name: Name.
        dtype: Word that encodes the element type.
        dims: Sizes, -1 for a dynamic one; None for a scalar.
        constant: Number of the constant with the initial tensor; NONE for a scalar or an uninitialized tensor.
        value: Bits of the initial value of a scalar, as an unsigned 64-bit number; 0 for a tensor.
        is_mutable: Whether the program may store into it.
    """

    name: str
    dtype: int
    dims: tuple[int, ...] | None
    constant: int = NONE
    value: int = 0
    is_mutable: bool = True


@dataclass(frozen=True)
class Check:
    """Assertion on the values that an `observe` step passes to it.

    Attributes:
        kind: Assertion, such as the equality of two tensors.
        location: Source location for error messages.
        name: Name of the check; "" for none.
        atol, rtol: Tolerances; the check passes if |a - b| <= atol + rtol * |b|. The kind EXPECT_CLOSE stores two other
            numbers in them: atol is the largest permitted distance in units of the last place, rtol the smallest.
    """

    kind: CheckKind
    location: str
    name: str = ""
    atol: float = 0.0
    rtol: float = 0.0


@dataclass(frozen=True)
class Parameter:
    """Constant that is supplied when the program is loaded, not stored in the artifact.

    Attributes:
        scope: Namespace of `key`, "" for the unnamed one. Loading takes one file of parameters for each scope.
        key: Name of the parameter in the scope.
        dtype: Word that encodes the element type.
        shape: Sizes, all static.
    """

    scope: str
    key: str
    dtype: int
    shape: tuple[int, ...]


@dataclass(eq=False)
class Label:
    """Jump target.

    Attributes:
        step: Index of the step that a jump continues at; -1 until `Procedure.bind` sets it.
    """

    step: int = -1


class Procedure:
    """Builder of one procedure of a host program: steps with jumps, over slots that hold whole values.

    `Program.add_procedure` creates it. Arguments and results are added first, then the steps in order: each builder
    method appends a step. Its parameter `last_uses` lists the slots that the step reads for the last time. Jumps go to
    labels: `label` creates one, and `bind` binds it to the next step.

    Attributes:
        program: Program under construction, which interns strings.
        name: Name of the procedure.
        signature: Text that describes its arguments and results, for people.
        public: Whether callers of the program may call it.
        arguments: Arguments in order.
        results: Results in order.
        slots: Types of the slots, which steps refer to by number.
        pool: 32-bit words of variable-length operands, such as lists of slots; steps have the index of the first one.
        steps: Tuples (`Step`, four operands). Functions and labels are replaced by their numbers during the encoding.
    """

    def __init__(self, program: References, name: str, signature: str = "", public: bool = True) -> None:
        """Create a procedure without slots and steps. For the parameters, see the attributes of the class."""
        self.program = program
        self.name, self.signature, self.public = name, signature, public
        self.arguments: list[Port] = []
        self.results: list[Port] = []
        self.slots: list[Slot] = []
        self.pool: list[int] = []
        self.steps: list[tuple[int | Label | ProgramFunction, ...]] = []

    # -- slots

    def slot(self, dtype: int, rank: int | None) -> int:
        """Add a slot for tensors of `rank` dimensions, or for scalars if `rank` is None, and return its number."""
        self.slots.append(Slot(dtype, rank))
        return len(self.slots) - 1

    def add_argument(self, dtype: int, dims: tuple[int, ...] | None, name: str = "") -> int:
        """Add an argument and return its slot. `dims` are the sizes, -1 for a dynamic one; None for a scalar."""
        slot = self.slot(dtype, None if dims is None else len(dims))
        self.arguments.append(Port(dtype, dims, name, slot))
        return slot

    def add_result(self, dtype: int, dims: tuple[int, ...] | None, name: str = "") -> None:
        """Add a result to the signature; only the number of its dimensions is used, not their sizes."""
        self.results.append(Port(dtype, dims, name))

    # -- steps

    def run(
        self, function: ProgramFunction, inputs: Sequence[int], outputs: Sequence[int], last_uses: Collection[int] = ()
    ) -> None:
        """Append a call of a function.

        Args:
            function: The function.
            inputs: Slots of its arguments.
            outputs: Slots of its results; NONE for an unused result.
            last_uses: Inputs that no later step reads.
        """
        self._step(Step.RUN, function, self._push([*self._with_last_use(inputs, last_uses), *outputs]))

    def move(self, pairs: Sequence[tuple[int, int]], last_uses: Collection[int] = ()) -> None:
        """Append a parallel assignment of (target, source) slots: all sources are read before any target is written.

        `last_uses` lists the sources that are read for the last time.
        """
        sources = self._with_last_use([source for _, source in pairs], last_uses)
        words = [word for (target, _), source in zip(pairs, sources, strict=True) for word in (target, source)]
        self._step(Step.MOVE, self._push([len(pairs), *words]))

    def label(self) -> Label:
        """Return a new jump target, which `bind` places."""
        return Label()

    def bind(self, label: Label) -> Label:
        """Bind a label to the next step, and return the label."""
        label.step = len(self.steps)
        return label

    def jump(self, label: Label) -> None:
        """Append a jump to a label, which may be bound later."""
        self._step(Step.JUMP, label)

    def branch(self, condition: int, then: Label, other: Label) -> None:
        """Append a branch to `then` if the i1 scalar slot `condition` is true, else to `other`."""
        self._step(Step.BRANCH, condition, then, other)

    def read(self, target: int, tensor: int, indices: Sequence[int], location: str = "") -> None:
        """Append a step that loads one element of a tensor into the scalar slot `target`.

        `indices` are scalar slots. `location` is the source location for the error of an index that is out of bounds.
        """
        text = self._push(self.program.string(location)) if location else NONE
        self._step(Step.READ, target, tensor, self._push([len(indices), *indices]), text)

    def load(self, target: int, source: int) -> None:
        """Append a step that loads the global number `source` into a slot."""
        self._step(Step.LOAD, target, source)

    def store(self, target: int, source: int, last_uses: Collection[int] = ()) -> None:
        """Append a step that stores a slot into the global number `target`.

        If `last_uses` contains the slot, no later step reads it, and this step empties it.
        """
        self._step(Step.STORE, target, *self._with_last_use([source], last_uses))

    def observe(self, check: int, slots: Sequence[int]) -> None:
        """Append a step that passes the values of slots to the assertion number `check` of the program."""
        self._step(Step.OBSERVE, check, self._push([len(slots), *slots]))

    def drop(self, slot: int) -> None:
        """Append a step that releases the value of a slot, which no later step reads."""
        self._step(Step.DROP, slot)

    def ret(self, slots: Sequence[int], last_uses: Collection[int] | None = None) -> None:
        """Append a return of `slots`. `last_uses` lists those that are read for the last time; None means all."""
        self._step(Step.RETURN, self._push(self._with_last_use(slots, slots if last_uses is None else last_uses)))

    def constant(self, target: int, constant: int, dims: Sequence[int]) -> None:
        """Append a step that assigns the constant number `constant`, of sizes `dims`, to the tensor slot `target`."""
        self._step(Step.CONSTANT, target, constant, self._push(_sizes(dims)))

    def scalar(self, target: int, value: int) -> None:
        """Append a step that sets a scalar slot to a constant, encoded as in `ProgramFunction.constant`."""
        value &= (1 << 64) - 1
        self._step(Step.SCALAR, target, value & 0xFFFFFFFF, value >> 32)

    def dim(self, target: int, tensor: int, axis: int) -> None:
        """Append a step that stores the size of a tensor's dimension `axis` in the scalar slot `target`."""
        self._step(Step.DIM, target, tensor, axis)

    def view(
        self, target: int, source: int, dims: Sequence[int], offset: int = NONE, last_uses: Collection[int] = ()
    ) -> None:
        """Append a step that assigns a view of the bytes of `source`, with another shape, to the slot `target`.

        `dims` and `offset` are scalar slots, stored in the pool; the offset is in bytes, NONE for 0. `last_uses` lists
        `source` if no later step reads it: then `source` gets the flag LAST_USE, and the step empties the slot.
        """
        self._step(Step.VIEW, target, *self._with_last_use([source], last_uses), self._push([offset, *dims]))

    def save(self, target: int, source: int, positions: int, saved: int, last_uses: Collection[int] = ()) -> None:
        """Append a step that prepares a tensor for later steps that overwrite some of its rows in place.

        All four slots hold tensors.

        Args:
            target: Slot that receives the tensor to update: it has the value of `source`, in the same memory if
                possible, else in a copy.
            source: Slot of the tensor.
            positions: Slot with the numbers of the rows that may be overwritten, i64; a negative number is ignored.
            saved: Slot with the current elements of these rows, which restore them if the call fails.
            last_uses: Those of the last three slots that no later step reads.
        """
        source, positions, saved = self._with_last_use([source, positions, saved], last_uses)
        self._step(Step.SAVE, target, source, self._push([positions, saved]))

    def _step(self, step: Step, *operands: int | Label | ProgramFunction) -> None:
        """Append a step; operands that it does not have are 0."""
        self.steps.append((step, *operands, *(0,) * (4 - len(operands))))

    def _push(self, words: Iterable[int]) -> int:
        """Append words to the pool, and return the position of the first one."""
        start = len(self.pool)
        self.pool += words
        return start

    def _with_last_use(self, slots: Sequence[int], last_uses: Collection[int]) -> list[int]:
        """Return the slots, with the flag LAST_USE on the final occurrence of each slot in `last_uses`.

        A read with the flag empties the slot, so earlier occurrences must not have it.
        """
        words: list[int] = []
        for i, slot in enumerate(slots):
            words.append(slot | LAST_USE if slot in last_uses and slot not in slots[i + 1 :] else slot)
        return words


def _sizes(dims: Iterable[int]) -> list[int]:
    """Return two words, low and high, for each size; a dynamic size is -1 in two's complement."""
    return [half for size in dims for half in (size & 0xFFFFFFFF, size >> 32 & 0xFFFFFFFF)]
