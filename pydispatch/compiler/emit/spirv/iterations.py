"""How many iterations the loops of an entry point run in one invocation.

lavapipe ends every loop of a shader when an invocation has run 65,535 iterations in all, of all loops together; the
code behind the loop goes on as if it had ended by itself. Long loops whose length is known get several copies of their
body in an iteration, so that there are fewer. Where more than that may be needed, the shader watches itself: at its end
a loop of two iterations runs, and where it is cut short, so was a loop before; see `watch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydispatch.formats.spirv.interface import watching_binding

if TYPE_CHECKING:
    from pydispatch.compiler.emit.spirv.function import FunctionEmitter

LIMIT = 65_000
ENOUGH = 40_000
"""Iterations that a loop is brought below, so that there is room for others."""
MOST_COPIES = 256
UNKNOWN_COPIES = 16
"""Of the body of a loop of unknown length that every invocation runs from its first iteration to its last."""


class Iterations:
    """Counts while an entry point is written. total: None when it is not known."""

    def __init__(self) -> None:
        self.total: int | None = 0
        self._times: int | None = 1  # that the code which is being written runs

    @property
    def is_open(self) -> bool:
        """Whether there may be more than some device runs."""
        return self.total is None or self.total > LIMIT

    @property
    def is_first(self) -> bool:
        """Whether what is being written lies in no loop."""
        return self._times == 1

    def unknown(self) -> None:
        """Code runs that was not written here."""
        self.total = None

    @contextmanager
    def inside(self, count: int | None) -> Iterator[None]:
        """The body of a loop of at most so many iterations is written."""
        outer = self._times
        self._times = None if outer is None or count is None else outer * max(count, 1)
        # The test that ends a loop is an iteration too.
        known = outer is not None and count is not None and self.total is not None
        self.total = self.total + outer * (count + 1) if known else None  # type: ignore[operator]
        try:
            yield
        finally:
            self._times = outer

    def copies(self, count: int | None) -> int:
        """How often the body of a loop of so many iterations is best written: a power of two."""
        if count is None or self._times is None or count * self._times <= ENOUGH:
            return 1
        wanted = -(-count * self._times // ENOUGH)
        return int(min(1 << (wanted - 1).bit_length(), MOST_COPIES, 1 << (count.bit_length() - 1)))


def watch(f: FunctionEmitter) -> None:
    """At the end of an entry point: writes 1 into the first word of a buffer behind all others when a loop was cut
    short. Its second word is 2; read, so that no compiler knows how long the loop is."""
    m, code = f.m, f.code
    word, zero, one = m.int(32), m.integer(0), m.integer(1)
    binding = watching_binding(f.layout.constants, len(f.layout.bindings))

    def make() -> int:
        made = m.variable("StorageBuffer", m.block("loops", m.array(word, 2, 4)))
        m.decorate(made, "DescriptorSet", 0)
        m.decorate(made, "Binding", binding)
        return made

    variable, pointer = m.once(("loops", binding), make), m.pointer("StorageBuffer", word)  # type: ignore[arg-type]
    limit = code.let("Load", word, code.let("AccessChain", pointer, variable, zero, one))
    bounds = (zero, limit, one)
    (count,) = f._loop(*bounds, [(word, zero)], lambda _, n: [code.let("IAdd", word, n[0], one)], word, "SLessThan", 32)

    def note() -> list[int]:
        code.do("Store", code.let("AccessChain", pointer, variable, zero, zero), one)
        return []

    f.choose(code.let("INotEqual", m.bool(), count, limit), note, list, [])  # type: ignore[arg-type]
