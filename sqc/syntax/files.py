"""Reading a program's file: one clear diagnostic for everything that is no text."""

from __future__ import annotations

from pathlib import Path

from sqc.diagnostics import CompileError, Diagnostic, Source

MAX_BYTES = 1_000_000


def read_source(path: Path, shown: str) -> Source:
    """The text of a file, reported as `shown`. Raises CompileError with one diagnostic."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise _fail("E108", f"cannot read the file: {reason}", shown) from None
    except ValueError as error:  # a NUL in the name
        raise _fail("E108", f"cannot read the file: {error}", shown) from None
    return Source(shown, decode(data, shown))


def decode(data: bytes, shown: str) -> str:
    """Bytes as program text: UTF-8 (with or without a mark at its begin), no NUL, of sane size."""
    if len(data) > MAX_BYTES:
        raise _fail("E106", f"larger than {MAX_BYTES // 1000} kB: this is no program", shown)
    if b"\0" in data:
        raise _fail("E107", "contains NUL bytes: this is no text file", shown)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _fail("E107", f"not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}", shown) from None


def check_text(text: str, shown: str) -> None:
    """The same limits for a text that is already in memory."""
    if len(text) > MAX_BYTES:
        raise _fail("E106", f"larger than {MAX_BYTES // 1000} kB: this is no program", shown)
    if "\0" in text:
        raise _fail("E107", "contains NUL characters: this is no program", shown)


def _fail(code: str, message: str, shown: str) -> CompileError:
    return CompileError([Diagnostic(code, message, shown)])
