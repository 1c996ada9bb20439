"""From the IR to a lane program.

`plan` cuts the session's statements into segments between two waits; `expressions` and
`statements` turn them into JAX code over the memory of `sqc_runtime`; `lane` assembles the event
loop around them.
"""
