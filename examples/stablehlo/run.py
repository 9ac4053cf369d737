"""Run the StableHLO modules of this folder, with kernels of users, on one device, and compare them with NumPy.

    python run.py                    # all examples on the CPU
    python run.py vulkan:0           # or "webgpu:0", "cuda:0", "ptx-interpreter"

Plugins and kernels for CPUs are built with a C compiler, those for Vulkan with glslangValidator.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pydispatch as pd

HERE = Path(__file__).resolve().parent
TARGETS = {"ptx-interpreter": "cuda"}
"""Targets of devices whose names are no targets."""
X = np.array([[1, -2, 0.5], [0.25, 3, -1], [-0.5, 0.75, 2], [0, 1, -1.5]], np.float32)
SQUARE = np.array([[1, -2, 3, 0.5], [0.25, 4, -1, 2], [-3, 1.5, 0.5, 1], [2, 2, -2, 0.75]], np.float32)
"""Arguments of the examples."""


def target_of(device: str) -> str:
    """Return the target to compile for: the kind of the device."""
    kind = device.partition(":")[0].partition("?")[0]
    return TARGETS.get(kind, kind)


def execute(*words: str | Path) -> None:
    """Run a tool; its failure is an exception."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def plugin(target: str, folder: Path) -> Path:
    """Build the plugin with the functions that programs import, and return its path."""
    if target == "cpu":
        library = folder / "plugin.sos"
        source = HERE / "cpu" / "plugin.c"
        execute(sys.executable, "-m", "pydispatch.cli", "plugin", "build", source, "-o", library)
    elif target == "vulkan":
        library = folder / "plugin.spv"
        source = HERE / "vulkan" / "plugin.glsl"
        execute("glslangValidator", "-V", "-g", "--keep-uncalled", "-S", "comp", source, "-o", library)
    else:
        return HERE / target / {"cuda": "plugin.ptx", "webgpu": "plugin.wgsl"}[target]
    return library


def residual(target: str, folder: Path) -> Path:
    """Build the kernel that is given at run time, and return its path."""
    if target == "cpu":
        kernel = folder / "residual.so"
        source = HERE / "cpu" / "residual.c"
        execute("cc", "-O2", "-shared", "-fPIC", f"-I{pd.get_include()}", source, "-o", kernel)
    elif target == "vulkan":
        kernel = folder / "residual.spv"
        execute("glslangValidator", "-V", HERE / "vulkan" / "residual.comp", "-o", kernel)
    else:
        return HERE / target / {"cuda": "residual.ptx", "webgpu": "residual.wgsl"}[target]
    return kernel


def center(context: Any, x: Any) -> None:
    """Subtract the mean, in place. Registered as synchronous: operands have been computed."""
    array = x if context.kind == "cpu" else x.numpy()
    array -= array.mean()
    if context.kind != "cpu":
        x.upload(array)


def same(name: str, device: str, actual: Any, expected: Any) -> None:
    """Raise AssertionError if a result is not as expected, else print that it is right. name: of the example."""
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-5, atol=1e-6, err_msg=name)
    print(f"{name}: right on {device}")


def five_ways(name: str, folder: Path) -> None:
    """Run the functions of program.mlir: static and dynamic functions and dispatches, and a host command."""
    target = target_of(name)
    device = pd.device(name)
    device.add_plugin(plugin(target, folder))  # dynamic functions
    device.add_executable("given", residual(target, folder))  # dynamic dispatches
    device.add_command("center", center, synchronous=True)  # host commands
    program = device.load(pd.compile(HERE / "program.mlir", targets=target))

    weights = np.array([[0.5, -1, 2, 0.25], [1.5, 0.5, -0.5, 1], [-2, 1, 0.75, -0.25]], np.float32)
    sums = X @ weights + np.array([0.5, -0.5, 0.25, 1], np.float32)
    swished = sums * np.clip(sums + 3, 0, 6) / 6
    same("layer", name, program.layer(X), np.tanh(np.clip(swished, -1, 1)))
    scale = 1 / np.sqrt((SQUARE * SQUARE).mean(1, keepdims=True))
    same("normalize", name, program.normalize(SQUARE), SQUARE * scale + SQUARE / 2)
    exponentials = np.exp(SQUARE)
    same("centered", name, program.centered(SQUARE), exponentials.mean() - exponentials)


def custom_call(name: str, folder: Path) -> None:
    """Run custom_call.mlir: a kernel for each target takes the place of the call."""
    kernel = pd.WholeKernel(
        {"embedded-elf-x86_64": HERE / "cpu" / "residual.c", "embedded-elf-arm_64": HERE / "cpu" / "residual.c",
         "cuda-nvptx-fb": HERE / "cuda" / "residual.ptx", "vulkan-spirv-fb": HERE / "vulkan" / "residual.comp",
         "webgpu-wgsl-fb": HERE / "webgpu" / "residual.wgsl"},
        "residual", constants=("count",), workgroups=(("count", 64), 1, 1), workgroup_size=(64, 1, 1),
    )  # fmt: skip
    artifact = pd.compile(HERE / "custom_call.mlir", targets=target_of(name), kernels={"residual": kernel})
    y = np.flip(X)
    expected = 2 / (1 + np.exp(-X)) + y
    same("custom call", name, pd.device(name).load(artifact).main(X, y), expected)


def match_and_replace(name: str, folder: Path) -> None:
    """Run model.mlir: a transform spec replaces its product, a PDL spec replaces its squared difference."""
    artifact = pd.compile(
        HERE / "model.mlir", targets=target_of(name), require_match=True,
        transform_spec=HERE / "spec.mlir", pdl_spec=HERE / "spec.pdl.mlir",
    )  # fmt: skip
    device = pd.device(name)
    device.add_plugin(plugin(target_of(name), folder))
    y = X[:, :2]
    activated = np.tanh(X @ np.array([[0.5, -1], [1.5, 0.5], [-2, 1]], np.float32))
    same("match and replace", name, device.load(artifact).main(X, y), (activated - y) ** 2)


EXAMPLES: tuple[Callable[[str, Path], None], ...] = (five_ways, custom_call, match_and_replace)
"""Functions of the device's name and a folder for files, each of which runs one example."""


def main(name: str = "cpu") -> None:
    """Run all examples on a device."""
    with tempfile.TemporaryDirectory() as folder:
        for example in EXAMPLES:
            example(name, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
