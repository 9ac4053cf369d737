"""Parts of programs that the tests of Vulkan share: shaders, layouts, executables, host functions."""

from __future__ import annotations

TARGET = '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">'
LAYOUT = """#hal.pipeline.layout<constants = {}, bindings = [{}]>"""


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
