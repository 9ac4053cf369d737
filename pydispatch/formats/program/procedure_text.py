"""Prints the procedures of a host program for people."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.program.commands import words_of
from pydispatch.formats.program.layout import (
    IS_PUBLIC,
    FunctionRecord,
    ProcedureRecord,
    SlotRecord,
    StepRecord,
    Table,
    ValueRecord,
    join_words,
)
from pydispatch.formats.program.opcodes import NONE, dtype_name
from pydispatch.formats.program.records import Records, shape_text, signed, sizes_of
from pydispatch.formats.program.steps import LAST_USE, Step


class ProcedureText:
    """Printer of one procedure, by `render`. An offset outside of the program raises ArtifactError.

    Attributes:
        program: Tables of the program.
        functions: Names of its functions, by number.
        pool: Words to which the steps of the procedure refer by position.
    """

    def __init__(self, program: Records, functions: Sequence[str]) -> None:
        """Create a printer. The pool is empty until `render` reads that of its procedure."""
        self.program, self.functions = program, functions
        self.pool: list[int] = []

    def pool_words(self, at: int, count: int) -> list[int]:
        """Return `count` words at an offset of the pool."""
        return words_of(self.pool, at, count)

    def counted_words(self, at: int, width: int = 1) -> list[int]:
        """Return the words of a list of records at an offset of the pool, without the number of records before them.

        width: Words of each record.
        """
        (record_count,) = self.pool_words(at, count=1)
        return self.pool_words(at + 1, record_count * width)

    def render(self, record: ProcedureRecord) -> list[str]:
        """Return the lines of a procedure: signature, arguments, slots, steps.

        Slots, named s0, s1, ..., are the variables of a procedure. Steps that others jump to begin with their index:

            procedure public @f (f32[?]) -> (f32[?])
              argument 0 x: ?xf32 in s0
              s0: rank 1 f32
              0:   s1 = run ...
        """
        # The signature, the arguments and the slots.
        program, string = self.program, self.program.string
        self.pool = program.words_at(record.pool, record.pool_count)
        visibility, name = "public" if record.flags & IS_PUBLIC else "private", string(record.name, record.name_length)
        lines = [f"procedure {visibility} @{name} {string(record.signature, record.signature_length)}".rstrip()]
        for i, a in enumerate(program.records(record.arguments, record.argument_count, ValueRecord)):
            sizes = sizes_of(self.pool_words(a.sizes, 2 * a.rank))  # two words each
            shape = "scalar " if a.is_scalar else shape_text(sizes)
            lines.append(f"  argument {i} {string(a.name, a.name_length)}: {shape}{dtype_name(a.dtype)} in s{a.target}")
        for i, s in enumerate(program.records(record.slots, record.slot_count, SlotRecord)):
            lines.append(f"  s{i}: {'scalar' if s.is_scalar else f'rank {s.rank}'} {dtype_name(s.dtype)}")
        # The steps. Operands of a jump or branch are indices of steps: a JUMP has one, a BRANCH two after its slot.
        jump_targets = set()
        steps = program.records(record.steps, record.step_count, StepRecord)
        for step in steps:
            if step.step == Step.JUMP:
                jump_targets.add(step.a)
            elif step.step == Step.BRANCH:
                jump_targets.update((step.b, step.c))
        for i, step in enumerate(steps):
            lines.append(f"  {f'{i}:' if i in jump_targets else '':5}{self.step(step, record.result_count)}")
        return lines

    def step(self, record: StepRecord, result_count: int) -> str:
        """Return the text of one step, such as `branch s3 to 5, else 7`; sN are slots.

        `result_count` is the number of results of the procedure. Operands a to d are slots, or indices of steps,
        functions, globals, constants or words of the pool, depending on the step: docs/program.md, "Procedures".
        """
        _, a, b, c, d = record
        try:
            step = Step(record.step)
        except ValueError:
            return f"unknown step {record.step}"
        if step is Step.RUN:
            return self.run(function=a, at=b)
        if step is Step.SCALAR:
            return f"s{a} = {signed(join_words(b, c))}"
        if step is Step.RETURN:
            values = self.pool_words(a, result_count)
            return f"return {slots(values)}".rstrip()
        texts = {
            Step.JUMP: f"jump {a}",
            Step.BRANCH: f"branch s{a} to {b}, else {c}",
            Step.LOAD: f"s{a} = global {b}",
            Step.STORE: f"global {a} = {slot(b)}",
            Step.DROP: f"drop s{a}",
            Step.CONSTANT: f"s{a} = constant {b}",
            Step.DIM: f"s{a} = dim {c} of s{b}",
        }
        return texts[step] if step in texts else self.step_with_list(step, a, b, c, d)

    def step_with_list(self, step: Step, a: int, b: int, c: int, d: int) -> str:
        """Return the text of a step that has operands in the pool, such as `s3 = read s1[s2]`.

        a to d are the operands of the step's record. Operands of variable length are lists in the procedure's pool, and
        the record has the index where a list starts. For the READ above, a = 3 and b = 1 are slots, and c is such an
        index: at c the pool has 1, the number of indices, and then 2, the slot of the index.
        """
        if step is Step.MOVE:  # a: list of pairs (target, source)
            pairs = self.counted_words(a, width=2)
            moves = [f"s{pairs[i]} = {slot(pairs[i + 1])}" for i in range(0, len(pairs), 2)]
            return ", ".join(moves) or "nothing"
        if step is Step.READ:  # target slot a; tensor b; c: list of the slots of the indices; d: source location
            indices, location = self.counted_words(c), d
            at = f" at {self.program.string(*self.pool_words(location, 2))}" if location != NONE else ""
            return f"s{a} = read s{b}[{slots(indices)}]{at}"
        if step is Step.OBSERVE:  # number of the check a; b: list of the slots of its values
            values = self.counted_words(b)
            return f"observe check {a}: {slots(values)}"
        if step is Step.VIEW:  # target slot a; source b; c: slot of the offset, then slots of the sizes, not printed
            (offset,) = self.pool_words(c, 1)
            return f"s{a} = view {slot(b)}{'' if offset == NONE else f' + s{offset} bytes'}"
        assert step is Step.SAVE  # target slot a; source b; c: slot of the row numbers, slot of their elements
        positions, saved = self.pool_words(c, 2)
        return f"s{a} = {slot(b)} with rows {slot(positions)} saved as {slot(saved)}"

    def run(self, function: int, at: int) -> str:
        """Return the text of a call of function number `function`.

        The slots of its arguments, and after them those of its results, begin at index `at` of the pool.
        """
        if function >= len(self.functions):
            return f"run function {function}"  # an invalid program: there is no such function
        record = self.program.table(Table.FUNCTIONS, FunctionRecord)[function]
        inputs = self.pool_words(at, record.argument_count)
        outputs = self.pool_words(at + record.argument_count, record.result_count)
        targets = ", ".join("_" if s == NONE else f"s{s}" for s in outputs)
        return f"{targets}{' = ' if targets else ''}run @{self.functions[function]}({slots(inputs)})"


def slot(word: int) -> str:
    """Return a slot as text, such as `s3`, or `s3 (last)` for its last use."""
    return f"s{word & ~LAST_USE}{' (last)' if word & LAST_USE else ''}"


def slots(words: Sequence[int]) -> str:
    """Return slots, numbered places for the values of a procedure, as text such as `s3, s4`."""
    return ", ".join(map(slot, words))
