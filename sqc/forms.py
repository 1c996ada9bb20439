"""The forms in which a compiled program can be printed."""

from __future__ import annotations

NATIVE_FORMS, PORTABLE_FORMS = ("llvm", "assembly"), ("jaxpr", "stablehlo", "hlo")
FORMS = (*NATIVE_FORMS, *PORTABLE_FORMS)
