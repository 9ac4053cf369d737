"""The modes, one row each, and how a function of each is made."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydispatch.bench.modes import baselines, programs
from pydispatch.errors import Error

SOURCE = Path(__file__).with_name("mul.c")
"""C source of all forms of the multiplication; a macro, such as PLUGIN or MATCHED, selects one."""
# Names of Windows and macOS for architectures that MLIR and C compilers call differently.
ARCH = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


@dataclass(frozen=True)
class Mode:
    """Way to dispatch an operation, or a direct call as baseline.

    Attributes:
        name: Name in tables.
        make: Maps an empty folder for files to the device (None for a baseline) and a function of two f32
            tensors of one size.
        most_elements: Largest number of elements that is measured; beyond it a call takes too long.
    """

    name: str
    make: Callable[[Path], tuple[Any, Any]]
    most_elements: int = 1 << 24


def modes() -> list[Mode]:
    """Return all modes in the order of the tables: ways to run one elementwise multiplication of f32 tensors.

    A Mode is a name with a function `make`, which returns the device and the function to call. The first nine run on
    the CPU and differ in where the code of the multiplication comes from. The next four are other devices with
    generated code. The "direct" ones call a function without pydispatch, as baselines.

    Calling `make` of a mode raises DeviceUnavailableError if its device or package is missing.
    """
    return [  # the arguments of _generated_loader: device to load on, target to compile for
        Mode("generated code", _generated_loader("cpu", "cpu")),
        Mode("C, inlined", _load_inlined),
        Mode("object, linked", _load_linked),
        Mode("plugin, embedded ELF", _load_embedded_plugin),
        Mode("plugin of the system", _load_system_plugin),
        Mode("whole kernel", _load_whole_kernel),
        Mode("executable given at load", _load_given_kernel),
        Mode("match and replace", _load_matched),
        Mode("host command", _load_host_command),
        Mode("Vulkan", _generated_loader("vulkan", "vulkan")),
        Mode("WebGPU", _generated_loader("webgpu", "webgpu")),
        # The interpreter simulates CUDA threads on the CPU, so that a call of more elements takes too long.
        Mode("PTX interpreter", _generated_loader("ptx-interpreter", "sm_80"), most_elements=1 << 14),
        Mode("CUDA", _generated_loader("cuda", "cuda")),
        Mode("direct: NumPy", baselines.by_numpy),
        Mode("direct: ctypes", lambda folder: baselines.by_ctypes(_write_shared_library(folder))),
        Mode("direct: cffi", lambda folder: baselines.by_cffi(_write_shared_library(folder))),
        Mode("direct: Numba", baselines.by_numba),
    ]


def create_modes(folder: Path) -> tuple[list[tuple[Mode, Any, Any]], list[tuple[str, str]]]:
    """Create all modes; return (mode, device, function) of those that run here, and (name, error) of the others."""
    runnable: list[tuple[Mode, Any, Any]] = []
    missing: list[tuple[str, str]] = []
    for index, mode in enumerate(modes()):
        subfolder = folder / str(index)
        subfolder.mkdir()
        try:
            runnable.append((mode, *mode.make(subfolder)))
        except Error as error:
            missing.append((mode.name, str(error)))
    return runnable, missing


def _generated_loader(device: str, target: str) -> Callable[[Path], tuple[Any, Any]]:
    """Return the constructor (`Mode.make`) of the mode that runs code generated for `target` on the device `device`.

    The constructor takes a folder and returns (device, function), as those of all modes do; it needs no files.
    """

    def make(folder: Path) -> tuple[Any, Any]:
        """Return (device, function) of the multiplication, compiled for `target`; nothing is written into `folder`."""
        import pydispatch

        return _compile_and_load(programs.GENERATED, pydispatch.device(device), target)

    return make


def _compile_and_load(text: str, device: Any = None, target: str | None = None, patterns: Any = ()) -> tuple[Any, Any]:
    """Compile a program and load it; return the device and the program's function main.

    Args:
        text: MLIR.
        device: Device to load the program on; None for the CPU.
        target: Target to compile for; None for the one that the program names.
        patterns: Patterns whose matches are replaced.
    """
    import pydispatch

    device = pydispatch.device("cpu") if device is None else device
    return device, device.load(pydispatch.compile(text, targets=target, cpu="native", patterns=patterns)).main


def _write_with_define(folder: Path, name: str) -> Path:
    """Write a copy of the C source that defines the macro `name`, which selects one of its variants; return its
    path."""
    path = folder / "mul.c"
    path.write_text(f"#define {name}\n{SOURCE.read_text()}")
    return path


def _cpu_level() -> str:
    """Return this CPU's ISA level, such as x86-64-v3, as the C compiler names it, or `generic`."""
    import pydispatch

    return str(pydispatch.device("cpu").describe().get("level") or "generic")


