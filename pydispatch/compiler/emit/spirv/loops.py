"""Blocks of structured loops in SPIR-V."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.compiler.emit.spirv.module import Code, Id


class LoopBlocks:
    """The blocks of one structured loop, and the phis of its loop-carried values.

        entry -> header -> test -> body -> continue -> header
                           test -> merge, where code after the loop is emitted

    Callers call `begin` and emit the test, `enter_if` and emit the body, `begin_continue` and emit the increment of a
    counter if there is one, and `end`. The test and the body may consist of several blocks.
    """

    def __init__(self, code: Code) -> None:
        """Allocate the labels of the blocks; the loop follows the block that is open in `code`."""
        self._code = code
        self._entry = code.label
        self._header, self.test, self.body, self._continue, self.merge = (code.module.id() for _ in range(5))

    def begin(self) -> None:
        """Emit the header, whose phis are inserted by `end`, and begin the test."""
        code = self._code
        code.branch(self._header)
        code.start(self._header)
        self._phi_position = code.phi_position()
        code.do("LoopMerge", self.merge, self._continue, 0)
        code.branch(self.test)
        code.start(self.test)

    def enter_if(self, condition: Id) -> None:
        """Emit the end of the test, and begin the body, which runs if the condition holds."""
        self._code.branch_if(condition, self.body, self.merge)
        self._code.start(self.body)

    def begin_continue(self) -> None:
        """Emit the end of the body, and begin the block that continues with the next iteration."""
        self._code.branch(self._continue)
        self._code.start(self._continue)

    def end(self, types: Sequence[Id], phis: Sequence[Id], initial: Sequence[Id], following: Sequence[Id]) -> None:
        """Insert the phis into the header, and begin the block after the loop.

        Args:
            types: SPIR-V types of the carried values.
            phis: Their ids in the header.
            initial: Their values before the loop.
            following: Their values for the next iteration.
        """
        code = self._code
        code.branch(self._header)
        carried = zip(types, phis, initial, following, strict=True)
        code.insert_phis(
            self._phi_position,
            [(type_, phi, [(first, self._entry), (next_, self._continue)]) for type_, phi, first, next_ in carried],
        )
        code.start(self.merge)
