"""Tree to checked tree: definitions inlined, names resolved, everything in its place and moment."""
