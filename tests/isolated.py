"""A process that answers calls, for work that may loop for ever or bring its process down.

The caller has a `Server`; the other side is a script that ends in `serve(answer)`. Calls and
answers are pickled. A call that takes too long ends the process; the next call starts another.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any


class Hangs(Exception):
    """A call did not end in time; its process was ended."""


class Died(Exception):
    """The process of a call ended by itself."""


class Server:
    """A process started from a script at the first call, and again whenever one ended."""

    def __init__(self, script: str, arguments: Sequence[str] = ()) -> None:
        self.command = [sys.executable, script, *arguments]
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    def ask(self, call: object, limit: float) -> Any:
        """The answer to a call. Raises Hangs after `limit` seconds, and Died."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        try:
            pickle.dump(call, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.stop()
            if late.is_set():
                raise Hangs(f"no answer within {limit:g} s") from None
            raise Died(f"the process ended with code {process.returncode}") from None
        finally:
            timer.cancel()

    def stop(self) -> None:
        """End the process; the next call starts another."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def serve(answer: Callable[[Any], object]) -> None:
    """Answer call after call until the caller closes. What is printed goes to the standard error."""
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            call = pickle.load(calls)
        except EOFError:
            return
        pickle.dump(answer(call), answers)
        answers.flush()
