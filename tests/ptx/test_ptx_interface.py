"""What PTX kernels expect and need, and the words for what does not fit."""

from __future__ import annotations

import pytest
from tools import assemble

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.ptx.interface import (
    ARCHITECTURES,
    MAX_SHARED,
    block_problem,
    capabilities,
    mismatch,
    parameter_sizes,
    requirements,
    shared_limit,
    split,
    target_problem,
)
from pydispatch.formats.ptx.module import PtxFunction
from pydispatch.formats.ptx.read import read


def entry(params: str, directives: str = "", body: str = "") -> PtxFunction:
    text = f".version 8.0\n.target sm_80\n.visible .entry k({params}) {directives}\n{{ {body} ret; }}\n"
    return read(text, "k.ptx").functions[0]


POINTER = ".param .u64 p{}"
TWO = POINTER.format(0) + ",\n.param .u64 .ptr .global .align 16 p1"


# Architectures


def test_a_device_has_what_it_can_compile() -> None:
    assert capabilities(7, 5) >= {"sm_50", "sm_75", "sm_75a", "cubin_sm_75", "cubin_sm_70"}
    assert not capabilities(7, 5) & {"sm_80", "sm_75f1", "cubin_sm_61", "cubin_sm_80"}
    assert {"sm_90", "sm_90a", "cubin_sm_90"} <= capabilities(9, 0) and "cubin_sm_89" not in capabilities(9, 0)
    assert "cubin_sm_86" in capabilities(8, 9) and "cubin_sm_89" not in capabilities(8, 6)
    # A device that is newer than this code.
    assert {"sm_121", "sm_130", "sm_131"} <= capabilities(13, 1)
    assert "sm_50" not in capabilities(3, 5)


