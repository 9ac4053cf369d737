"""IREE: its compiler, and calls of its virtual machine with arguments that are on the device and packed once."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pydispatch.bench.peer import Question
from pydispatch.bench.program import Work, array_of
from pydispatch.errors import InvalidArgumentError

READS = (".mlir", ".vmfb")
"""Suffixes of files: programs, and programs that IREE has compiled."""
PACKAGES = "iree-base-compiler iree-base-runtime"
"""Arguments of `pip install`, for the message that IREE is missing."""
CPU = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
"""Flags of the IREE compiler that select its CPU backend, without a model of CPU."""
THIS_CPU = (*CPU, "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O2")
"""Flags of the IREE compiler for the fastest code on the CPU of this machine."""


def work(question: Question) -> Work:
    """Compile the program with IREE unless the file is a .vmfb, call it once, and return the call to measure."""
    set_workers(question.workers)
    file = question.file if question.file.suffix == ".vmfb" else _compiled(question)
    # The driver "local-sync" runs in the calling thread, "local-task" in worker threads.
    module = Module(file, "local-sync" if question.workers == 1 else "local-task")
    returned = module.function(question.function)(*question.inputs)
    results = [array_of(value) for value in (returned if isinstance(returned, tuple | list) else [returned])]
    call = module.raw(question.function, *question.inputs)
    return Work(call, results, nbytes=0)  # the bandwidth of a peer is not reported


def set_workers(count: int) -> None:
    """Set the number of IREE worker threads for devices that are created later."""
    import iree.runtime as rt

    rt.flags.parse_flags(f"--task_topology_group_count={count}")


class Module:
    """Program that IREE has compiled, loaded on a device.

    `work` creates it, calls a function once by `function` for the results, and measures the call of `raw`.

    Args:
        file: The compiled program, a .vmfb.
        device: Name of an IREE driver, such as "local-task".

    Attributes:
        rt: The Python module `iree.runtime`.
        config: The driver's device, and the VM instance.
        context: VM context: the loaded modules and their state.
        module: The program.
    """

    def __init__(self, file: Path | str, device: str) -> None:
        """Map the compiled program in `file` into memory, and load it into a context of the driver `device`."""
        import iree.runtime as rt

        self.rt = rt
        self.config = rt.Config(device)
        self.context = rt.SystemContext(config=self.config)
        self.module = rt.VmModule.mmap(self.context.instance, str(file))
        self.context.add_vm_module(self.module)

    def function(self, name: str) -> Any:
        """Return a function of the module that takes NumPy arrays and returns device arrays."""
        return self.context.modules[self.module.name][name]

    def raw(self, name: str, *inputs: Any) -> Callable[[], Any]:
        """Return a call with the least overhead possible from Python, which returns a VM list of the results.

        The arguments are copied to the device and packed into a VM list here, once, so that a call only invokes the VM.

        Args:
            name: Name of the function.
            inputs: Its arguments: NumPy arrays, floats and integers.
        """
        rt, function, context = self.rt, self.module.lookup_function(name), self.context.vm_context
        arguments = rt.VmVariantList(len(inputs))
        referenced = []  # device arrays of `arguments`, which have to live as long as the call
        for value in inputs:
            if isinstance(value, np.ndarray):
                referenced.append(rt.asdevicearray(self.config.device, value))
                arguments.push_ref(referenced[-1]._buffer_view)
            elif isinstance(value, float):
                arguments.push_float(value)
            else:
                arguments.push_int(int(value))

        def call(referenced: Any = referenced) -> Any:
            """Call the function and return its results; the default of `referenced` keeps the arguments alive."""
            results = rt.VmVariantList(1)  # 1: initial capacity
            context.invoke(function, arguments, results)
            return results

        return call


def compiler() -> str:
    """Return the path of the iree-compile binary, if possible that of the package instead of its Python wrapper.

    Raise InvalidArgumentError if there is none.
    """
    if importlib.util.find_spec("iree") and importlib.util.find_spec("iree.compiler"):
        from iree.compiler.tools.binaries import find_tool

        return str(find_tool("iree-compile"))
    sibling = Path(sys.executable).with_name("iree-compile")
    tool = str(sibling) if sibling.exists() else shutil.which("iree-compile")
    if tool is None:
        raise InvalidArgumentError(f"--peer=iree: iree-compile is not installed: pip install {PACKAGES}")
    return tool


def _compiled(question: Question) -> Path:
    """Compile a program for this CPU, and return the path of the .vmfb in the question's folder."""
    output = question.folder / "iree.vmfb"
    command = [compiler(), str(question.file), "-o", str(output), *THIS_CPU]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()[:1]
        raise InvalidArgumentError(
            f"--peer=iree: iree-compile cannot compile '{question.file}': {lines[0] if lines else 'it was killed'}; "
            "give it a file of its own: --peer=iree=FILE"
        )
    return output
