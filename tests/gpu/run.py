"""Everything that needs an NVIDIA GPU, in one command: `make test-gpu`, or `python tests/gpu/run.py [name ...]`.

The Python that runs it needs NumPy and cuda-bindings. When the extensions are not built yet it builds them, with a C
compiler, and fetches Cython and setuptools for that into build/cython where Python has none. Fails without a GPU.
Programs are compiled here when the compiler is installed, else those of tests/gpu/data run. What is not installed
(PyTorch, CuPy, compute-sanitizer) is named at the end. `--only-crash` and `--prelude` are for the tests themselves.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "examples" / "cuda"
DATA = ROOT / "tests" / "cuda" / "data"
sys.path.insert(0, str(ROOT))


class Missing(Exception):
    """Why a test cannot run here."""


def build() -> None:
    """The extensions for this Python, when they are not there; and the package, when it is not installed."""
    core = ROOT / "_core"
    if not any((core / f"core{suffix}").exists() for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        environment = dict(os.environ)
        if not all(importlib.util.find_spec(name) for name in ("Cython", "setuptools")):
            tools = environment["PYTHONPATH"] = str(ROOT / "build" / "cython")
            print(f"fetching Cython and setuptools into {tools}", flush=True)
            fetch = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--upgrade"]
            if subprocess.run([*fetch, "--target", tools, "cython>=3.1", "setuptools>=77"], check=False).returncode:
                sys.exit(
                    "Cython and setuptools are missing, and the extensions not built: pip install cython setuptools"
                )
        print("building the extensions", flush=True)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
    try:
        import pydispatch
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("pydispatch._core"):
            raise
        # From a checkout: the folder _core is the package pydispatch._core.
        for name in [name for name in sys.modules if name.partition(".")[0] == "pydispatch"]:
            del sys.modules[name]
        spec = importlib.util.spec_from_file_location("pydispatch._core", core / "__init__.py")
        assert spec is not None and spec.loader is not None
        made = sys.modules["pydispatch._core"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        import pydispatch

        pydispatch._core = made  # type: ignore[attr-defined]


def compile_programs(folder: Path) -> Path:
    """The folder with the programs: compiled now, or those that are kept."""
    if all(importlib.util.find_spec(name) for name in ("xdsl", "llvmlite")):
        subprocess.run([sys.executable, HERE / "make.py", folder], check=True)
        return folder
    print("the compiler is not installed: the programs of tests/gpu/data run")
    return HERE / "data"


class Tests:
    """Each method that begins with `test_` is one."""

    def __init__(self, device: Any, data: Path, prelude: str | None) -> None:
        import numpy as np

        self.np, self.device, self.data, self.prelude = np, device, data, prelude
        self.random = np.random.default_rng(11)

    def load(self, name: str) -> Any:
        return self.device.load(self.data / f"{name}.pdx")

    def given(self, *sizes: int, dtype: str = "float32") -> Any:
        return self.random.standard_normal(sizes, dtype="float32").astype(dtype)

    def same(self, found: Any, expected: Any) -> None:
        self.np.testing.assert_array_equal(found, expected)

    def close(self, found: Any, expected: Any, tolerance: float) -> None:
        """Within a fraction of the largest value."""
        found, expected = self.np.asarray(found, "float64"), self.np.asarray(expected, "float64")
        worst = float(abs(found - expected).max() / abs(expected).max())
        assert worst <= tolerance, f"off by {worst:.3g} of the largest value, allowed is {tolerance:.3g}"

    # Programs

    def test_example(self) -> None:
        f = self.load("example").mixed_invocation
        for size in (1, 63, 64, 65, 1000, 100_000):
            a, b = self.given(2, size)
            self.close(f(a, b), (a * b) * (a * b + b), 1e-6)

    def test_functions_at_load(self) -> None:
        import pydispatch as pd

        try:
            self.load("functions")
            raise AssertionError("a function is missing")
        except pd.MissingImportError as error:
            assert "scale_workgroup" in str(error)
        provider = self.device.add_plugin(EXAMPLE / "plugin.ptx")
        try:
            a, b = self.given(2, 1000)
            self.close(self.load("functions").mixed_invocation(a, b), (a * b) * (a * b + b), 1e-6)
        finally:
            self.device.remove_plugin(provider)

    def test_scalars_constants_shared_memory(self) -> None:
        np, program = self.np, self.load("kernels")
        n = np.arange(-50, 50)
        self.same(program.scale(n, 1 << 40, -7.9, -3), (n << 40) - 7 - 3)
        r = np.arange(512, dtype=np.float32)
        self.same(program.reverse(r), r.reshape(4, 128)[:, ::-1].ravel())
        i = np.arange(100, dtype=np.int32)
        self.same(program.affine(i), i * -5 + 11)

    def test_declared_kernels(self) -> None:
        self.device.add_executable("executable", DATA / "kernels_sm_75.ptx")
        a, b = self.given(2, 777)
        self.same(self.load("declared").simple_mul(a, b), a * b)

    def test_generated_integers_are_exact(self) -> None:
        x, y = self.random.integers(-(2**31), 2**31, (2, 5001), dtype="int32")
        self.same(self.load("generated").integers(x, y), self.np.maximum(x * y ^ x, y))

    def test_generated_floats(self) -> None:
        np, program = self.np, self.load("generated")
        x, y = self.given(2, 5001)
        self.close(program.pointwise(x, y), np.tanh(x.astype("f8")) * np.exp(y.astype("f8")), 1e-6)
        self.same(program.halves(x.astype("float16")), x.astype("float16") * x.astype("float16"))
        rows = self.given(64, 100)
        e = np.exp(rows.astype("f8"))
        self.close(program.softmax(rows), e / e.sum(1, keepdims=True), 1e-6)
        for count in (1, 31, 1000, 100_003):
            x = abs(self.given(count))
            self.close(program.total(x), x.astype("f8").sum(), 1e-5)

    def test_generated_products(self) -> None:
        program = self.load("generated")
        for m, k, n in ((1, 1, 1), (65, 33, 70), (256, 300, 128)):
            a, b = self.given(m, k), self.given(k, n)
            self.close(program.matmul(a, b), a.astype("f8") @ b.astype("f8"), 1e-5)
        a, b = self.given(256, 128, dtype="float16"), self.given(128, 192, dtype="float16")
        self.close(program.matmul_f16(a, b), a.astype("f8") @ b.astype("f8"), 1e-3)

    def test_equal_calls_give_equal_bits(self) -> None:
        program = self.load("generated")
        a, b, x = self.given(256, 300), self.given(300, 128), self.given(100_003)
        first, total = program.matmul(a, b).numpy(), program.total(x).numpy()
        for _ in range(5):
            self.same(program.matmul(a, b), first)
            self.same(program.total(x), total)

    def test_fills_copies_and_steps(self) -> None:
        np, program = self.np, self.load("generated")
        call = program.filled.prepare(1 << 33, 7, 5)
        for v, w in ((1 << 33, 7), (-5, 257), (3, -1)):
            for found, expected in zip(call(v, w, 5), (v, w, v), strict=True):
                self.same(found, [expected] * 5)
        assert int(program.collatz(np.array(27, np.int32)).numpy()) == 111

    # Calls and memory

    def test_prepared_calls(self) -> None:
        f = self.load("kernels").mixed_invocation
        a, b = self.given(2, 1 << 13)
        x, y = self.device.upload(a), self.device.upload(b)
        call = f.prepare(x, y)
        for _ in range(100):
            call()
        self.same(call(), b * (a * b))
        for _ in range(20):  # told of other memory, again and again
            self.same(call(y, x), a * (b * a))
            self.same(call(x, y), b * (a * b))
        assert len(f.profile(x, y)) == 3 and all(0 < t.seconds < 1 for t in f.profile(x, y))

    def test_results_in_given_memory(self) -> None:
        f = self.load("kernels").mixed_invocation
        a, b = self.given(2, 4096)
        out = self.device.empty(4096)
        assert f(a, b, out=out) is out
        self.same(out, b * (a * b))
        y = self.device.upload(b)
        f(a, y, out=y)
        self.same(y, b * (a * b))

    def test_memory_is_used_again(self) -> None:
        f = self.load("kernels").mixed_invocation
        a, b = self.given(2, 1 << 12)
        for _ in range(50):
            y = f(a, b)
        before = self.device.memory()["reserved_bytes"]
        for _ in range(200):
            y = f(a, b)
        assert self.device.memory()["reserved_bytes"] == before
        self.same(y, b * (a * b))
        del y
        self.device.trim()
        assert self.device.memory()["live_blocks"] == 0 or self.device.memory()["free_bytes"] == 0

    def test_out_of_memory_is_survived(self) -> None:
        import pydispatch as pd

        try:
            self.device.empty(1 << 48, "uint8")
            raise AssertionError("there is no such GPU")
        except pd.OutOfMemoryError as error:
            assert str(1 << 48) in str(error)
        a, b = self.given(2, 100)
        self.same(self.load("kernels").mixed_invocation(a, b), b * (a * b))

    def test_threads(self) -> None:
        import threading

        f, good = self.load("kernels").mixed_invocation, []

        def work(seed: int) -> None:
            a, b = self.np.random.default_rng(seed).standard_normal((2, 3000), dtype="float32")
            call = f.prepare(a, b)
            for _ in range(20):
                self.same(f(a, b), b * (a * b))
                self.same(call(), b * (a * b))
            good.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(good) == [0, 1, 2, 3]

    # Others

    def test_pytorch(self) -> None:
        torch: Any = need("torch")
        if not torch.cuda.is_available():
            raise Missing("torch has no CUDA")
        where, f = f"cuda:{self.device._context.index}", self.load("kernels").mixed_invocation
        a, b = torch.randn(2, 1 << 20, device=where)
        y = torch.from_dlpack(f(a, b))
        assert y.device == a.device and torch.equal(y, b * (a * b))
        out = torch.empty_like(a)
        assert f(a, b, out=out) is out and torch.equal(out, b * (a * b))
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(20):
                c = torch.randn(1 << 20, device=where)
                c.mul_(2)
                z = torch.from_dlpack(f(c, b, stream=side))
                expected = b * (c * b)
                c.zero_()
                assert torch.equal(z, expected)
        call = f.prepare(a, b)
        assert torch.equal(torch.as_tensor(call(), device=where), b * (a * b))  # by __cuda_array_interface__

    def test_cupy(self) -> None:
        cupy: Any = need("cupy")
        f = self.load("kernels").mixed_invocation
        a, b = cupy.random.standard_normal((2, 10_000), dtype="float32")
        y = cupy.from_dlpack(f(a, b))
        assert (y == b * (a * b)).all() and (cupy.asarray(f(a, b)) == y).all()

    # Errors, in processes of their own

    def test_illegal_addresses(self) -> None:
        for option in ("", "?check=1"):
            done = self.run("--only-crash", self.device.name + option)
            assert done.returncode == 0, done.stdout + done.stderr
        a, b = self.given(2, 100)
        self.same(self.load("kernels").mixed_invocation(a, b), b * (a * b))

    def run(self, *arguments: str, before: tuple[str, ...] = ()) -> Any:
        extra = ["--prelude", self.prelude] if self.prelude else []
        command = [*before, sys.executable, __file__, *extra, "--data", str(self.data), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def test_compute_sanitizer(self) -> None:
        import shutil

        tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        if tool is None:
            raise Missing("compute-sanitizer is not installed")
        names = ("example", "functions_at_load", "scalars_constants", "generated_floats", "generated_products", "fills")
        for kind in ("memcheck", "racecheck", "initcheck", "synccheck"):
            done = self.run(*names, before=(tool, "--tool", kind, "--error-exitcode", "9"))
            if "Device not supported" in done.stdout + done.stderr:
                raise Missing("compute-sanitizer does not know this device or system")
            assert done.returncode == 0, f"{kind}: {done.stdout[-4000:]}{done.stderr[-2000:]}"


def need(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing(f"{name} is not installed") from None


def crash(name: str, data: Path) -> None:
    """A kernel that leaves its memory: who is named, and what is said from then on."""
    import numpy as np

    import pydispatch as pd
    from pydispatch.runtime.devices.cuda.driver import DeviceLostError

    device: Any = pd.device(name)
    program = device.load(data / "stray.pdx")
    try:
        program.stray(np.zeros(64, np.float32)).numpy()
    except pd.KernelError as error:
        assert "dispatch @executable::@stray" in str(error) and "of @stray" in str(error), error
        assert (error.executable, error.export) == ("executable", "stray")
    else:
        raise AssertionError("the kernel had no error")
    for each in (device.synchronize, lambda: pd.device(name), lambda: device.upload(np.zeros(3))):
        try:
            each()
        except DeviceLostError as error:
            assert "start a new process" in str(error)
        else:
            raise AssertionError("a lost device was used")
    assert pd.device("cpu").describe()["name"] == "cpu"  # the process lives on


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="run only tests whose name has one of these in it")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, help="a folder with the compiled programs")
    parser.add_argument("--prelude", help=argparse.SUPPRESS)
    parser.add_argument("--only-crash", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if importlib.util.find_spec("numpy") is None:
        sys.exit(f"{sys.executable} has no NumPy: pip install numpy cuda-bindings, or GPU_PYTHON= another one")
    build()
    if args.prelude:
        import runpy

        runpy.run_path(args.prelude)
    if args.only_crash:
        crash(args.only_crash, args.data)
        return 0
    import pydispatch as pd

    try:
        device: Any = pd.device(args.device)
    except pd.DeviceUnavailableError as error:
        print(f"no GPU to test on: {error}")
        return 1
    facts = device.describe()
    print(f"{facts['name']}: {facts['model']}, compute capability {facts['capability']}, driver {facts['driver']}")
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(device, args.data or compile_programs(Path(folder)), args.prelude)
        return run_all(tests, args.names, facts["model"])


def run_all(tests: Tests, chosen: list[str], card: str) -> int:
    found: dict[str, Callable[[], None]] = {
        name.removeprefix("test_"): getattr(tests, name) for name in dir(Tests) if name.startswith("test_")
    }
    failed, missing, passed = [], {}, 0
    for name, test in found.items():
        if chosen and not any(part in name for part in chosen):
            continue
        start = time.perf_counter()
        try:
            test()
        except Missing as error:
            missing[name] = str(error)
            continue
        except Exception:
            failed.append(name)
            print(f"FAILED {name}\n{traceback.format_exc()}")
            continue
        passed += 1
        print(f"ok {name} ({time.perf_counter() - start:.2f} s)", flush=True)
    for name, what in missing.items():
        print(f"not run: {name}: {what}")
    print(f"{passed} passed, {len(failed)} failed, {len(missing)} not run, on {card}")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
