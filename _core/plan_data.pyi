from typing import Any

from pydispatch._core.commands import Command, PlanBuffer, TensorResult
from pydispatch._core.plan import Plan
from pydispatch._core.program import Module

class PlanData:
    commands: list[Command]
    numbers: list[int]
    buffers: list[PlanBuffer]
    results: list[TensorResult | None]
    constants: bytes
    arena_bytes: int
    has_deferred: bool
    function: int
    command_count: int
    constant_count: int
    device: Any

def derivation_of(module: Module, function: int) -> PlanData: ...
def data_of(plan: Plan) -> PlanData: ...
