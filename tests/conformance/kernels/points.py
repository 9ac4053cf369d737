"""Kernels of loops over points, for tests of what they compute and of what they become."""

from __future__ import annotations

import numpy as np

INDICES = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 5, 64, 100, 256, 1000))


def kernel(body: str, attributes: str = "") -> str:
    """A kernel with some constants %c0, %c1, ..."""
    return f"func.func @kernel() {attributes} {{\n{INDICES}\n{body}\nfunc.return\n}}"


def invocations(count: int) -> str:
    return f"attributes {{pyd.invocations = {count} : i64}}"


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


REDUCE = """
        %r{n} = scf.parallel (%i) = (%c0) to (%c64) step (%c1) init (%zero) -> f32 {{
          %x = memref.load %a[%i] : memref<64xf32>
          scf.reduce(%x : f32) {{
          ^bb0(%l: f32, %m: f32):
            %s = arith.maximumf %l, %m : f32
            scf.reduce.return %s : f32
          }}
        }}
        memref.store %r{n}, %b[%turn] : memref<64xf32>"""

LOOPS = {
    "one": "scf.for %turn = %c0 to %c5 step %c1 {" + REDUCE.format(n=0) + "}",
    "two": "scf.for %turn = %c0 to %c5 step %c1 {" + REDUCE.format(n=0) + REDUCE.format(n=1) + "}",
    "nested": "scf.for %turn = %c0 to %c2 step %c1 { scf.for %t = %c0 to %turn step %c1 {" + REDUCE.format(n=0)
    + "}" + REDUCE.format(n=1) + "scf.for %t = %c0 to %turn step %c1 {" + REDUCE.format(n=2) + "} }",
    "sometimes": "scf.for %turn = %c0 to %c5 step %c1 { %go = arith.cmpi ne, %turn, %c2 : index\n scf.if %go {"
    + REDUCE.format(n=0) + "} }",
    "while": "%end = scf.while (%turn = %c0) : (index) -> index { %go = arith.cmpi slt, %turn, %c5 : index\n"
    "scf.condition(%go) %turn : index } do { ^bb0(%turn: index):" + REDUCE.format(n=0)
    + "%next = arith.addi %turn, %c1 : index\n scf.yield %next : index }",
    "blocks": "cf.br ^head(%c0 : index)\n^head(%turn: index):" + REDUCE.format(n=0)
    + "%next = arith.addi %turn, %c1 : index\n%go = arith.cmpi slt, %next, %c5 : index\n"
    "cf.cond_br %go, ^head(%next : index), ^end\n^end:",
}  # fmt: skip


def reductions_in_loop(name: str, count: int) -> str:
    return kernel(f"""
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<64xf32>
      %b = hal.interface.binding.subspan binding(1) : memref<64xf32>
      %zero = arith.constant 0.0 : f32
      {LOOPS[name]}""", invocations(count))  # fmt: skip


SHARED = "memref<64xf32, #gpu.address_space<workgroup>>"
TURNED = f"""
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<64xf32>
      %b = hal.interface.binding.subspan binding(1) : memref<64xf32>
      %s = memref.alloc() : {SHARED}
      %top = arith.constant 63 : index
      scf.for %turn = %c0 to %c3 step %c1 {{
        scf.parallel (%i) = (%c0) to (%c64) step (%c1) {{
          %x = memref.load %a[%i] : memref<64xf32>
          memref.store %x, %s[%i] : {SHARED}
        }}
        %first = memref.load %s[%c5] : {SHARED}
        scf.parallel (%i) = (%c0) to (%c64) step (%c1) {{
          %j = arith.subi %top, %i : index
          %x = memref.load %s[%j] : {SHARED}
          %old = memref.load %b[%i] : memref<64xf32>
          %y = arith.addf %x, %old : f32
          %z = arith.addf %y, %first : f32
          memref.store %z, %b[%i] : memref<64xf32>
        }}
      }}"""


def private_memory() -> str:
    return kernel("""
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<3x64xf32>
      %b = hal.interface.binding.subspan binding(1) : memref<64xf32>
      %own = memref.alloca() : memref<4xf32, 5>
      %zero = arith.constant 0.0 : f32
      scf.parallel (%i) = (%c0) to (%c64) step (%c1) {
        memref.store %zero, %own[%c0] : memref<4xf32, 5>
      }
      scf.for %k = %c0 to %c3 step %c1 {
        scf.parallel (%i) = (%c0) to (%c64) step (%c1) {
          %x = memref.load %a[%k, %i] : memref<3x64xf32>
          %s = memref.load %own[%c0] : memref<4xf32, 5>
          %t = arith.addf %s, %x : f32
          memref.store %t, %own[%c0] : memref<4xf32, 5>
        }
      }
      scf.parallel (%i) = (%c0) to (%c64) step (%c1) {
        %s = memref.load %own[%c0] : memref<4xf32, 5>
        memref.store %s, %b[%i] : memref<64xf32>
      }""", invocations(64))  # fmt: skip


def packed_elements(whole: bool) -> str:
    """Points that share bytes, or, where `whole`, stores that say that their byte is their own."""
    own = " {pyd.own_byte}" if whole else ""
    store = f"""
        %j = arith.addi %i, %c1 : index
        %y = memref.load %a[%j] : memref<99xi4>
        memref.store %y, %b[%j]{own} : memref<99xi4>"""
    return kernel(f"""
      %c98 = arith.constant 98 : index
      %c99 = arith.constant 99 : index
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<99xi4>
      %b = hal.interface.binding.subspan binding(1) : memref<99xi4>
      scf.parallel (%i) = (%c0) to ({"%c98" if whole else "%c99"}) step ({"%c2" if whole else "%c1"}) {{
        %x = memref.load %a[%i] : memref<99xi4>
        memref.store %x, %b[%i]{own} : memref<99xi4>
        {store if whole else ""}
      }}""", invocations(64))  # fmt: skip
