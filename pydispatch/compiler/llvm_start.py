"""LLVM's start, beside the import of the compiler: its library is large, and the first use of each part reads it in.

Imports nothing of this package, so that it may run in a thread while the main one imports.
"""

from __future__ import annotations

import sys
import threading

_LOOP = """
define void @f(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %v = load float, ptr %p
  %w = fmul float %v, 3.0
  store float %w, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""

_STARTED = threading.Lock()


def start() -> None:
    """Brings LLVM into memory in a thread of its own, once for the process. What goes wrong there is left for later."""
    if "llvmlite" not in sys.modules and _STARTED.acquire(blocking=False):
        threading.Thread(target=_use, name="pydispatch-llvm", daemon=True).start()


def _use() -> None:
    """Compiles a small loop for this machine."""
    try:
        from llvmlite import binding as llvm

        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
        )
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        builder = llvm.create_pass_builder(machine, options)
        with llvm.create_context() as context, llvm.parse_assembly(_LOOP, context) as module:
            builder.getModulePassManager().run(module, builder)
            machine.emit_object(module)
    except Exception:  # the compiler itself meets it again, and says so
        pass
