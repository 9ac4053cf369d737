"""Each code generator refuses exports that are no entry points."""

from __future__ import annotations

import pytest

import pydispatch as pd

TARGETS = {
    "cpu": '"llvm-cpu", "embedded-elf-x86_64"',
    "cuda": '"cuda", "cuda-nvptx-fb"',
    "vulkan": '"vulkan-spirv", "vulkan-spirv-fb"',
    "webgpu": '"webgpu-wgsl", "webgpu-wgsl-fb"',
}


def program(target: str, function: str) -> str:
    """Return a program with the export @double of an executable for one target, whose only function is `function`."""
    return f"""
#target = #hal.executable.target<{TARGETS[target]}>
#layout = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>]>
module attributes {{hal.device.targets = [#hal.device.target<"local", [#target]>]}} {{
  hal.executable private @kernels {{
    hal.executable.variant public @here target(#target) {{
      hal.executable.export public @double ordinal(0) layout(#layout) count(%d: !hal.device) -> (index, index, index) {{
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }}
      builtin.module {{
        {function}
      }}
    }}
  }}
  func.func @main() -> tensor<3xi32> {{
    %0 = flow.dispatch @kernels::@here::@double() : () -> tensor<3xi32>
    return %0 : tensor<3xi32>
  }}
}}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("function", "message", "note"),
    [
        ("func.func @other() { return }", "export 'double' has no function in the executable", "defined are: other"),
        ("func.func private @double()", "export 'double' has no function in the executable", "defined are: none"),
        (
            "func.func @double(%n: i32) { return }",
            "export 'double' must take no arguments and return nothing, got (i32) -> ()",
            "reach buffers and scalars through hal.interface.binding.subspan and hal.interface.constant.load",
        ),
    ],
    ids=["missing", "declared", "arguments"],
)
def test_an_export_that_is_no_entry_point(target: str, function: str, message: str, note: str) -> None:
    with pytest.raises(pd.CompileError) as error:
        pd.compile(program(target, function), targets=[target])
    assert (error.value.message, error.value.note) == (message, note)


@pytest.mark.parametrize("target", TARGETS)
def test_an_export_without_code(target: str) -> None:
    pd.compile(program(target, "func.func @double() { return }"), targets=[target])
