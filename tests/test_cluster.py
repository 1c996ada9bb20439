"""Sweeps on a Ray cluster: a real one of two nodes, one of which is killed within the sweep."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sqc
from harness import corpus_program
from sqc.cli import main
from sqc.sweeps.cluster import ClusterError

pytestmark = pytest.mark.filterwarnings("ignore")  # those of Ray

SWEPT: dict[str, Any] = {"seeds": 24, "horizon": 300, "warmup": 30, "sets": {"C": [2e4, 2e3]}}
QUICKLY = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
"""How Ray finds out that a node is gone: within a second."""


class TwoNodes:
    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": QUICKLY}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._second = self._cluster.add_node(num_cpus=1)
        self.address: str = self._cluster.address
        self.killed = False

    def kill(self) -> None:
        """The second node is gone, without a word."""
        self._cluster.remove_node(self._second, allow_graceful=False)
        self.killed = True

    def shutdown(self) -> None:
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    made = TwoNodes()
    yield made
    made.shutdown()


def same(one: sqc.Sweep, other: sqc.Sweep) -> None:
    assert one.json() == other.json()
    for name, values in one.lanes.items():
        np.testing.assert_array_equal(values, other.lanes[name])
    np.testing.assert_array_equal(one.quantiles("client.response", [0.5]), other.quantiles("client.response", [0.5]))


def test_a_node_is_killed(nodes: TwoNodes, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The rows are those of a sweep on one machine; the folder is a stored sweep like any other, and goes on there."""
    program = corpus_program("d01_cache_lru")
    local = program.sweep(**SWEPT)
    seen: list[int] = []

    def watch(done: int, total: int) -> None:
        assert total == 48
        seen.append(done)
        if done >= 8 and not nodes.killed:
            nodes.kill()

    how: dict[str, Any] = {"engine": "ray", "address": nodes.address}
    swept = program.sweep(**SWEPT, **how, block=4, out=tmp_path / "sweep", progress=watch)
    assert nodes.killed
    assert seen == list(range(4, 49, 4))
    same(swept, local)
    same(sqc.open_sweep(tmp_path / "sweep"), local)
    next((tmp_path / "sweep" / "lanes").glob("000002-*")).unlink()
    same(sqc.resume_sweep(tmp_path / "sweep", **how), local)
    words = f"sweep {tmp_path}/sweep --resume --engine ray --ray-address {nodes.address} --metric events"
    assert main(words.split()) == 0
    assert capfd.readouterr().out.startswith("sweep: horizon 300 warmup 30 seeds 1:24 points 2 runs 48")


def test_no_cluster() -> None:
    with pytest.raises(ClusterError, match=r"^no Ray cluster at 127\.0\.0\.1:1: "):
        corpus_program("d01_cache_lru").sweep(2, horizon=10, engine="ray", address="127.0.0.1:1")


def test_no_ray(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else found(name, *rest))
    assert main(["sweep", "programs/01-queue.sq", "--seeds", "2", "--horizon", "10", "--engine", "ray"]) == 1
    said = 'sqc sweep: the engine ray needs the package ray: pip install "sqc[ray]"\n'
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--engine slurm", "--engine slurm: local or ray"),
        ("--ray-address auto", "--ray-address goes with --engine ray"),
    ],
)
def test_wrong_flags(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "programs/01-queue.sq", "--seeds", "2", "--horizon", "10", *words.split()]) == 2
    assert capsys.readouterr() == ("", f"sqc sweep: {said}\n")
