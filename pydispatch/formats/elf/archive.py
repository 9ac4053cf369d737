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

    The header of a member has 60 bytes. Of these, bytes 0 to 15 are the name, bytes 48 to 57 the size of the content in
    decimal digits, and bytes 58 and 59 an end mark. A name that does not fit is stored elsewhere: GNU writes `/offset`,
    an offset in the member `//`; BSD writes `#1/length` and puts the name before the content.

    Raises:
        ElfError: The archive is broken.
    """
    position = len(_MAGIC)
    long_names = b""  # the content of the member `//`
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
            long_names = body
        elif name.startswith(b"#1/") and name[3:].isdigit():
            length = int(name[3:])
            if not body.startswith(b"__.SYMDEF"):
                yield body[:length].rstrip(b"\0").decode(errors="replace"), body[length:]
        elif name not in (b"/", b"/SYM64/", b"__.SYMDEF", b"__.SYMDEF SORTED"):  # symbol tables, GNU and BSD
            if name.startswith(b"/") and name[1:].isdigit():  # an offset in the long names
                name = long_names[int(name[1:]) :].split(b"\n")[0]
            # GNU ends each name with a slash.
            yield name.rstrip(b"/").decode(errors="replace"), body
