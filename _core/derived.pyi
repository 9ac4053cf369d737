from pydispatch._core.program import Module

class Derived:
    def __init__(self, module: Module) -> None: ...
