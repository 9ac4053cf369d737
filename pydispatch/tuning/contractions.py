"""Tunables of dispatches that consist of one contraction; their configurations are schedules."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch.compiler.constants.functions import DerivedFunctions
from pydispatch.compiler.constants.pack import pack_constants
from pydispatch.compiler.kernels.matmul.cpu.kernel import plan_in
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.cpu.schedule import SCHEDULE, Schedule, refusal
from pydispatch.compiler.kernels.matmul.cpu.tiles import level_of
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.target.cpu import Machine
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.functions import symbol_name
from pydispatch.tuning.dispatches import DispatchTunable
from pydispatch.tuning.schedules import name_of, neighbours, schedule_named
from pydispatch.tuning.standalone import add_standalone, fewest_constants


class ContractionTunable(DispatchTunable):
    """Export whose function is one contraction. Its configurations are names of schedules (see `schedules.name_of`).

    `14x32, tile 112x256, K 512, packs B` means: 14 rows by 32 columns of sums in registers, tiles of 112 x 256 for a
    workgroup, 512 steps of K at a time, and B is copied in the order of reads while A is read in place.

    Args:
        executable, export, uses: As for `DispatchTunable`.
        machine: The CPU that the program is compiled for.
        plan: Plan of the export's kernel with the default schedule.
    """

    def __init__(
        self, executable: flow.ExecutableOp, export: str, uses: Sequence[flow.DispatchOp], machine: Machine, plan: Plan
    ) -> None:
        """Take the problem and the default configuration from `plan`. For the arguments see the class."""
        super().__init__(executable, export, uses)
        # _level: capabilities of the CPU that schedules depend on. _problem: sizes and layouts of the operands.
        self._level, self._problem, self.default = level_of(machine), plan.problem, name_of(plan.schedule)

    def neighbours(self, config: str) -> Sequence[str]:
        """Return the names of the schedules that are similar to the one that `config` names."""
        schedule = schedule_named(config)
        assert schedule is not None
        return [name_of(neighbour) for neighbour in neighbours(self._level, self._problem, schedule)]

    def is_legal(self, config: str) -> bool:
        """Return whether `config` names a schedule that the kernel can have."""
        schedule = schedule_named(config)
        return schedule is not None and refusal(self._level, self._problem, schedule) is None

    def prepare(self, executable: Operation, config: str) -> None:
        """Set the schedule named `config` as an attribute of the export's function. The default needs no attribute.

        `config` is a legal name, so that it can be parsed.
        """
        schedule = schedule_named(config)
        assert isinstance(schedule, Schedule)
        if config != self.default:
            function_named(executable, self.subject).attributes[SCHEDULE] = schedule.attribute()


def contraction_tunable(
    executable: flow.ExecutableOp, export: str, uses: Sequence[flow.DispatchOp], backend: Backend, machine: Machine
) -> ContractionTunable | None:
    """Return the tunable of an export that is one contraction with static sizes and no schedule; else None."""
    # Only operands that are constant in all dispatches are packed: assume the fewest constants.
    module, use = ModuleOp([]), fewest_constants(uses)
    entry = add_standalone(module, executable.clone(), export, use, trial=0)
    # Pack as the tuned compilation does, since the schedules of packed and other operands differ.
    levels = [level_of(machine)]
    pack_constants(module, DerivedFunctions(module), levels)
    function = function_named(module, entry.export)
    has_schedule = SCHEDULE in function.attributes
    plan = None if has_schedule else plan_in(function, backend, machine)  # None for other kernels than contractions
    return None if plan is None else ContractionTunable(executable, export, uses, machine, plan)


def function_named(holder: Operation, name: str) -> func.FuncOp:
    """Return the function with a name in a module or executable."""
    return next(op for op in walk(holder) if isinstance(op, func.FuncOp) and symbol_name(op) == name)
