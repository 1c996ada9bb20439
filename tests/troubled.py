"""A process that runs `sqc sweep` on a disk with a trouble, for `isolated.Server`; kernels are stand-ins.

A call is the trouble and the words after `sweep`; the answer is the exit code and what it wrote on stderr.
The trouble is `read-only`, or how many bytes a file may have. Each call is run by a child of its own, which the
trouble ends with.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import pytest

import fakes
from isolated import serve
from sqc.cli import main

NOBODY = 65534


def answer(call: tuple[str, list[str]]) -> Any:
    trouble, words = call
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(here)
        if trouble != "read-only":
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(trouble), int(trouble)))
        elif os.geteuid() == 0:
            os.setuid(NOBODY)  # nothing is read-only to root
        os.write(there, json.dumps(said(words)).encode())
        os._exit(0)
    os.close(there)
    with open(here, "rb") as pipe:
        result = json.loads(pipe.read() or b"null")
    os.waitpid(child, 0)
    return result


def said(words: list[str]) -> tuple[int, str]:
    """Exit code and stderr of `sqc sweep`."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = main(["sweep", *words])
    return code, errors.getvalue()


if __name__ == "__main__":
    patch = pytest.MonkeyPatch()
    fakes.install(patch)
    fakes.install_front_end(patch)
    with tempfile.TemporaryDirectory() as folder:  # all modules are loaded while files can still be read
        program = Path(folder) / "prog.sq"
        program.write_text("a program", encoding="utf-8")
        said([str(program), "--seeds", "2", "--horizon", "1", "--out", f"{folder}/sweep"])
        said([f"{folder}/sweep", "--resume"])
    serve(answer)
