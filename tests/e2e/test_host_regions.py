"""Host code at load or in front of dispatches: executable constants, conditions, fallbacks, device queries."""

from __future__ import annotations

import platform

import pytest

import pydispatch as pd

SUFFIX = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "arm_64", "arm64": "arm_64", "riscv64": "riscv_64"}
FORMAT = f"embedded-elf-{SUFFIX[platform.machine()]}"

HEAD = f"""
#target = #hal.executable.target<"llvm-cpu", "{FORMAT}">
#layout = #hal.pipeline.layout<constants = 0, bindings = [#hal.pipeline.binding<storage_buffer>]>
module attributes {{hal.device.targets = [#hal.device.target<"local", [#target]> : !hal.device]}} {{
"""

GRID = """count(%device: !hal.device) -> (index, index, index) {
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }"""


def kernel(name: str, value: str) -> str:
    """A kernel that stores an i32 made by `value` into element 0."""
    return f"""
      func.func @{name}() {{
        %zero = arith.constant 0 : index
        {value}
        %out = hal.interface.binding.subspan layout(#layout) binding(0) alignment(4) offset(%zero) : memref<1xi32>
        memref.store %value, %out[%zero] : memref<1xi32>
        return
      }}"""


def main(export: str = "get") -> str:
    return f"""
      func.func @run() -> tensor<1xi32> {{
        %r = flow.dispatch @exe::@{export}() : () -> tensor<1xi32>
        return %r : tensor<1xi32>
      }}"""


def run(text: str) -> int:
    return int(pd.device("local-sync").load(pd.compile(text)).run()[0])


def test_executable_constants_are_computed_at_load() -> None:
    text = f"""{HEAD}
  hal.executable private @exe {{
    hal.executable.variant public @v target(#target) {{
      hal.executable.export public @get ordinal(0) layout(#layout) {GRID}
      hal.executable.constant.block(%device: !hal.device) -> (i32, i32) as ("first", "second") {{
        %c40 = arith.constant 40 : i32
        %c2 = arith.constant 2 : i32
        %sum = arith.addi %c40, %c2 : i32
        hal.return %c2, %sum : i32, i32
      }}
      builtin.module {{ {kernel("get", '%value = hal.executable.constant.load "second" : i32')} }}
    }}
  }}
  {main()}
}}"""
    assert run(text) == 42


def test_each_variant_has_constants_of_its_own() -> None:
    def variant(name: str, number: int, condition: str) -> str:
        return f"""
    hal.executable.variant public @{name} target(#target) {{
      {condition}
      hal.executable.export public @get ordinal(0) layout(#layout) {GRID}
      hal.executable.constant.block(%device: !hal.device) -> i32 as "n" {{
        %n = arith.constant {number} : i32
        hal.return %n : i32
      }}
      builtin.module {{ {kernel("get", '%value = hal.executable.constant.load "n" : i32')} }}
    }}"""

    never = """hal.executable.condition(%device: !hal.device) -> i1 {
        %no = arith.constant false
        hal.return %no : i1
      }"""
    text = f"{HEAD} hal.executable private @exe {{ {variant('a', 1, never)} {variant('b', 2, '')} }} {main()} }}"
    assert run(text) == 2


def test_no_variant_whose_condition_holds() -> None:
    text = f"""{HEAD}
  hal.executable private @exe {{
    hal.executable.variant public @only target(#target) {{
      hal.executable.condition(%device: !hal.device) -> i1 {{
        %ok, %value = hal.device.query<%device : !hal.device> key("hal.cpu" :: "no-such-feature") : i1, i1 = false
        hal.return %value : i1
      }}
      hal.executable.export public @get ordinal(0) layout(#layout) {GRID}
      builtin.module {{ {kernel("get", "%value = arith.constant 1 : i32")} }}
    }}
  }}
  {main()}
}}"""
    with pytest.raises(pd.DeviceUnavailableError) as caught:
        run(text)
    assert "exe" in str(caught.value) and "only" in str(caught.value) and "condition" in str(caught.value)


