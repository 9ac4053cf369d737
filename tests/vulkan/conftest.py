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

TARGET = '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">'
LAYOUT = """#hal.pipeline.layout<constants = {}, bindings = [{}]>"""


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


def buffers(*names: str, type: str = "float") -> str:
    """Declarations of storage buffers in order; a name with a minus in front is read only."""
    return "\n".join(
        f"layout(set=0, binding={i}) {'readonly ' if n[0] == '-' else ''}buffer B{i} {{ {type} {n.lstrip('-')}[]; }};"
        for i, n in enumerate(names)
    )


def layout(constants: int, *bindings: str) -> str:
    """A pipeline layout; bindings are "in" or "out"."""
    shown = ", ".join(f"#hal.pipeline.binding<storage_buffer{', ReadOnly' if b == 'in' else ''}>" for b in bindings)
    return LAYOUT.format(constants, shown)


def export(name: str, ordinal: int, constants: int, bindings: tuple[str, ...], per: int = 64, more: str = "") -> str:
    return f"""hal.executable.export public @{name} ordinal({ordinal}) layout({layout(constants, *bindings)}) {more}
      count(%device: !hal.device, %workload: index) -> (index, index, index) {{
        %per = arith.constant {per} : index
        %x = arith.ceildivui %workload, %per : index
        %c1 = arith.constant 1 : index
        hal.return %x, %c1, %c1 : index, index, index
      }}"""


def source(objects: list[str], exports: str, functions: str, attributes: str = "", name: str = "executable") -> str:
    """A module with one hand-written executable. objects: paths, or nothing for one that is given at load."""
    listed = ", ".join(f'#hal.executable.object<{{path = "{path}"}}>' for path in objects)
    return f"""module {{
  hal.executable private @{name} {{
    hal.executable.variant public @vulkan target({TARGET}) {f"objects([{listed}])" if objects else ""} {{
    {exports}
    {attributes}
    }}
  }}
  {functions}
}}"""


MUL = "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) c[i] = a[i] * b[i]; }"
PUSH = "layout(push_constant) uniform P { uint n; };"


def binary(name: str, type: str = "f32", executable: str = "executable", export: str = "") -> str:
    """A host function of two vectors through one dispatch with their length."""
    t = f"tensor<?x{type}>"
    return f"""func.func @{name}(%a: {t}, %b: {t}) -> {t} {{
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : {t}
    %n = arith.index_cast %d : index to i32
    %r = flow.dispatch @{executable}::@{export or name}[%d](%n, %a, %b) : (i32, {t}{{%d}}, {t}{{%d}}) -> {t}{{%d}}
    return %r : {t}
  }}"""
