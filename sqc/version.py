"""The version of the package, and what its reports say about where their numbers come from."""

from __future__ import annotations

VERSION = "0.1.0"

LANGUAGE = "serQ 0.1.5"
"""The language level: whose programs are read, and with whose meaning."""

SERQ_VERSION = f"sqc {VERSION} ({LANGUAGE} semantics)"
"""The `serq_version` of a report: who wrote it, and whose rules and random streams it follows."""
