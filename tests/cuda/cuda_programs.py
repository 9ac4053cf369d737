"""Programs for CUDA as text: executables with hand-written kernels, and host functions that dispatch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TARGET = '#hal.executable.target<"cuda", "cuda-nvptx-fb"{}>'


def target(arch: str = "", entry: str = "target") -> str:
    """A target attribute, of an architecture when one is given."""
    return TARGET.format(f', {{{entry} = "{arch}"}}' if arch else "")


def layout(constants: int, *bindings: str) -> str:
    """A pipeline layout; bindings are "in" or "out"."""
    shown = ", ".join(f"#hal.pipeline.binding<storage_buffer{', ReadOnly' if b == 'in' else ''}>" for b in bindings)
    return f"#hal.pipeline.layout<constants = {constants}, bindings = [{shown}]>"


def size(x: int, y: int = 1, z: int = 1, more: str = "") -> str:
    """The attributes of an export with a block size."""
    return f"attributes {{workgroup_size = [{x} : index, {y} : index, {z} : index]{more}}}"


def export(name: str, ordinal: int, shape: str, block: str | None = None, per: int = 64) -> str:
    """An export over a workload of elements. shape: a layout. block: attributes; 64 threads when it is left out."""
    given = size(64) if block is None else block
    return f"""hal.executable.export public @{name} ordinal({ordinal}) layout({shape}) {given}
      count(%device: !hal.device, %workload: index) -> (index, index, index) {{
        %per = arith.constant {per} : index
        %x = arith.ceildivui %workload, %per : index
        %c1 = arith.constant 1 : index
        hal.return %x, %c1, %c1 : index, index, index
      }}"""


def objects(paths: Sequence[object]) -> str:
    return ", ".join(f'#hal.executable.object<{{path = "{path}"}}>' for path in paths)


def source(
    keyed: Mapping[str, Sequence[object]], exports: str, functions: str, attributes: str = "", name: str = "executable"
) -> str:
    """A module with one `hal.executable.source`. keyed: target attribute → paths of its objects."""
    rows = ",\n      ".join(f"{key} = [{objects(paths)}]" for key, paths in keyed.items())
    given = f"attributes {{objects = #hal.executable.objects<{{\n      {rows}\n    }}>}}" if keyed else ""
    return f"""module {{
  hal.executable.source private @{name} {given} {{
    {exports}
    {attributes}
  }}
  {functions}
}}"""


def vectors(name: str, type: str = "f32", executable: str = "executable", inputs: int = 2) -> str:
    """A host function of vectors through one dispatch with their length."""
    t = f"tensor<?x{type}>"
    given = ", ".join(f"%a{i}" for i in range(inputs))
    return f"""func.func @{name}({", ".join(f"%a{i}: {t}" for i in range(inputs))}) -> {t} {{
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a0, %c0 : {t}
    %n = arith.index_cast %d : index to i32
    %r = flow.dispatch @{executable}::@{name}[%d](%n, {given}) : (i32{f", {t}{{%d}}" * inputs}) -> {t}{{%d}}
    return %r : {t}
  }}"""


IN_IN_OUT = layout(1, "in", "in", "out")
MUL = export("simple_mul", 0, IN_IN_OUT)
TWO = MUL + export("simple_mul_inplace", 1, layout(1, "in", "out"))
MIXED = """func.func @mixed_invocation(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %0 = flow.dispatch @executable::@simple_mul[%d](%n, %a, %b)
      : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d}) -> tensor<?xf32>{%d}
    %1 = flow.dispatch @executable::@simple_mul_inplace[%d](%n, %0, %b)
      : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d}) -> %b{%d}
    return %1 : tensor<?xf32>
  }"""
"""The host program of the CUDA document, less what it computes on tensors between its dispatches."""
