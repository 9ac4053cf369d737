from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from embedding_build import HERE, ROOT, build, import_file

sys.path.insert(0, str(ROOT / "tests" / "runtime"))

import programs


@pytest.fixture(scope="session")
def pdx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pdx") / "standard.pdx"
    programs.standard().save(path)
    return path


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return import_file(build(HERE / "probe.c", tmp_path_factory.mktemp("probe")))
