"""The formatter of programs: one style for spaces, lines and comments, and the spelling of branches.

It works on the tokens of a text that parses, not on its tree: what a program says is never touched.
"""

from sqc.format.text import format_source, format_text

__all__ = ["format_source", "format_text"]