@pytest.mark.parametrize("target", ["sm_50", "sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120", "sm_130"])
def test_who_takes_a_target(target: str) -> None:
    need = set(requirements(target))
    number, suffix = split(target)
    for major, minor in ((5, 0), (7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1), (13, 0)):
        cc = 10 * major + minor
        # What the documentation of nvcc says: sm_X runs from X on, sm_Xa on X alone, sm_Xf within its major version.
        takes = {"": cc >= number, "a": cc == number, "f": cc >= number and cc // 10 == number // 10}[suffix]
        assert (need <= capabilities(major, minor)) == takes, (major, minor)


def test_the_newest_asks_for_most() -> None:
    counts = [len(requirements(f"sm_{number}")) for number in sorted(ARCHITECTURES)]
    assert counts == sorted(set(counts)) == list(range(1, len(counts) + 1))
    assert len(requirements("sm_90a")) > len(requirements("sm_90"))
    with pytest.raises(InvalidArgumentError, match="'compute_80' is no architecture of CUDA; expected a name such as"):
        requirements("compute_80")


def test_versions_that_a_target_needs() -> None:
    def problem(version: str, target: str) -> str | None:
        return target_problem(read(f".version {version}\n.target {target}\n"))

    assert problem("6.3", "sm_75") is None and problem("9.0", "sm_50") is None and problem("9.0", "sm_130") is None
    assert problem("7.0", "sm_90") == "its .target sm_90 needs .version 7.8, the text says .version 7.0"
    assert problem("7.8", "sm_90a") == "its .target sm_90a needs .version 8.0, the text says .version 7.8"
    assert "its .target sm_80a has a suffix that sm_80 lacks" in (problem("9.0", "sm_80a") or "")
    assert "'sm_next' is no architecture" in (problem("8.0", "sm_next") or "")
    assert "its .target sm_85 is no architecture; known: sm_50, sm_52" in (problem("8.0", "sm_85") or "")


@pytest.mark.parametrize("target", ["sm_75", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_100f", "sm_103", "sm_120"])
def test_ptxas_draws_the_same_line(target: str) -> None:
    versions = [(major, minor) for major in range(6, 9) for minor in range(9)]
    text = ".version {}.{}\n.target {}\n.visible .entry k() {{ ret; }}\n"
    problems = [target_problem(read(text.format(*version, target))) is not None for version in versions]
    first = problems.index(False)
    assert not any(problems[first:]) and all(problems[:first])
    assert assemble(text.format(*versions[first], target), target) == ""
    assert assemble(text.format(*versions[first - 1], target), target) != ""


# Parameters


@pytest.mark.parametrize("params, constants, bindings", [
    (TWO, 0, 2),
    (TWO + ", .param .u32 n", 1, 2),
    (TWO + ", .param .u64 n, .param .u16 h, .param .f32 f", 4, 2),
    (TWO + ", .param .align 8 .b8 s[8]", 2, 2),
    (".param .align 8 .b8 wrapped[8]", 0, 1),
    ("", 0, 0),
])  # fmt: skip
def test_kernels_that_fit(params: str, constants: int, bindings: int) -> None:
    assert mismatch(entry(params), constants, bindings) is None


@pytest.mark.parametrize("params, constants, bindings, expected", [
    (TWO, 0, 3, "it has 2 parameters (line 3), the layout has 3 bindings and 0 constants: expected 3 pointers, and "
                "then the constants"),
    (".param .u32 n, " + TWO, 1, 2, "parameter 0 'n' (line 3) is .u32 of 4 bytes, expected a pointer of 64 bits for "
                                    "binding 0: the layout has 2 bindings and 1 constant, and bindings come first"),
    (".param .u64 p, \n.param .f64 x", 0, 2, "parameter 1 'x' (line 4) is .f64 of 8 bytes, expected a pointer of 64 "
                                             "bits for binding 1"),
    (TWO + ",\n.param .align 4 .b8 s[12]", 3, 2, "parameter 2 's' (line 5) is 12 bytes (.b8, a struct), expected a "
                                                 "scalar of up to 8 bytes"),
    (TWO + ", .param .u32 n", 0, 2, "its 1 parameter after the 2 pointers (line 3) takes 1 constant of 32 bits "
                                    "('n' .u32 of 4 bytes), the layout has 0"),
    (TWO + ", .param .u64 n", 1, 2, "its 1 parameter after the 2 pointers (line 3) takes 2 constants of 32 bits "
                                    "('n' .u64 of 8 bytes), the layout has 1; a parameter of 8 bytes takes two"),
    (TWO, 1, 2, "its 0 parameters after the 2 pointers (line 3) take 0 constants of 32 bits, the layout has 1"),
])  # fmt: skip
def test_kernels_that_do_not_fit(params: str, constants: int, bindings: int, expected: str) -> None:
    found = mismatch(entry(params), constants, bindings)
    assert found is not None and found.startswith(expected), found


def test_sizes_of_parameters() -> None:
    assert parameter_sizes(entry(TWO + ", .param .u8 a, .param .f16 b, .param .align 8 .b8 s[24]")) == (8, 8, 1, 2, 24)


# Blocks


def test_blocks_that_fit() -> None:
    assert block_problem(entry(""), (1024, 1, 1), 0) is None
    assert block_problem(entry("", ".reqntid 64, 2"), (64, 2, 1), 49152) is None
    assert block_problem(entry("", ".maxntid 64, 2, 1"), (16, 4, 2), 0) is None
    assert block_problem(entry("", "", ".shared .b8 s[1000];"), (1, 1, 64), 232448 - 1000) is None


@pytest.mark.parametrize("directives, size, shared, expected", [
    ("", (0, 1, 1), 0, "its block is 0x1x1, expected at least one thread in each direction"),
    ("", (64, 32, 1), 0, "its block of 64x32x1 is 2048 threads, CUDA has up to 1024 in a block"),
    ("", (1, 1, 65), 0, "its block of 1x1x65 is 65 threads, CUDA has up to 1024 in a block and 1024x1024x64 in its"),
    (".reqntid 32", (64, 1, 1), 0, "it states .reqntid 32, 1, 1 (line 3), the workgroup size is 64x1x1; they have to"),
    (".maxntid 16, 2", (33, 1, 1), 0, "it states .maxntid 16, 2 (line 3), 32 threads; the workgroup size 33x1x1 is 33"),
    ("", (32, 1, 1), 231449, "it takes 1000 bytes of workgroup memory and 231449 more at launch, a block has up to"),
])  # fmt: skip
def test_blocks_that_do_not_fit(directives: str, size: tuple[int, int, int], shared: int, expected: str) -> None:
    found = block_problem(entry("", directives, ".shared .b8 s[1000];"), size, shared)
    assert found is not None and found.startswith(expected), found


def test_workgroup_memory_of_a_block() -> None:
    """The table of NVIDIA's programming guide, in KiB."""
    table = {61: 48, 70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 110: 227, 120: 99}
    assert {number: shared_limit(number) >> 10 for number in table} == table
    assert max(map(shared_limit, table)) == MAX_SHARED
