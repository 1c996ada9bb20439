"""Sweeps: Student's quantile, the statistics over seeds, the table, its JSON and CSV, failures."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fakes
from sqc.inputs import InputError, assignments, did_you_mean, number, seeds, seeds_text
from sqc.program import Program
from sqc.sweeps import Sweep, SweepInterrupted
from sqc.sweeps.grids import grid, several, split_commas
from sqc.sweeps.spread import Spread
from sqc.sweeps.student import student_quantile
from sqc.sweeps.text import cells, heading, plus_minus, select


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    fakes.install(monkeypatch)
    return Program(fakes.PROGRAM)


def swept(program: Program, **options: Any) -> Sweep:
    given: dict[str, Any] = {"seeds": 4, "horizon": 100, "warmup": 10, "sets": {"C": [2e5, 6e4]}}
    return program.sweep(**(given | options))


# ----------------------------------------------------------------------------- statistics


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 19, 30, 99, 999, 100_000, 1_000_000])
@pytest.mark.parametrize("p", [0.5, 0.6, 0.9, 0.975, 0.995, 0.9995])
def test_student_quantile(freedom: int, p: float) -> None:
    tolerance = 1e-12 if freedom < 1000 else 2e-9
    assert student_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=tolerance)


@pytest.mark.parametrize(("p", "freedom"), [(0.975, 0), (0.4, 3), (1.0, 3)])
def test_student_quantile_refuses(p: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="student_quantile"):
        student_quantile(p, freedom)


def test_spread() -> None:
    """Three points: plain, one lane undefined, and points with one lane or none."""
    nan = math.nan
    values = np.array([[1.0, 2.0, 4.0], [nan, 3.0, 5.0], [nan, nan, 7.0], [nan, nan, nan]])
    spread = Spread.of(values)
    assert spread.n.tolist() == [3, 2, 1, 0]
    np.testing.assert_allclose(spread.mean, [7 / 3, 4, 7, nan])
    np.testing.assert_allclose(spread.sd, [statistics.stdev([1, 2, 4]), math.sqrt(2), nan, nan])
    intervals = [stats.sem(row) * stats.t.ppf(0.975, len(row) - 1) for row in ([1, 2, 4], [3, 5])]
    np.testing.assert_allclose(spread.half, [*intervals, math.inf, nan])
    np.testing.assert_allclose(spread.min, [1, 3, 7, nan])
    np.testing.assert_allclose(spread.max, [4, 5, 7, nan])


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (0.063048, 0.000212, "0.06305 ±0.00021"),
        (20429.3, 123.4, "20429 ±123"),
        (6.0131, 0.52, "6.01 ±0.52"),
        (0.5, 0.0, "0.5 ±0"),
        (1.0, 1e-16, "1 ±0"),
        (3.25, math.inf, "3.25 ±inf"),
        (math.nan, math.nan, "NaN"),
        (1.5e-9, 2.1e-11, "1.5e-09 ±2.1e-11"),
        (0.0, 0.0, "0 ±0"),
        (math.inf, math.nan, "inf ±NaN"),
    ],
)
def test_plus_minus(mean: float, half: float, text: str) -> None:
    assert plus_minus(mean, half) == text


# ----------------------------------------------------------------------------- the table as an object


def test_lanes_and_points(program: Program) -> None:
    table = swept(program, seeds="7,9,20:22", sets={"C": "2e5,6e4", "think time": [1, 3]})
    assert table.seeds == (7, 9, 20, 21, 22)
    assert table.points == tuple({"C": c, "think time": z} for c in (2e5, 6e4) for z in (1.0, 3.0))
    assert table.metrics == fakes.METRICS
    for row, point in enumerate(table.points):
        for column, seed in enumerate(table.seeds):
            assert table.lanes["mean_live"][row, column] == fakes.lane_value("mean_live", seed, point)
    live = table.metric("mean_live")
    assert live.mean.shape == (4,)
    assert live.n.tolist() == [5] * 4
    assert table.rows[2]["metrics"]["mean_live"] == live.at(2)
    assert table.rows[2]["inputs"] == {"C": 6e4, "think time": 1.0}
    with pytest.raises(KeyError, match=r"no metric mean_liv \(did you mean mean_live\?\)"):
        table.metric("mean_liv")


def test_without_inputs_there_is_one_point(program: Program) -> None:
    table = swept(program, sets={})
    assert table.points == ({},)
    assert table.inputs == {"C": 2e5, "think time": 3.0}
    assert table.metric("events").mean[0] == np.mean(
        [fakes.lane_value("events", seed, {"C": 2e5}) for seed in (1, 2, 3, 4)]
    )


def test_failed_lanes_are_listed_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, failing=(2,))
    table = swept(Program(fakes.PROGRAM), seeds=3)
    assert [(failure.seed, failure.point, failure.inputs) for failure in table.failures] == [
        *((2, 0, {"C": 2e5}), (2, 1, {"C": 6e4}))
    ]
    assert (table.finished.tolist(), table.failed.tolist(), table.interrupted) == ([2, 2], [1, 1], False)
    values = [fakes.lane_value("events", seed, {"C": 6e4}) for seed in (1, 3)]
    assert table.metric("events").at(1)["mean"] == np.mean(values)
    assert table.metric("events").at(1)["n"] == 2
    lines = str(table).splitlines()
    assert lines[2].split()[:3] == ["C", "seeds", "failed"]
    assert lines[4].split()[:3] == ["200000", "2", "1"]
    assert lines[-3:] == [
        "2 of 6 runs failed and are left out:",
        "  seed 2 at C=200000: R201: the guard is 0.5, neither 0 nor 1 (3:4, session 4, time 12.25)",
        "  seed 2 at C=60000: R201: the guard is 0.5, neither 0 nor 1 (3:4, session 4, time 12.25)",
    ]
    assert table.json()["failures"][1] == {
        "seed": 2,
        "point": 1,
        "inputs": {"C": 60000},
        "code": "R201",
        "message": fakes.FAILURE.message,
        "time": 12.25,
        "session": 4,
        "line": 3,
        "col": 4,
    }


def test_many_failures_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, failing=tuple(range(1, 31)))
    table = swept(Program(fakes.PROGRAM), seeds=30, sets={})
    assert str(table).splitlines()[-1] == "  ... and 10 more (--json lists all)"
    assert len(table.json()["failures"]) == 30
    assert table.metric("events").n.tolist() == [0]


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, fakes.InterruptedKernel)
    with pytest.raises(SweepInterrupted) as caught:
        swept(Program(fakes.PROGRAM), seeds=3, sets={"C": [1, 2, 3, 4]})
    table = caught.value.partial
    assert table.interrupted
    assert table.finished.tolist() == [3, 3, 0, 0]
    assert table.metric("events").n.tolist() == [3, 3, 0, 0]
    lines = str(table).splitlines()
    assert [line.split()[0] for line in lines[4:6]] == ["1", "2"]
    assert lines[6] == ""
    assert lines[-1] == "unfinished: 6 of 12 runs are done"


def test_progress(program: Program) -> None:
    seen: list[tuple[int, int]] = []
    swept(program, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(8, 8)]


# ----------------------------------------------------------------------------- text, JSON, CSV


def test_text(program: Program) -> None:
    lines = str(swept(program)).splitlines()
    assert lines[0] == "sweep: horizon 100 warmup 10 seeds 1:4 points 2 runs 8 mode native think time=3"
    assert lines[2].split()[:4] == ["C", "seeds", "observe.hit.mean", "client.response.mean"]
    assert "client.ttft.mean" not in lines[2]  # undefined in every lane
    half = stats.t.ppf(0.975, 3) * statistics.stdev([1 / 8, 2 / 8, 3 / 8, 4 / 8]) / 2
    mean = np.mean([fakes.lane_value("observe.hit.mean", seed, {"C": 2e5}) for seed in (1, 2, 3, 4)])
    assert lines[4].split()[:4] == ["200000", "4", f"{mean:.2f}", f"±{half:.2f}"]
    assert max(map(len, lines[2:6])) <= 140
    assert lines[-1].startswith("mean ± half width of the 95 % interval over seeds; ")


def test_text_fits_the_width(program: Program) -> None:
    table = swept(program)
    for width in (40, 80, 120, 200):
        header, rows = cells(table, (), width)
        line = sum(max(len(row[k]) for row in (header, *rows)) + 2 for k in range(len(header))) - 2
        assert line <= width or len(header) == 3


def test_chosen_metrics(program: Program) -> None:
    table = swept(program)
    header, _ = cells(table, ["pool.kv.mean_*ed", "pool.kv.rej*", "events", "client.response.p??"])
    assert header[2:] == [
        "pool.kv.mean_used",
        "pool.kv.mean_cached",
        "pool.kv.rejected",
        "events",
        "client.response.p99",
    ]
    with pytest.raises(InputError, match=r"no metric client.respons.mean \(did you mean client.response.mean\?\)"):
        cells(table, ["client.respons.mean"])


def one_point(lanes: dict[str, list[float]], arrivals: float = math.inf) -> Sweep:
    """A sweep of seeds 1, 2, ... at one point without inputs."""
    return Sweep.of(
        {name: np.array(values) for name, values in lanes.items()},
        {},
        program="p",
        inputs={},
        points=[{}],
        seeds=range(1, 1 + len(next(iter(lanes.values())))),
        horizon=1.0,
        warmup=0.0,
        arrivals=arrivals,
        mode="native",
    )


def test_members_of_arrays_are_chosen_by_their_label() -> None:
    lanes = {f"stage.e[{k}].throughput": [1.0, 1.0] for k in range(3)}
    table = one_point(lanes)
    assert select(table.metrics, ["stage.e[1].throughput"]) == {"stage.e[1].throughput": True}
    assert list(select(table.metrics, ["stage.e[*].thr*"])) == list(lanes)


def test_a_metric_undefined_in_some_lanes_tells_its_n() -> None:
    table = one_point({"stage.s.mean_wait": [1.0, math.nan, 3.0]}, arrivals=5.0)
    assert cells(table, ["stage.s.mean_wait"])[1] == [["3", "2 ±13 n=2"]]
    assert heading(table) == "sweep: horizon 1 warmup 0 arrivals 5 seeds 1:3 points 1 runs 3 mode native"


def test_gauges_claims_and_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are metrics; the table shows means of gauges and how often a claim held, and hides what is dull."""
    fakes.install(monkeypatch)
    table = swept(Program(fakes.WIDE), sets={})
    assert {"gauge.line.min", "claim.sure.value", "pool.P.kv[1].mean_used", "stage.one[0].throughput"} < set(
        table.metrics
    )
    assert table.metric("claim.wrong.value").at(0)["mean"] == 0
    assert table.metric("claim.open.value").at(0)["n"] == 0
    header, rows = cells(table, (), width=10_000)
    assert header[:7] == [
        *("seeds", "observe.hit.mean", "client.response.mean", "claim.sure.value", "claim.wrong.value"),
        *("claim.outside.out_of_scope", "gauge.line.mean"),
    ]
    assert rows[0][3:6] == ["1 ±0", "0 ±0", "1 ±0"]
    assert "pool.P.kv[1].rejected" in header
    assert "stage.one[0].utilization" in header
    assert not [name for name in header if "over_cap" in name or "growing" in name]


