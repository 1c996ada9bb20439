"""Forward data flow over the statements of the session and the server.

A subclass says what a statement reports and what it does to the state. A state is a value that
compares; `join` is the state where two paths meet. Loops are gone through until the state at their
head stands still, so a subclass's `join` must only ever move one way.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from sqc.syntax import tree

State = TypeVar("State")


class Flow(Generic[State]):
    """The walk; `server` is what a `turn` runs (None: a `turn` does nothing)."""

    server: tree.Block | None = None

    def join(self, x: State, y: State) -> State:
        raise NotImplementedError

    def plain(self, node: tree.Stmt, state: State) -> State:
        """A statement, without its blocks: report what it reads, and return the state after it."""
        raise NotImplementedError

    def enter(self, node: tree.Hold, state: State) -> State:
        """The header of a hold; the state at the start of its body."""
        raise NotImplementedError

    def leave(self, node: tree.Hold, state: State) -> State:
        """The end of a hold's scope."""
        raise NotImplementedError

    def leg(self, state: State) -> State:
        """The state in which a leg starts."""
        return state

    def turn(self, state: State) -> State:
        """The state after the marks of a turn are drawn."""
        return state

    def block(self, block: tree.Block | None, state: State | None) -> State | None:
        """The state after a block; None if its end is never reached."""
        for statement in block.body if block is not None else ():
            if state is None:
                return None
            state = self.statement(statement, state)
        return state

    def statement(self, node: tree.Stmt, state: State) -> State | None:
        match node:
            case tree.Branch(then=then, other=other):
                state = self.plain(node, state)
                return self.meet(self.block(then, state), self.block(other, state))
            case tree.While(body=body):
                return self.rounds(node, body, state)
            case tree.Loop(body=body):
                self.rounds(node, body, state)
                return None
            case tree.Hold(body=body):
                inside = self.block(body, self.enter(node, state))
                return None if inside is None else self.leave(node, inside)
            case tree.Fork(body=body):
                self.block(body, self.leg(state))
                return state
            case tree.Turn():
                server, self.server = self.server, None  # a `turn` in the server is an error by itself
                after = self.block(server, self.turn(state))
                self.server = server
                return after
            case tree.End():
                return None
        return self.plain(node, state)

    def rounds(self, node: tree.While | tree.Loop, body: tree.Block, start: State) -> State:
        head = start
        while True:
            tested = self.plain(node, head)
            again = self.meet(start, self.block(body, tested))
            assert again is not None
            again = self.join(head, again)
            if again == head:
                return tested
            head = again

    def meet(self, x: State | None, y: State | None) -> State | None:
        if x is None or y is None:
            return y if x is None else x
        return self.join(x, y)
