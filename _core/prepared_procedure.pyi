from collections.abc import Sequence
from typing import Any

from pydispatch._core.procedure import Procedure

class PreparedProcedure:
    def __init__(self, procedure: Procedure, args: Sequence[Any], out: Any, workers: int | None) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...
