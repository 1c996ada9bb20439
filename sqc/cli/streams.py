"""The standard streams: closed ones, and a program on standard input."""

from __future__ import annotations

import errno
import io
import os
import sys


def reopen_closed() -> None:
    """Give a standard stream that the shell closed (`>&-`) back its number, so that no other file gets it.

    Using it then fails as using any closed file does; only what is said on a closed standard error is lost.
    """
    for number, name, flags in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, flags)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        setattr(sys, name, io.TextIOWrapper(io.FileIO(number, "w" if number else "r", closefd=False), encoding="utf-8"))


def read_program() -> str:
    """The text on standard input: UTF-8, whatever the locale. Raises CompileError where it is no text."""
    from sqc.syntax.files import MAX_BYTES, decode

    if sys.stdin is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "<stdin>")
    return decode(sys.stdin.buffer.read(MAX_BYTES + 1), "<stdin>")
