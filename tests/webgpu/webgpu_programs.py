"""Parts of programs that the tests of WebGPU share: shaders, layouts, executables, host functions."""

from __future__ import annotations

TARGET = '#hal.executable.target<"webgpu-wgsl", "webgpu-wgsl-fb">'


def buffers(*names: str, type: str = "f32") -> str:
    """Declarations of storage buffers in order; a name with a minus in front is read only."""
    return "\n".join(
        f"@group(0) @binding({i}) var<storage, {'read' if n[0] == '-' else 'read_write'}> "
        f"{n.lstrip('-')}: array<{type}>;"
        for i, n in enumerate(names)
    )


def kernel(name: str, body: str, size: int = 64) -> str:
    """An entry point whose invocation is `i`, on a line of its own after a line break."""
    return (
        f"\n@compute @workgroup_size({size}) fn {name}(@builtin(global_invocation_id) id: vec3u) "
        f"{{ let i = id.x; {body} }}\n"
    )


PUSH = "\nstruct Constants { n: u32 }\n@group(3) @binding(0) var<uniform> given: Constants;"
MUL = kernel("mul", "if (i < given.n) { c[i] = a[i] * b[i]; }")
SHADER = buffers("-a", "-b", "c") + PUSH + MUL


def layout(constants: int, *bindings: str) -> str:
    """A pipeline layout; bindings are "in" or "out"."""
    shown = ", ".join(f"#hal.pipeline.binding<storage_buffer{', ReadOnly' if b == 'in' else ''}>" for b in bindings)
    return f"#hal.pipeline.layout<constants = {constants}, bindings = [{shown}]>"


def export(name: str, ordinal: int, constants: int, bindings: tuple[str, ...], per: int = 64, more: str = "") -> str:
    return f"""hal.executable.export public @{name} ordinal({ordinal}) layout({layout(constants, *bindings)}) {more}
      count(%device: !hal.device, %workload: index) -> (index, index, index) {{
        %per = arith.constant {per} : index
        %x = arith.ceildivui %workload, %per : index
        %c1 = arith.constant 1 : index
        hal.return %x, %c1, %c1 : index, index, index
      }}"""


EXPORT = export("mul", 0, 1, ("in", "in", "out"))


def source(objects: list[object], exports: str = EXPORT, functions: str = "", attributes: str = "") -> str:
    """A module with one hand-written executable. objects: paths, or nothing for one that is given at load."""
    listed = ", ".join(f'#hal.executable.object<{{path = "{path}"}}>' for path in objects)
    return f"""module {{
  hal.executable private @executable {{
    hal.executable.variant public @webgpu target({TARGET}) {f"objects([{listed}])" if objects else ""} {{
    {exports}
    {attributes}
    }}
  }}
  {functions or binary("mul")}
}}"""


def binary(name: str, type: str = "f32", export: str = "") -> str:
    """A host function of two vectors through one dispatch with their length."""
    t = f"tensor<?x{type}>"
    return f"""func.func @{name}(%a: {t}, %b: {t}) -> {t} {{
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : {t}
    %n = arith.index_cast %d : index to i32
    %r = flow.dispatch @executable::@{export or name}[%d](%n, %a, %b) : (i32, {t}{{%d}}, {t}{{%d}}) -> {t}{{%d}}
    return %r : {t}
  }}"""
