from __future__ import annotations

import pytest
from backends import BACKENDS, Backend


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend in turn."""
    found: Backend = request.param
    return found
