"""The folder of the kernels that specs name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from match_cases import KERNEL


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    (tmp_path / "square_diff.c").write_text(KERNEL)
    return tmp_path
