"""Which pool a station leaves leased to a request, whatever way the request took through it."""

from __future__ import annotations

from sqc.stations.model import Station
from sqc.syntax import tree


def leased(station: Station) -> list[str]:
    """The station's pools that every entry leases on every path, the first one first."""
    found = [entry_leases(entry) for entry in station.entries.values()] or [[]]
    return [pool for pool in found[0] if pool in station.pools and all(pool in pools for pools in found)]


def entry_leases(entry: tree.Entry) -> list[str]:
    """The pools that an entry leases on every path, in the order of the text."""
    return _block(entry.body)


def _block(block: tree.Block | None) -> list[str]:
    return [pool for s in (block.body if block is not None else ()) for pool in _statement(s)]


def _statement(node: tree.Stmt) -> list[str]:
    match node:
        case tree.Hold(body=body, lease=lease):
            own = [lease.pool.id] if lease is not None and isinstance(lease.pool, tree.Name) else []
            return _block(body) + own
        case tree.Branch(then=then, other=other):
            also = _block(other)
            return [pool for pool in _block(then) if pool in also]
    return []
