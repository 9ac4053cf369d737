"""Every test here runs under the validation layer, on a device whose name is known, and fails on any message."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ["PYDISPATCH_VULKAN_VALIDATION"] = "1"
os.environ.setdefault("LP_NUM_THREADS", "0")  # lavapipe: threads cost more than they bring on small grids

import pydispatch as pd


@pytest.fixture(autouse=True)
def no_messages() -> Iterator[None]:
    """The validation layer has nothing to say."""
    from pydispatch.runtime.devices.vulkan.instance import instance

    seen = instance()
    assert seen.validates
    before = len(seen.messages)
    yield
    assert seen.messages[before:] == []


@pytest.fixture(params=["vulkan:0", "vulkan:0?staging=1"], ids=["mapped", "staged"])
def device(request: pytest.FixtureRequest) -> Any:
    """The first device, once with memory that the processor sees and once as if it did not."""
    found = pd.device(request.param)
    facts = found.describe()
    # Without a GPU this is Mesa's lavapipe. Any other device is welcome, but not a surprise.
    assert "llvmpipe" in facts["model"] or facts["kind"] in ("discrete GPU", "integrated GPU"), facts["model"]
    return found


@pytest.fixture
def glsl(tmp_path: Path) -> Callable[..., Path]:
    """glsl(name, body, size=64, head="") → the path of a .spv, compiled by glslangValidator."""

    def make(name: str, text: str, size: str = "local_size_x = 64", head: str = "", *flags: str) -> Path:
        source, out = tmp_path / f"{name}.comp", tmp_path / f"{name}.spv"
        source.write_text(f"#version 450\n{head}\nlayout({size}) in;\n{text}")
        done = subprocess.run(
            ["glslangValidator", "-V", "--target-env", "vulkan1.1", *flags, str(source), "-o", str(out)],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return out

    return make