def _compile_object(folder: Path, form: str) -> Path:
    """Compile a variant of the C source into an object file; return its path. form: macro that selects the variant."""
    import pydispatch
    from pydispatch.compiler.toolchain import tools

    path = folder / "mul.o"
    path.write_bytes(
        tools.find().compile_c(
            _write_with_define(folder, form), arch=ARCH, cpu=_cpu_level(), features=(), emit="obj",
            include_dirs=[pydispatch.get_include()],
        )
    )  # fmt: skip
    return path


def _load_inlined(folder: Path) -> tuple[Any, Any]:
    """Load a program that calls a C function whose source it names, which the compiler can inline."""
    return _compile_and_load(programs.function(ARCH, str(_write_with_define(folder, "FUNCTION"))))


def _load_linked(folder: Path) -> tuple[Any, Any]:
    """Load a program that calls a C function of an object file, which is linked into its kernel."""
    return _compile_and_load(programs.function(ARCH, str(_compile_object(folder, "FUNCTION"))))


def _build_standalone(form: str) -> bytes:
    """Return a variant of the C source as an ELF plugin that needs no libc. form: macro that selects the variant."""
    import pydispatch
    from pydispatch.compiler.driver import plugin

    return plugin.build_standalone(
        [SOURCE], arches=[ARCH], cpu=_cpu_level(), include_dirs=[pydispatch.get_include()], defines=[form]
    )[ARCH]


def _load_with_plugin(folder: Path, data: bytes, text: str) -> tuple[Any, Any]:
    """Load a program whose imports a plugin resolves; return the device and the function.

    The plugin is removed from the device after loading; the loaded program keeps it.

    data: contents of the plugin's file. text: the program in MLIR.
    """
    import pydispatch

    path = folder / "mul.so"
    path.write_bytes(data)
    device = pydispatch.device("cpu")
    provider = device.add_plugin(path)
    try:
        return _compile_and_load(text, device)
    finally:
        device.remove_plugin(provider)


def _load_embedded_plugin(folder: Path) -> tuple[Any, Any]:
    """Load the program whose import a freestanding ELF plugin resolves; `folder` gets the plugin's file."""
    return _load_with_plugin(folder, _build_standalone("PLUGIN"), programs.function(ARCH, path=None))


def _build_system_library() -> bytes:
    """Return the bytes of a shared library of the operating system, built from the C source for this CPU."""
    import pydispatch
    from pydispatch.compiler.driver import plugin

    return plugin.build_system(
        [SOURCE], include_dirs=[pydispatch.get_include()], defines=["PLUGIN"], extra_args=["-march=native"]
    )


def _load_system_plugin(folder: Path) -> tuple[Any, Any]:
    """Load the program whose import a shared library of the system resolves; `folder` gets the library's file."""
    return _load_with_plugin(folder, _build_system_library(), programs.function(ARCH, path=None))


def _write_shared_library(folder: Path) -> Path:
    """Write the compiled C source as a shared library of the operating system into `folder`, and return its path."""
    path = folder / "mul.so"
    path.write_bytes(_build_system_library())
    return path


def _load_matched(folder: Path) -> tuple[Any, Any]:
    """Load the generated program with a pattern that replaces its multiplication by a C function.

    Returns (device, function); `folder` is not used.
    """
    import pydispatch

    size = pydispatch.f32["n"]

    def product(lhs: Any, rhs: Any) -> Any:
        """Define the multiplication that the pattern matches; `pattern` traces this function."""
        return lhs * rhs

    # In the definition, annotations would be texts (`from __future__ import annotations`) that name a local value.
    product.__annotations__ = {"lhs": size, "rhs": size}
    pattern = pydispatch.pattern(product)
    pattern.replace(pydispatch.CFunction(SOURCE, "mul_matched", tile={"n": 1024}, defines=["MATCHED"]))
    return _compile_and_load(programs.GENERATED, patterns=[pattern])


def _load_whole_kernel(folder: Path) -> tuple[Any, Any]:
    """Load a program whose kernel is a C function, compiled with the program from a source file in `folder`."""
    return _compile_and_load(programs.kernel(ARCH, str(_write_with_define(folder, "KERNEL"))))


def _load_given_kernel(folder: Path) -> tuple[Any, Any]:
    """Load a program whose kernel is passed to the device as a separate executable, and return (device, function).

    The executable is linked from the C source, which is compiled in `folder`.
    """
    import pydispatch
    from pydispatch.compiler.toolchain import tools

    code = tools.find().link_shared(
        [_compile_object(folder, "KERNEL").read_bytes()], arch=ARCH, exports=["iree_hal_executable_library_query"]
    )
    device = pydispatch.device("cpu")
    device.add_executable("kernels", code)
    return _compile_and_load(programs.kernel(ARCH, path=None), device)


def _load_host_command(folder: Path) -> tuple[Any, Any]:
    """Load a program that calls a host command of a plugin; `folder` gets the plugin's file."""
    return _load_with_plugin(folder, _build_standalone("COMMAND"), programs.command())
