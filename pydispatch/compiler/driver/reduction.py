"""A program in which the compiler has a fault becomes a small one in which it has the same fault."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator

from pydispatch import ir
from pydispatch.errors import InternalError
from pydispatch.faults import internal_error, is_fault, origin_of, with_source
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.functions import FUNCTIONS

TRIES = 300
"""Programs that are compiled for one fault; more of them make the result smaller."""
SECONDS = 10.0
"""Time after which no further program is compiled; a user waits that long for the error."""
LONGEST_SECONDS = 3.0
"""Limit of the failed compilation; a program that takes longer is not reduced, since each try would take as long."""


@contextmanager
def reporting(load: Callable[[], ModuleOp], compile: Callable[[ModuleOp], object]) -> Iterator[None]:
    """Turn a compiler fault raised in the block into an InternalError with a smaller program that has the same fault.

    Args:
        load: Returns a new copy of the program, since `compile` changes it.
        compile: Compiles a program as the block does, without effects visible to callers.
    """
    begin = time.monotonic()
    try:
        yield
    except Exception as error:
        is_reported = isinstance(error, InternalError)
        is_due_to_program = isinstance(error, RecursionError)  # to its depth
        is_compiler_fault = (is_reported or is_fault(error)) and not is_due_to_program
        if not is_compiler_fault:
            raise
        seconds_to_fault = time.monotonic() - begin
        fault = error if isinstance(error, InternalError) else internal_error(error)
        source = _reduced_source(origin_of(error), load, compile, seconds_to_fault)
        if source is None and is_reported:
            raise
        raise (fault if source is None else with_source(fault, source)) from error


def _reduced_source(
    origin: Any, load: Callable[[], ModuleOp], compile: Callable[[ModuleOp], object], seconds_to_fault: float
) -> str | None:
    """Return the text of a reduced program with the same fault; None where the program cannot be loaded again.

    Args:
        origin: Key that identifies the fault (`origin_of`).
        load: Returns a new copy of the program.
        compile: Compiles a program, which it may change; raises the fault.
        seconds_to_fault: Duration of the failed compilation. After LONGEST_SECONDS or more the program is returned
            as it is, since each try would take as long.
    """
    tries = TRIES if seconds_to_fault < LONGEST_SECONDS else 0
    reduction = Reduction(origin, compile, tries=tries, end=time.monotonic() + SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ir.print_module(reduction.reduced(load()))
    except Exception:  # the source can be read only once, or a program with a fault cannot be printed
        return None


class Reduction:
    """Reducer of a faulty program: removes functions, results and operations while the compiler has the same fault.

    Args:
        origin: The origin of the fault (`origin_of`).
        compile: Compiles a program.
        tries: Maximum number of programs that are compiled.
        end: Deadline, in seconds of time.monotonic().
    """

    def __init__(self, origin: Any, compile: Callable[[ModuleOp], object], tries: int, end: float) -> None:
        """Begin with no program compiled. For the arguments see the class."""
        self.origin, self.compile, self.tries, self.end = origin, compile, tries, end

    def reduced(self, module: ModuleOp) -> ModuleOp:
        """Return a program without what the fault does not need: symbols, then results, then operations are removed.

        Return `module` itself if nothing can be removed, or if compiling it does not raise the fault again.
        """
        if not self._repeats(module):
            return module
        # Largest items first: fewer operations remain for the passes that compile a program for each chunk of them.
        for items, remove in ((_symbols, _erase), (_results, _drop_results), (_operations, _replace_by_arguments)):
            module = self._without(module, items, remove)
        return module

    def _without(
        self, module: ModuleOp, items: Callable[[ModuleOp], Sequence[Any]], remove: Callable[[Sequence[Any]], None]
    ) -> ModuleOp:
        """Remove items of a program while its fault remains, from the last on, in chunks that become smaller: all,
        then halves, quarters, ..., single ones. Return the reduced program.

        Args:
            module: The program.
            items: Function that returns the items of a program in order. A copy has the same items at the same indices.
            remove: Function that removes a slice of them, or raises an exception if the rest of the program needs one.
        """
        size = len(items(module))  # of a chunk
        while size:
            stop = len(items(module))
            while stop > 0:
                candidate = module.clone()
                try:
                    remove(items(candidate)[max(0, stop - size) : stop])
                    candidate.verify()
                except Exception:  # the rest of the program needs an item: keep the chunk
                    stop -= size
                    continue
                module = candidate if self._repeats(candidate) else module
                stop -= size
            size //= 2
        return module

    def _repeats(self, module: ModuleOp) -> bool:
        """Compile a copy of a program, and return whether that raises the same fault; False without tries or time."""
        if self.tries <= 0 or time.monotonic() > self.end:
            return False
        self.tries -= 1
        try:
            self.compile(module.clone())
        except Exception as error:
            return origin_of(error) == self.origin
        return False


def _symbols(module: ModuleOp) -> list[Operation]:
    """Return the operations at the top of a program: functions and globals."""
    return list(module.body.block.ops)


def _erase(ops: Sequence[Operation]) -> None:
    """Remove operations; an exception is raised if something else needs one."""
    for op in reversed(ops):
        erase_op(op)


def _functions(module: ModuleOp) -> list[tuple[Operation, Block]]:
    """Return the functions whose body is a single block, as pairs (function, that block)."""
    functions = [op for op in module.body.block.ops if op.name in FUNCTIONS and len(op.regions[0].blocks) == 1]
    return [(op, op.regions[0].block) for op in functions]


def _results(module: ModuleOp) -> list[tuple[Operation, int]]:
    """Return the results of all functions as pairs (function, index of the result)."""
    return [(op, n) for op, block in _functions(module) for n in range(len(_end(block).operands))]


def _drop_results(results: Sequence[tuple[Operation, int]]) -> None:
    """Make functions return fewer results; from the last on, so that indices stay valid."""
    for function, index in reversed(results):
        end = _end(function.regions[0].block)
        end.operands = [value for n, value in enumerate(end.operands) if n != index]
        _set_type(function)


def _operations(module: ModuleOp) -> list[Operation]:
    """Return the operations of all functions, without their returns."""
    return [op for _, block in _functions(module) for op in block.ops if not op.has_trait(IsTerminator)]


def _replace_by_arguments(ops: Sequence[Operation]) -> None:
    """Remove operations; each result that is used is replaced by a new argument of the function."""
    for op in reversed(ops):  # users before the operations that define their operands
        block = op.parent
        assert block is not None
        function = block.parent_op()
        assert function is not None
        for result in op.results:
            if result.uses:
                result.replace_all_uses_with(block.insert_arg(result.type, len(block.args)))
        erase_op(op)
        _set_type(function)


def _end(block: Block) -> Operation:
    """Return the last operation of a function's body, its return."""
    assert block.last_op is not None
    return block.last_op


def _set_type(function: Operation) -> None:
    """Set the type of a function to that of its arguments and of the operands of its return.

    Attributes that list arguments or results by index are removed, because the indices have changed.
    """
    block = function.regions[0].block
    argument_types, returned = [value.type for value in block.args], [value.type for value in _end(block).operands]
    function.properties["function_type"] = FunctionType.from_lists(argument_types, returned)
    for name in ("arg_attrs", "res_attrs", "tied_operands"):
        function.properties.pop(name, None)
