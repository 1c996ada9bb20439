"""Text to tree: tokens, the grammar and its tables, the parser with recovery, the tree's nodes."""
