"""Worst error of every function of the device library, and times of the toolchain: `python bench/devlib_accuracy.py`.

Writes bench/devlib_accuracy.md. Errors are in units in the last place against mpmath (160 bits), at random points over
the ranges named in tests/devlib/devlib_driver.py, for the library without and with fused multiply-add.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "devlib"), str(ROOT)]
os.environ["PYDISPATCH_CACHE_DIR"] = tempfile.mkdtemp(prefix="bench-cache-")

from devlib_driver import CPUS, FUNCTIONS, Library, errors, expected, samples  # noqa: E402

from pydispatch.compiler import devlib, toolchain  # noqa: E402

KERNEL = b"void k(float* a, const float* b, int n) { for (int i = 0; i < n; ++i) a[i] = b[i] * 2.0f + a[i]; }\n"


def times() -> list[str]:
    tools = toolchain.find()
    body = KERNEL + b"\n".join(b"int f%d(int x) { return x * %d; }" % (i, i) for i in range(48))

    def best(function, count=9):
        samples = []
        for i in range(count):
            start = time.perf_counter()
            function(i)
            samples.append(time.perf_counter() - start)
        return sorted(samples)[count // 2] * 1e3

    rows = []
    cold = best(lambda i: tools.compile_c(body + b"//%d" % i, arch="x86_64"))
    tools.compile_c(body, arch="x86_64")
    warm = best(lambda i: tools.compile_c(body, arch="x86_64"))
    code = tools.compile_c(body.replace(b"void k", b'__attribute__((visibility("default"))) void k'), arch="x86_64")
    link = best(lambda i: tools.link_shared([code], arch="x86_64", exports=["k"]))
    size = len(tools.link_shared([code], arch="x86_64", exports=["k"]))
    rows.append(f"| compile 50 lines of C, new / cached | {cold:.1f} / {warm:.2f} ms |")
    rows.append(f"| link it ({size} bytes) | {link:.1f} ms |")
    for arch, cpu in (("x86_64", "x86-64-v2"), ("aarch64", "generic"), ("riscv64", "generic")):
        start = time.perf_counter()
        data = devlib.objects(arch, cpu)
        first = time.perf_counter() - start
        devlib._objects.cache_clear()
        start = time.perf_counter()
        devlib.objects(arch, cpu)
        again = time.perf_counter() - start
        start = time.perf_counter()
        devlib.bitcode(arch, cpu)
        bitcode = time.perf_counter() - start
        rows.append(
            f"| library for {arch} ({sum(map(len, data)) // 1024} KiB), objects new / from disk, bitcode new "
            f"| {first * 1e3:.0f} / {again * 1e3:.1f}, {bitcode * 1e3:.0f} ms |"
        )
    link = best(lambda i: tools.link_shared([code], arch="x86_64", exports=["k"], archives=devlib.objects("x86_64")))
    rows.append(f"| link with the library at hand | {link:.1f} ms |")
    return rows


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    libraries = {cpu: Library(cpu) for cpu in CPUS}
    lines = [__doc__.split("\n\n")[1].replace("Writes bench/devlib_accuracy.md. ", ""), ""]
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    lines += [f"{count} points per range. Tools: {toolchain.find().fingerprint()}; {machine}.", ""]
    lines += ["| function | float, generic | float, v3 | double, generic | double, v3 |", "|---|---|---|---|---|"]
    for function in FUNCTIONS:
        cells = []
        for suffix in ("f", ""):
            arguments = samples(function, suffix, count, seed=11)
            wanted = expected(function, arguments)
            cells += [f"{errors(libraries[c](function.name, suffix, *arguments), wanted).max():.3f}" for c in CPUS]
        lines.append(f"| {function.name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    lines += ["", "| what (median of 9) | time |", "|---|---|", *times(), ""]
    Path(__file__).with_suffix(".md").write_text("\n".join(lines))
    print("\n".join(lines[-10:]))


if __name__ == "__main__":
    main()