def test_json(program: Program) -> None:
    table = swept(program, seeds=1)
    document = json.loads(table.to_json())
    assert list(document) == [
        *("program", "horizon", "warmup", "arrivals", "seeds", "inputs", "points"),
        *("failures", "interrupted", "confidence", "until", "sqc_version", "mode"),
    ]
    assert (document["arrivals"], document["seeds"], document["inputs"]) == (None, "1", {"think time": 3})
    point = document["points"][1]
    assert (point["inputs"], point["finished"], point["failed"]) == ({"C": 60000}, 1, 0)
    assert list(point["metrics"]) == list(fakes.METRICS)
    value = fakes.lane_value("events", 1, {"C": 6e4})
    assert point["metrics"]["events"] == {"mean": value, "half": None, "sd": None, "min": value, "max": value, "n": 1}
    assert point["metrics"]["client.ttft.mean"]["mean"] is None


def test_csv(program: Program, tmp_path: Path) -> None:
    table = swept(program)
    text = table.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text(encoding="utf-8") == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["C"] for row in rows] == ["200000", "60000"]
    for index, row in enumerate(rows):
        assert (row["finished"], row["failed"], row["client.ttft.mean"]) == ("4", "0", "")
        for name in ("events", "pool.kv.mean_used"):
            spread = table.metric(name).at(index)
            assert [float(row[name + suffix]) for suffix in ("", ".half", ".sd")] == [
                *(spread["mean"], spread["half"], spread["sd"])
            ]


