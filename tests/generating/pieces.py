"""The text of a program as a tree whose parts can be left out: what is printed, and how it is made smaller.

A `Piece` is a statement or a declaration: plain text, optional or replaceable text (`Option`), and
blocks of further pieces. `render` prints a tree; `reductions` lists the smaller trees that are one
step away. Nothing here knows the language: a step may give a text that is no program, and who
asks for smaller programs must find that out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Option:
    """Some text, and the simpler texts that could stand in its place (by default: nothing)."""

    text: str
    simpler: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Piece:
    """One statement or declaration, from left to right."""

    parts: tuple[Part, ...]


Block: TypeAlias = tuple[Piece, ...]
Part: TypeAlias = str | Option | Block


def piece(*parts: Part) -> Piece:
    return Piece(parts)


def render(block: Block, indent: str = "") -> str:
    """The text of a block, one piece per line; the braces of inner blocks are written here."""
    return "".join(f"{indent}{_text(one, indent)}\n" for one in block)


def _text(one: Piece, indent: str) -> str:
    out = ""
    for part in one.parts:
        if isinstance(part, str):
            out += part
        elif isinstance(part, Option):
            out += part.text
        else:
            out += f"{{\n{render(part, indent + '  ')}{indent}}}"
    return out


def reductions(block: Block) -> Iterator[Block]:
    """Every block one step smaller, the large steps first: runs of pieces left out, then steps inside one piece."""
    length = len(block)
    while length:
        for start in range(0, len(block) - length + 1, length):
            yield block[:start] + block[start + length :]
        length //= 2
    for place, one in enumerate(block):
        for smaller in _inside(one):
            yield block[:place] + smaller + block[place + 1 :]


def _inside(one: Piece) -> Iterator[Block]:
    """What one piece can become: the content of one of its blocks, or itself with a part made smaller."""
    for part in one.parts:
        if isinstance(part, tuple) and part:
            yield part
    for place, part in enumerate(one.parts):
        for smaller in _parts(part):
            yield (replace(one, parts=(*one.parts[:place], smaller, *one.parts[place + 1 :])),)


def _parts(part: Part) -> Iterator[Part]:
    if isinstance(part, Option):
        for text in part.simpler:
            if text != part.text:
                yield Option(text, tuple(other for other in part.simpler if len(other) < len(text)))
    elif isinstance(part, tuple):
        yield from reductions(part)
