"""Workgroup memory full of subnormal numbers, and whether a function then computes with one: for tests on x86, whose
floating point remembers it.

Memory of a workgroup is not cleared. A kernel that computes with what it did not write is right as long as nobody uses
the results, but products of subnormal numbers take CPUs of Intel a hundred times as long.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

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
static int32_t careless(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  *(volatile float*)pyd_binding(d, 0) = *(volatile float*)w->local_memory * 3.0f;
  return 0;
}
#define EXPORTS(X) X(fill, 1, 0, 4 << 20) X(seen, 1, 0, 0) X(careless, 1, 0, 4096)
PYD_LIBRARY("memory", EXPORTS)
"""
"""`fill` fills the memory that the dispatches of a call share and clears what arithmetic remembers; `seen`: whether an
operand has been subnormal since; `careless` reads what it did not write."""

CARELESS = """
func.func @careless() -> tensor<i32> {
  %y = flow.dispatch @memory::@careless() : () -> tensor<i32>
  return %y : tensor<i32>
}
"""

EXPORT = """
    hal.executable.export public @NAME ordinal(NUMBER) layout(#hal.pipeline.layout<constants = 0, bindings = [
      #hal.pipeline.binding<storage_buffer>]>) count(%device: !hal.device) -> (index, index, index) {
      %c1 = arith.constant 1 : index
      hal.return %c1, %c1, %c1 : index, index, index
    }"""
EXECUTABLE = f"""
hal.executable private @memory {{
  hal.executable.variant public @v target(<"llvm-cpu", "embedded-elf-x86_64">)
      objects([#hal.executable.object<{{path = "memory.c"}}>]) {{
    {EXPORT.replace("NAME", "fill").replace("NUMBER", "0")}
    {EXPORT.replace("NAME", "seen").replace("NUMBER", "1")}
    {EXPORT.replace("NAME", "careless").replace("NUMBER", "2")}
  }}
}}
"""
CHECKED = """
func.func @checked_{name}({parameters}) -> ({results}, tensor<i32>, tensor<i32>) {{
  %before = flow.dispatch @memory::@fill() : () -> tensor<i32>
  %r = func.call @{name}({arguments}) : ({types}) -> {results}
  %after = flow.dispatch @memory::@seen() : () -> tensor<i32>
  return %r, %before, %after : {results}, tensor<i32>, tensor<i32>
}}
"""
_FUNCTION = re.compile(r"func\.func (?:public )?@(\w+)\((.*)\) -> \(?(tensor<[^>]*>)")


def unfilled_device() -> Any:
    """A device whose memory holds what kernels put there, and no pattern; with a limit of its own it shares no pool."""
    with mock.patch.dict(os.environ):
        os.environ.pop("PYDISPATCH_CHECK", None)
        return pd.device("cpu?workers=1&memory=17GiB")


def reads_unwritten(text: str, calls: dict[str, list[list[Any]]], folder: Path, cpu: str) -> list[str]:
    """The functions of a program that compute with memory which they did not write in one of their calls.

    text: functions of one result. calls: function -> lists of arguments."""
    (folder / "memory.c").write_text(SOURCE)
    twins, text = "", re.sub(r"^builtin\.module \{\n(.*)\}\s*$", r"\1", text, flags=re.DOTALL)
    for name, parameters, results in _FUNCTION.findall(text):
        pairs = [p.split(":") for p in re.findall(r"%\w+: [^,{]*(?:<[^>]*>)?", parameters)]
        given, types = (", ".join(pair[part].strip() for pair in pairs) for part in (0, 1))
        plain = ", ".join(f"{n.strip()}: {t.strip()}" for n, t in pairs)
        twins += CHECKED.format(name=name, parameters=plain, arguments=given, types=types, results=results)
    artifact = pd.compile(text + EXECUTABLE + twins, targets="cpu", cpu=cpu, object_search_path=[folder])
    loaded: Any = unfilled_device().load(artifact)
    return [name for name, every in calls.items() for arguments in every
            if np.asarray(getattr(loaded, f"checked_{name}")(*arguments)[2])]  # fmt: skip
