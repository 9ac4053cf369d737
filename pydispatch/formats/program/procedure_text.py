"""Prints the procedures of a host program for people."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.program.commands import words_of
from pydispatch.formats.program.opcodes import NONE, dtype_name
from pydispatch.formats.program.records import Records
from pydispatch.formats.program.steps import LAST_USE, Step


class ProcedureText:
    """Printer of one procedure. An offset outside of the program raises ArtifactError."""

    def __init__(self, program: Records, functions: Sequence[str]) -> None:
        self.program, self.functions = program, functions
        self.pool: list[int] = []

    def taken(self, at: int, count: int) -> list[int]:
        return words_of(self.pool, at, count)

    def counted(self, at: int, width: int = 1) -> list[int]:
        """Return the records at an offset of the pool: a count, then that many records of `width` words."""
        return self.taken(at + 1, self.taken(at, 1)[0] * width)

    def render(self, r: tuple[int, ...]) -> list[str]:
        """Return the lines of the procedure with this record: signature, slots, steps."""
        table, string = self.program.table, self.program.string
        self.pool = [word for (word,) in table(r[13], r[14], 1)]
        lines = [f"procedure {'public' if r[4] & 1 else 'private'} @{string(r[0], r[1])} {string(r[2], r[3])}".rstrip()]
        for i, a in enumerate(table(r[5], r[6], 8)):
            halves = self.taken(a[3], 2 * a[2])
            dims = [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]
            shape = "scalar " if a[0] else "".join(f"{'?' if d >> 63 else d}x" for d in dims)
            lines.append(f"  argument {i} {string(a[4], a[5])}: {shape}{dtype_name(a[1])} in s{a[6]}")
        results = table(r[7], r[8], 8)
        for i, s in enumerate(table(r[9], r[10], 4)):
            lines.append(f"  s{i}: {'scalar' if s[0] else f'rank {s[2]}'} {dtype_name(s[1])}")
        targets = set()
        steps = table(r[11], r[12], 5)
        for words in steps:
            if words[0] == Step.JUMP:
                targets.add(words[1])
            elif words[0] == Step.BRANCH:
                targets.update(words[2:4])
        for i, words in enumerate(steps):
            lines.append(f"  {f'{i}:' if i in targets else '':5}{self.step(words, len(results))}")
        return lines

    def step(self, words: tuple[int, ...], results: int) -> str:
        """Return the text of one step; `results` is the number of results of the procedure."""
        a, b, c, d = words[1:]
        try:
            step = Step(words[0])
        except ValueError:
            return f"unknown step {words[0]}"
        if step is Step.RUN:
            return self.run(a, b)
        if step is Step.MOVE:
            pairs = self.counted(a, 2)
            moves = [f"s{pairs[i]} = {slot(pairs[i + 1])}" for i in range(0, len(pairs), 2)]
            return ", ".join(moves) or "nothing"
        if step is Step.READ:
            at = f" at {self.program.string(*self.taken(d, 2))}" if d != NONE else ""
            return f"s{a} = read s{b}[{slots(self.counted(c))}]{at}"
        if step is Step.OBSERVE:
            return f"observe check {a}: {slots(self.counted(b))}"
        if step is Step.RETURN:
            return f"return {slots(self.taken(a, results))}".rstrip()
        if step is Step.VIEW:
            (offset,) = self.taken(c, 1)
            return f"s{a} = view {slot(b)}{'' if offset == NONE else f' + s{offset} bytes'}"
        if step is Step.SAVE:
            positions, saved = self.taken(c, 2)
            return f"s{a} = {slot(b)} with rows {slot(positions)} saved as {slot(saved)}"
        if step is Step.SCALAR:
            value = b | c << 32
            return f"s{a} = {value - (1 << 64) if value >> 63 else value}"
        texts = {
            Step.JUMP: f"jump {a}",
            Step.BRANCH: f"branch s{a} to {b}, else {c}",
            Step.LOAD: f"s{a} = global {b}",
            Step.STORE: f"global {a} = {slot(b)}",
            Step.DROP: f"drop s{a}",
            Step.CONSTANT: f"s{a} = constant {b}",
            Step.DIM: f"s{a} = dim {c} of s{b}",
        }
        return texts[step]

    def run(self, function: int, at: int) -> str:
        """Return the text of a function call, whose input and output slots start at an offset of the pool."""
        if function >= len(self.functions):
            return f"run function {function}"
        record = self.program.table(self.program.words[13], self.program.words[14], 20)[function]
        inputs = self.taken(at, record[6])
        outputs = self.taken(at + record[6], record[8])
        targets = ", ".join("_" if s == NONE else f"s{s}" for s in outputs)
        return f"{targets}{' = ' if targets else ''}run @{self.functions[function]}({slots(inputs)})"


def slot(word: int) -> str:
    """Return a slot as text, such as `s3`, or `s3 (last)` for its last use."""
    return f"s{word & ~LAST_USE}{' (last)' if word & LAST_USE else ''}"


def slots(words: Sequence[int]) -> str:
    return ", ".join(map(slot, words))