# ----------------------------------------------------------------------------- naming seeds and values


@pytest.mark.parametrize(
    ("spec", "named", "text"),
    [
        (3, (1, 2, 3), "1:3"),
        ("3", (1, 2, 3), "1:3"),
        ("7,9,20:22", (7, 9, 20, 21, 22), "7,9,20:22"),
        ("7:7", (7,), "7"),
        ([5, 3], (5, 3), "5,3"),
        (range(2, 5), (2, 3, 4), "2:4"),
        (f"0,{2**64 - 1}", (0, 2**64 - 1), f"0,{2**64 - 1}"),
        (np.arange(3), (0, 1, 2), "0:2"),
    ],
)
def test_seeds(spec: Any, named: tuple[int, ...], text: str) -> None:
    assert seeds(spec) == named
    assert seeds_text(named) == text


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (0, "seeds 0: a count of at least 1, or names such as 7,9,20:30"),
        ("0", "seeds 0: a count of at least 1, or names such as 7,9,20:30"),
        (-3, "seed -3: must be a whole number from 0 to 2^64 - 1"),
        ("1e3", "seed 1e3: must be a whole number from 0 to 2^64 - 1"),
        ("1,x", "seed x: must be a whole number from 0 to 2^64 - 1"),
        ("1,", "seeds 1,: write seeds and ranges with both ends, such as 7,9,20:30"),
        ("7:", "seeds 7:: write seeds and ranges with both ends, such as 7,9,20:30"),
        ("", "seed '': must be a whole number from 0 to 2^64 - 1"),
        ("9" * 100, f"seed {'9' * 57}...: must be a whole number from 0 to 2^64 - 1"),
        ("9:7", "seeds 9:7: the range is empty"),
        ("1,5,1:3", "seeds: seed 1 is named twice"),
        ([], "seeds: none named"),
        ([1.5], "seed 1.5: must be a whole number from 0 to 2^64 - 1"),
        (10**12, "seeds: 1000000000000 seeds are more than 50000000"),
        (f"0:{2**64 - 1}", f"seeds: {2**64} seeds are more than 50000000"),
    ],
)
def test_wrong_seeds(spec: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        seeds(spec)
    assert str(caught.value) == message


def test_too_many_lanes(program: Program) -> None:
    with pytest.raises(InputError, match="1000 points x 100000 seeds are more than 50000000 runs"):
        swept(program, seeds=100_000, sets={"C": range(1, 1001)})


def test_values() -> None:
    assert split_commas("1,max(2,3),4") == ["1", "max(2,3)", "4"]
    assert several("2e5, 6e4", "C") == (2e5, 6e4)
    assert several(np.array([1, 2]), "C") == (1.0, 2.0)
    assert several([1, "2"], "C") == (1.0, 2.0)
    assert grid({"a": "1,2", "b": [3, 4]}, {"a": 0, "b": 0, "c": 0}) == [
        *({"a": 1, "b": 3}, {"a": 1, "b": 4}, {"a": 2, "b": 3}, {"a": 2, "b": 4})
    ]
    with pytest.raises(InputError, match="input C: no value"):
        several([], "input C")


def test_assignments() -> None:
    given = assignments(["C=2e4", " a b = 1=2 "], ["--Z", "-3", "--think time=4"])
    assert given == {"C": "2e4", "a b": " 1=2 ", "Z": "-3", "think time": "4"}


@pytest.mark.parametrize(
    ("settings", "extra", "message"),
    [
        (["C"], [], "--set C: write --set NAME=VALUE"),
        ([], ["C=1"], "unexpected C=1 after --: write -- --NAME VALUE"),
        ([], ["--C"], "input C after -- has no value"),
        (["=1"], [], "--set =1: write --set NAME=VALUE"),
        ([""], [], "--set '': write --set NAME=VALUE"),
        ([], ["--=1"], "--=1 after -- has no name: write -- --NAME VALUE"),
        (["C=1"], ["--C", "2"], "input C is set twice"),
    ],
)
def test_wrong_assignments(settings: list[str], extra: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        assignments(settings, extra)
    assert str(caught.value) == message


def test_nearest_name() -> None:
    assert did_you_mean("lambda", ["Lambda", "Z"]) == " (did you mean Lambda?)"
    assert did_you_mean("quite different", ["Lambda", "Z"]) == ""


def test_number() -> None:
    assert [number(text, "x") for text in ("2e4", "-1", "inf", " 3 ", "1_000")] == [2e4, -1, math.inf, 3, 1000]
    assert number(np.float32(0.5), "x") == 0.5


@pytest.mark.parametrize(
    ("text", "value"),
    [("2*1e4", 2e4), ("-2^2", -4), ("min(3, 4) / 2", 1.5), ("1 < 2 ? 5 : 6", 5), ("(1)+(2)", 3), ("ceil(0.5)", 1)],
)
def test_constant_expressions(text: str, value: float) -> None:
    assert number(text, "input C") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is no number"),
        (" ", "' ' is no number"),
        ("abc", "'abc' is no number: `abc` is not a constant"),
        ("2 *", "'2 *' is no number"),
        ("1, 2", "'1, 2' is no number"),
        ("1; let x = 2", "'1; let x = 2' is no number"),
        ("~exp(1)", "'~exp(1)' is no number: a constant cannot draw"),
        ("now", "'now' is no number: `now` is not a constant"),
        ("1) + (2", "'1) + (2' is no number"),
        ("1//2", "'1//2' is no number"),
        ("0/0", "'0/0' is not a number (NaN)"),
        ("(" * 300, f"'{'(' * 57}...' is no number: more than 200 brackets inside each other"),
    ],
)
def test_wrong_constant_expressions(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        number(text, "input C")
    assert str(caught.value) == f"input C: {message}"
