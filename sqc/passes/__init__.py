"""IR to IR: one idea a module, each a function from a program (or an expression) to a better one."""
