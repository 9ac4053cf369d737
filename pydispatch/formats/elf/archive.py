"""The objects of an archive (`.a`), in the GNU or the BSD form."""

from __future__ import annotations

from collections.abc import Iterator

from pydispatch.formats.elf.reader import ElfError

_MAGIC = b"!<arch>\n"
"""The bytes at the beginning of an archive."""


def is_archive(data: bytes) -> bool:
    """Return whether bytes begin as an archive does."""
    return data.startswith(_MAGIC)


def members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each member of an `ar` archive except symbol tables.

    A member has a header of 60 bytes: a name of 16, ..., its size in decimal digits at 48, and two closing bytes at 58.
    Long names are in the member `//` (GNU) or before the content (BSD, `#1/length`).

    Raises:
        ElfError: The archive is broken.
    """
    position, names = len(_MAGIC), b""  # names: the content of the member `//`
    while position < len(data):
        header = data[position : position + 60]
        if len(header) < 60 or header[58:] != b"`\n" or not header[48:58].strip().isdigit():
            raise ElfError(f"is a broken archive: no member begins at byte {position}")
        name, size = header[:16].rstrip(), int(header[48:58])
        body = data[position + 60 : position + 60 + size]
        if len(body) < size:
            raise ElfError(f"is cut off: its member at byte {position} has {size} bytes, {len(body)} are there")
        position += 60 + size + (size & 1)  # members begin at even offsets
        if name == b"//":
            names = body
        elif name.startswith(b"#1/") and name[3:].isdigit():
            length = int(name[3:])
            if not body.startswith(b"__.SYMDEF"):
                yield body[:length].rstrip(b"\0").decode(errors="replace"), body[length:]
        elif name not in (b"/", b"/SYM64/", b"__.SYMDEF", b"__.SYMDEF SORTED"):  # symbol tables, GNU and BSD
            if name.startswith(b"/") and name[1:].isdigit():  # an offset in the long names
                name = names[int(name[1:]) :].split(b"\n")[0]
            # GNU ends each name with a slash.
            yield name.rstrip(b"/").decode(errors="replace"), body
