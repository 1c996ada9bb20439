"""Checked tree to IR: expressions, statements, declarations. Nothing in a checked program can be wrong here."""