@pytest.mark.parametrize(("holds", "expected"), [("true", 1), ("false", 2)])
def test_an_export_stands_back_for_its_fallback(holds: str, expected: int) -> None:
    text = f"""{HEAD}
  hal.executable private @exe {{
    hal.executable.variant public @v target(#target) {{
      hal.executable.export public @get ordinal(0) layout(#layout)
          condition(%device: !hal.device) -> i1 {{
        %c = arith.constant {holds}
        hal.return %c : i1
      }} fallback(@other) {GRID}
      hal.executable.export public @other ordinal(1) layout(#layout) {GRID}
      builtin.module {{
        {kernel("get", "%value = arith.constant 1 : i32")}
        {kernel("other", "%value = arith.constant 2 : i32")}
      }}
    }}
  }}
  {main()}
}}"""
    assert run(text) == expected


def test_a_grid_without_the_device() -> None:
    grid = GRID.replace("%device: !hal.device", "")
    text = f"""{HEAD}
  hal.executable private @exe {{
    hal.executable.variant public @v target(#target) {{
      hal.executable.export public @get ordinal(0) layout(#layout) {grid}
      builtin.module {{ {kernel("get", "%value = arith.constant 3 : i32")} }}
    }}
  }}
  {main()}
}}"""
    assert run(text) == 3
    with pytest.raises(pd.CompileError, match="the workgroup count of '@get' takes 0 values, the dispatch gives 1"):
        call = "%r = flow.dispatch @exe::@get"
        run(text.replace(f"{call}(", f"%n = arith.constant 1 : index\n{call}[%n]("))


QUERIES = [
    ('"hal.executable.format" :: "FORMAT"', "i1", "false", 1),
    ('"hal.executable.format" :: "embedded-elf-z80"', "i1", "false", 0),
    ('"hal.device" :: "no such key"', "index", "7 : index", 7),
    ('"hal.dispatch" :: "concurrency"', "i32", "9 : i32", 3),
]


@pytest.mark.parametrize(("key", "type", "default", "expected"), QUERIES)
def test_queries_in_a_grid(key: str, type: str, default: str, expected: int) -> None:
    """The answer becomes the number of workgroups, which the kernel stores."""
    cast = {"i1": "arith.index_castui %value : i1 to index", "i32": "arith.index_cast %value : i32 to index"}
    to_index = cast.get(type, "arith.addi %value, %zero : index")
    text = f"""{HEAD}
  hal.executable private @exe {{
    hal.executable.variant public @v target(#target) {{
      hal.executable.export public @get ordinal(0) layout(#layout)
          count(%device: !hal.device) -> (index, index, index) {{
        %one = arith.constant 1 : index
        %zero = arith.constant 0 : index
        %ok, %value = hal.device.query<%device : !hal.device> key({key.replace("FORMAT", FORMAT)}) : i1, {type} = {
        default
    }
        %n = {to_index}
        %m = arith.addi %n, %one : index
        hal.return %m, %one, %one : index, index, index
      }}
      builtin.module {{ {
        kernel(
            "get",
            '''%count = hal.interface.workgroup.count[0] : index
        %value = arith.index_cast %count : index to i32''',
        )
    } }}
    }}
  }}
  {main()}
}}"""
    program = pd.device("cpu?workers=3").load(pd.compile(text))
    assert int(program.run()[0]) == expected + 1


def test_a_grid_follows_its_variant() -> None:
    """Two variants of one export ask for grids of their own; the chosen one's is used."""

    def variant(name: str, groups: int, holds: str) -> str:
        return f"""
    hal.executable.variant public @{name} target(#target) {{
      hal.executable.condition(%device: !hal.device) -> i1 {{
        %c = arith.constant {holds}
        hal.return %c : i1
      }}
      hal.executable.export public @get ordinal(0) layout(#layout)
          count(%device: !hal.device) -> (index, index, index) {{
        %n = arith.constant {groups} : index
        %one = arith.constant 1 : index
        hal.return %n, %one, %one : index, index, index
      }}
      builtin.module {{ {
            kernel(
                "get",
                '''%count = hal.interface.workgroup.count[0] : index
        %value = arith.index_cast %count : index to i32''',
            )
        } }}
    }}"""

    for first, expected in (("true", 5), ("false", 6)):
        both = variant("a", 5, first) + variant("b", 6, "true")
        assert run(f"{HEAD} hal.executable private @exe {{ {both} }} {main()} }}") == expected
