"""Workgroup memory full of subnormal numbers, and whether a program then computed with one: for tests on x86, whose
floating point remembers it.

A worker's memory is not cleared between dispatches. A kernel that computes with what nobody wrote is right as long as
the results are not used, but products of subnormal numbers take CPUs of Intel a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pydispatch as pd

SOURCE = """
#include "pydispatch/library_author.h"
static int32_t fill(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  for (uint32_t i = 0; i < w->local_memory_size / 4; ++i) ((volatile uint32_t*)w->local_memory)[i] = 0x00012345;
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x3fu);
  *(int32_t*)pyd_binding(d, 0) = 0;
  return 0;
}
static int32_t seen(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  *(int32_t*)pyd_binding(d, 0) = (int32_t)(__builtin_ia32_stmxcsr() & 2);
  return 0;
}
#define EXPORTS(X) X(fill, 1, 0, 4 << 20) X(seen, 1, 0, 0)
PYD_LIBRARY("memory", EXPORTS)
"""
"""`fill` fills the worker's memory and clears what arithmetic remembers; `seen`: whether an operand was subnormal."""

EXPORT = """
    hal.executable.export public @NAME ordinal(NUMBER) layout(#hal.pipeline.layout<constants = 0, bindings = [
      #hal.pipeline.binding<storage_buffer>]>) count(%device: !hal.device) -> (index, index, index) {
      %c1 = arith.constant 1 : index
      hal.return %c1, %c1, %c1 : index, index, index
    }"""
FUNCTION = """
func.func @NAME() -> tensor<i32> {
  %y = flow.dispatch @memory::@NAME() : () -> tensor<i32>
  return %y : tensor<i32>
}"""
PROGRAM = f"""
hal.executable private @memory {{
  hal.executable.variant public @v target(<"llvm-cpu", "embedded-elf-x86_64">)
      objects([#hal.executable.object<{{path = "memory.c"}}>]) {{
    {EXPORT.replace("NAME", "fill").replace("NUMBER", "0")}
    {EXPORT.replace("NAME", "seen").replace("NUMBER", "1")}
  }}
}}
{FUNCTION.replace("NAME", "fill")}
{FUNCTION.replace("NAME", "seen")}
"""


class SubnormalMemory:
    """A device with one worker whose memory is filled before each call."""

    def __init__(self, folder: Path) -> None:
        (folder / "memory.c").write_text(SOURCE)
        self.device: Any = pd.device("cpu?workers=1")
        self._program: Any = self.device.load(pd.compile(PROGRAM, object_search_path=[folder]))

    def is_read(self, call: Callable[[], object]) -> bool:
        """Whether a call computes with what it did not write."""
        np.asarray(self._program.fill())
        call()
        return bool(np.asarray(self._program.seen()))
