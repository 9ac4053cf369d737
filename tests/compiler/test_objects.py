"""What is refused in users' objects, each with the object's name, the symbol and a remedy; and their valid twins."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest

from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import bitcode, objects, tools
from pydispatch.compiler.toolchain.llvm import version
from pydispatch.errors import CompileError

GOOD = b"static const int table[3] = {1, 2, 3};\nint user(int i) { return table[i]; }\n"


def compiled(text: bytes, arch: str = "x86_64", emit: str = "obj", *args: str) -> bytes:
    return tools.find().compile_c(text, arch=arch, emit=emit, extra_args=args)


def refuse(data: bytes, arch: str = "x86_64", name: str = "user.o") -> CompileError:
    with pytest.raises(CompileError) as caught:
        objects.check_object(ObjectFile(name, data), arch)
    assert name in caught.value.message and caught.value.note
    return caught.value


@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "riscv64"])
def test_good_object(arch: str) -> None:
    data = compiled(
        GOOD + b"float expf(float); extern int other(int);\nfloat f(float x) { return expf(x) + other(2); }", arch
    )
    checked = objects.check_object(ObjectFile("user.o", data), arch)
    assert checked.defined == {"user", "f"} and checked.undefined == {"expf", "other"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"int counter = 3; int user(void) { return ++counter; }", "4 bytes of writable data in section .data"),
        (b"static int seen[9]; int user(int i) { return seen[i]++; }", "36 bytes of writable data in section .bss"),
        (b"_Thread_local int mine; int user(void) { return ++mine; }", "thread-local data in section .tbss"),
        (
            b"extern _Thread_local int theirs; int user(void) { return theirs; }",
            "uses the thread-local variable 'theirs'",
        ),
        (b"int both[2];", "writable"),
        (b'__asm__(".section .note.GNU-stack,\\"x\\",@progbits");\nint user(void) { return 1; }', "executable stack"),
        (b'__asm__(".section .mixed,\\"awx\\",@progbits\\n.byte 1\\n.text");', "code in the writable section .mixed"),
    ],
)
def test_contents(source: bytes, message: str) -> None:
    assert message in refuse(compiled(source)).message


def test_common_variable() -> None:
    assert "has the writable variable 'shared'" in refuse(compiled(b"int shared;", "x86_64", "obj", "-fcommon")).message


def test_names_of_variables_are_told() -> None:
    assert "(counter)" in refuse(compiled(b"int counter = 3;")).message


def test_wrong_files() -> None:
    good = compiled(GOOD)
    error = refuse(compiled(GOOD, "aarch64"))
    assert "is for machine aarch64, the target is x86_64" in error.message and "--target=x86_64-linux" in str(
        error.note
    )
    assert "not an ELF file" in refuse(b"hello").message
    assert "name it .bc" in refuse(compiled(GOOD, "x86_64", "bc")).message
    assert "64-bit little-endian" in refuse(b"\x7fELF\x01\x01" + good[6:]).message
    assert "cut off" in refuse(good[: len(good) // 2]).message
    assert "broken ELF header" in refuse(good[:40]).message
    assert "of type shared object" in refuse(good[:16] + struct.pack("<H", 3) + good[18:]).message
    assert (
        "cut off"
        in refuse(b"!<arch>\nuser.o/         0           0     0     644     9999      `\nshort", name="lib.a").message
    )
    assert "broken archive" in refuse(b"!<arch>\nnothing", name="lib.a").message


def test_damaged_objects_never_crash() -> None:
    good = compiled(GOOD)
    rng = random.Random(3)
    refused = 0
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            objects.check_object(ObjectFile("user.o", bytes(data)), "x86_64")
        except CompileError:
            refused += 1
    assert refused > 10


def archive_of(bodies: dict[str, bytes]) -> bytes:
    archive = b"!<arch>\n"
    for name, body in bodies.items():
        archive += (
            f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(body):<10}`\n".encode() + body + b"\n" * (len(body) & 1)
        )
    return archive


def test_archive_members() -> None:
    bodies = {
        "a.o": compiled(b"int a(void) { return 1; }"),
        "b.o": compiled(b"int a(void); int b(void) { return a(); }"),
    }
    archive = archive_of(bodies)
    checked = objects.check_object(ObjectFile("lib.a", archive), "x86_64")
    assert checked.defined == {"a", "b"} and not checked.undefined and checked.lazy
    bad = archive + f"{'c.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{4:<10}`\nnope".encode()
    assert "lib.a(c.o)" in refuse(bad, name="lib.a").message


@pytest.mark.parametrize("kind", ["constructor", "destructor"])
def test_archives_run_no_code_when_they_are_loaded(kind: str) -> None:
    """Members that no kernel uses may have constructors: the linker leaves them out."""
    begin = f"int b(void) {{ return 2; }} __attribute__(({kind})) static void begin(void) {{ __builtin_trap(); }}"
    archive = archive_of({"a.o": compiled(b"int a(void) { return 1; }"), "b.o": compiled(begin.encode())})
    checked = objects.check_object(ObjectFile("lib.a", archive), "x86_64")

    def linked(name: str) -> bytes:
        user = compiled(f"int {name}(void); int user(void) {{ return {name}(); }}".encode())
        return tools.find().link_shared([user, archive], arch="x86_64", exports=["user"])

    objects.check_constructors(linked("a"), [checked])
    with pytest.raises(CompileError, match=r"lib.a\(b.o\) has constructors or destructors of global var") as caught:
        objects.check_constructors(linked("b"), [checked])
    assert "no code that runs at load" in str(caught.value.note)


def test_nearest_names() -> None:
    checked = objects.Checked("user.o", None, frozenset({"user"}), frozenset({"cosff"}))
    with pytest.raises(CompileError) as caught:
        objects.check_needs([checked], frozenset(), frozenset({"cosf", "sinf"}))
    assert "'user.o' refers to 'cosff', which nothing defines (nearest: 'cosf')" in caught.value.message
    objects.check_needs([checked], frozenset({"cosff"}), frozenset())


def test_bitcode_producer() -> None:
    data = compiled(GOOD, "x86_64", "bc")
    assert bitcode.llvm_major(data) == version()
    wrapped = struct.pack("<IIIII", 0x0B17C0DE, 0, 20, len(data), 7) + data
    assert bitcode.producer(wrapped) == bitcode.producer(data)
    objects.check_bitcode(ObjectFile("user.bc", data))


def refuse_bitcode(data: bytes) -> CompileError:
    with pytest.raises(CompileError) as caught:
        objects.check_bitcode(ObjectFile("user.bc", data))
    assert "user.bc" in caught.value.message and caught.value.note
    return caught.value


def test_bad_bitcode() -> None:
    data = compiled(GOOD, "x86_64", "bc")
    assert "it begins with 7f 45 4c 46" in refuse_bitcode(compiled(GOOD)).message
    assert "it begins with nothing" in refuse_bitcode(b"").message
    assert "wrapper" in refuse_bitcode(struct.pack("<IIIII", 0x0B17C0DE, 0, 20, 1 << 30, 7) + data).message
    assert "whole words" in refuse_bitcode(data[:-1]).message
    assert "is broken bitcode" in refuse_bitcode(data[: len(data) // 8 * 4]).message
    # LLVM22.1.x: the identification string is an array of 6-bit characters; the next release's has another digit.
    newer = newer_version(data)
    assert bitcode.llvm_major(newer) == 92
    error = refuse_bitcode(newer)
    assert f"was written by LLVM 92, this compiler reads up to LLVM {version()}" in error.message


def newer_version(data: bytes) -> bytes:
    """The file with the first digit of its LLVM version replaced by 9."""
    bits = int.from_bytes(data[:64], "little")
    for position in range(512):
        changed = bits & ~(0x3F << position) | (bitcode._CHAR6.index("9") << position)
        made = changed.to_bytes(64, "little") + data[64:]
        try:
            if bitcode.producer(made).startswith("LLVM92"):
                return made
        except bitcode.BitcodeError:
            continue
    raise AssertionError("the version was not found")


def test_damaged_identification_never_crashes() -> None:
    data = compiled(GOOD, "x86_64", "bc")
    rng = random.Random(5)
    for _ in range(2000):
        made = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            made[rng.randrange(64)] = rng.randrange(256)
        with contextlib.suppress(bitcode.BitcodeError):
            assert isinstance(bitcode.producer(bytes(made)), str)
    for length in range(0, 20, 4):
        with pytest.raises(bitcode.BitcodeError):
            bitcode.producer(data[:length])
