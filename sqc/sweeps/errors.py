"""What a stored sweep can be refused for."""

from __future__ import annotations

from pathlib import Path


class StoreError(Exception):
    """A folder or a file of a stored sweep cannot be used. The text is one line and begins with the path."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}")
