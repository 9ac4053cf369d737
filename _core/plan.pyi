from typing import Any

class Plan:
    device: Any
    def describe(self) -> list[str]: ...
