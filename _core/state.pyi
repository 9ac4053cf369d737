from pydispatch._core.program import Module

class State:
    def __init__(self, module: Module, is_session: bool = False) -> None: ...
