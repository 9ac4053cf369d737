"""IREE's runtime: arguments on the device and packed once, then calls of its virtual machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from pydispatch.bench.peer import Question
from pydispatch.bench.program import Work
from pydispatch.errors import InvalidArgumentError

READS = (".mlir", ".vmfb")
PACKAGES = "iree-base-compiler iree-base-runtime"


def work(question: Question) -> Work:
    import iree.runtime as rt

    rt.flags.parse_flags(f"--task_topology_group_count={question.workers}")
    file = question.file if question.file.suffix == ".vmfb" else _compiled(question)
    config = rt.Config("local-sync" if question.workers == 1 else "local-task")
    context = rt.SystemContext(config=config)
    module = rt.VmModule.mmap(context.instance, str(file))
    context.add_vm_module(module)
    returned = context.modules[module.name][question.function](*question.inputs)
    results = [np.array(value) for value in (returned if isinstance(returned, tuple | list) else [returned])]
    function = module.lookup_function(question.function)
    arguments = rt.VmVariantList(len(question.inputs))
    kept = []  # what the list refers to
    for value in question.inputs:
        if isinstance(value, np.ndarray):
            kept.append(rt.asdevicearray(config.device, value))
            arguments.push_ref(kept[-1]._buffer_view)
        elif isinstance(value, float):
            arguments.push_float(value)
        else:
            arguments.push_int(int(value))

    def call(kept: Any = kept) -> Any:
        answers = rt.VmVariantList(len(results))
        context.vm_context.invoke(function, arguments, answers)
        return answers

    return Work(call, results, 0)


def _compiled(question: Question) -> Path:
    beside = Path(sys.executable).with_name("iree-compile")
    tool = str(beside) if beside.exists() else shutil.which("iree-compile")
    if tool is None:
        raise InvalidArgumentError(f"--peer=iree: iree-compile is not installed: pip install {PACKAGES}")
    output = question.folder / "iree.vmfb"
    done = subprocess.run(
        [tool, question.file, "-o", output, "--iree-hal-target-device=local",
         "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()[:1]
        raise InvalidArgumentError(
            f"--peer=iree: iree-compile cannot compile '{question.file}': {lines[0] if lines else 'it was killed'}; "
            "give it a file of its own: --peer=iree=FILE"
        )
    return output
