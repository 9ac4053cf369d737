"""Programs that frontends write are verified, so that a wrong type is an error at the operator that wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pydispatch import ir
from pydispatch.compiler.driver import pipeline


@pytest.fixture(scope="module", autouse=True)
def verified() -> Iterator[None]:
    """Verify what becomes of the input before the compiler sees it, as it verifies the text of users alone."""
    lower_input = pipeline.lower_input

    def lower_and_verify(*arguments: Any) -> Any:
        program = lower_input(*arguments)
        ir.verify(program)
        return program

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "lower_input", lower_and_verify)
        yield
