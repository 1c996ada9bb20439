"""The run report: statistics of samples, the text digit for digit, the shape of the JSON."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fakes
from harness import CORPUS
from sqc import ir
from sqc.inputs import InputError
from sqc.program import Program, RunError
from sqc.report import (
    CLIENT_ROWS,
    Changes,
    ClaimRow,
    GaugeRow,
    OverCap,
    PoolRow,
    Report,
    SampleRow,
    Samples,
    StageRow,
)
from sqc.report.interval import window_means
from sqc.textform import aligned, fixed, plain, shortest

MEASURED = sorted(CORPUS.glob("[a-i][0-9][0-9]*.json"))


def measured_runs() -> list[dict[str, Any]]:
    return [run for path in MEASURED for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]


def values_only(values: list[float]) -> Samples:
    zeros = np.zeros(len(values), np.int64)
    return Samples(np.zeros(len(values)), zeros, zeros, np.array(values, float))


def slow_statistics(values: list[float]) -> dict[str, Any]:
    """Section 5 of the report's rules, word for word, in plain Python."""
    count = len(values)
    mean = None
    for number, value in enumerate(values, 1):  # running mean
        mean = value if mean is None else mean + (value - mean) / number
    cv2 = statistics.variance(values) / mean**2 if count > 1 and mean else None
    half = None
    if count >= 40:
        size = count // 20
        means = [statistics.fmean(values[k * size : (k + 1) * size]) for k in range(20)]
        half = 2.093 * math.sqrt(statistics.variance(means) / 20)
    p99 = sorted(values)[max(math.ceil(0.99 * count), 1) - 1] if values else None
    return {"count": count, "mean": mean, "ci": half, "cv2": cv2, "p99": p99}


def row_of(values: list[float]) -> dict[str, Any]:
    row = SampleRow.of("x", values_only(values))
    return {name: plain(getattr(row, name)) for name in ("count", "mean", "ci", "cv2", "p99")}


def assert_same(ours: dict[str, Any], expected: dict[str, Any]) -> None:
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert ours[name] is None, name
        else:
            assert ours[name] == pytest.approx(value, rel=1e-12, abs=1e-14), name


@pytest.mark.parametrize("count", [0, 1, 2, 3, 39, 40, 41, 59, 60, 99, 100, 101, 1999, 4321])
def test_statistics_against_a_slow_implementation(count: int) -> None:
    values = fakes.samples(count, seed=count).value.tolist()
    assert_same(row_of(values), slow_statistics(values))


# Samples of the reference, in full, with what it reported for them.
MEASURED_SAMPLES: list[tuple[str, dict[str, Any]]] = [
    (
        """
        0 3 1 4 2 5 3 6 7 4 8 9 5 10 6 11 7 12 13 8 14 9 15 16 10 17 11 18 12 19 13 20 21 14 22 15 23 16 24 25 17 26
        27 18 28 19 29 30 20 31 21 32 33 22 34 23 35 24 36 25 37 38 26 39 27 40 28 41 42 29
        """,
        {"count": 70, "mean": 19.071428571428573, "ci": 4.23509950093348, "cv2": 0.34564960222129104, "p99": 42},
    ),
    (
        """
        1 1 1 1 2 2 3 3 3 3 3 4 4 4 5 4 5 5 5 5 5 6 6 6 6 6 7 7 8 7 8 8 9 9 9 10 9 10 10 10 10 10 11 11 10 11 11 12 12
        12 13 12 13 13 12 13 13 14 14 14 14 15 15 15 16 15 16 16 17 17
        """,
        {"count": 70, "mean": 8.814285714285713, "ci": 1.8593176622531897, "cv2": 0.2713413486249056, "p99": 17},
    ),
    (
        """
        180 241 437 308 31 108 424 360 185 178 236 347 263 216 266 206 221 92 35 134 53 141 280 146 329 78 345 449 131
        274 217 115 391 221 160 34 276 314 55 397 125 202 244 487 248 161 268 339 457 239 400 140 113 28 398 134 234
        77 442 72 157 38 165 437 206 39 477 41 270 441 241 323 319 316 412 69 457 369 296 320 216 214 154 34 413 477
        134 226 491 31 354 440 262 135 413 17 448 54 56 296 226 12 426 40 370 56 485 195 44 436 284 477 131 268 88 80
        158 489 165 219
        """,
        {"count": 120, "mean": 238.2416666666667, "ci": 23.61046167709861, "cv2": 0.35216747134112014, "p99": 489},
    ),
]


@pytest.mark.parametrize(("values", "expected"), MEASURED_SAMPLES)
def test_statistics_against_measured_samples(values: str, expected: dict[str, Any]) -> None:
    assert_same(row_of([float(value) for value in values.split()]), expected)


def test_statistics_against_the_corpus() -> None:
    """Every observe of the corpus whose samples are stored in full (they are short: none has an interval)."""
    compared = 0
    for run in measured_runs():
        for name, kept in run.get("samples", {}).items():
            expected = run["report"]["observes"][name]
            if expected["count"] == len(kept["value"]):
                assert_same(row_of(kept["value"]), expected)
                compared += 1
    assert compared > 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0] * 50, {"count": 50, "mean": 0, "ci": 0, "cv2": None, "p99": 0}),
        ([1.0] * 40, {"count": 40, "mean": 1, "ci": 0, "cv2": 0, "p99": 1}),
        ([7.5], {"count": 1, "mean": 7.5, "ci": None, "cv2": None, "p99": 7.5}),
        ([1.0, math.inf], {"count": 2, "mean": None, "ci": None, "cv2": None, "p99": None}),
    ],
)
def test_statistics_at_the_edges(values: list[float], expected: dict[str, Any]) -> None:
    assert row_of(values) == expected


# ----------------------------------------------------------------------------- gauges


def slow_windows(changes: Changes, start: float, end: float) -> list[float]:
    """Means over 20 windows of a piecewise-constant signal: every piece cut with every window."""
    ends = [*changes.time[1:].tolist(), math.inf]
    pieces = list(zip(changes.time.tolist(), ends, changes.value.tolist(), strict=True))
    width = (end - start) / 20
    means = []
    for k in range(20):
        low, high = start + k * width, start + (k + 1) * width
        overlaps = [(min(b, high) - max(a, low), value) for a, b, value in pieces if a < high and b > low]
        means.append(math.fsum(overlap * value for overlap, value in overlaps) / width)
    return means


@pytest.mark.parametrize("count", [1, 2, 5, 100, 3000])
@pytest.mark.parametrize(("start", "end"), [(0.0, 100.0), (17.5, 60.25)])
def test_windows_against_a_slow_implementation(count: int, start: float, end: float) -> None:
    """Changes before, inside and behind the measured time; several in a window, or none for many windows."""
    rng = np.random.default_rng(count)
    time = np.concatenate([[0.0], np.sort(rng.uniform(0, 120, count - 1))])
    changes = Changes(time, rng.integers(0, 9, count).astype(float))
    np.testing.assert_allclose(
        window_means(changes.time, changes.value, start, end), slow_windows(changes, start, end), rtol=1e-9, atol=1e-12
    )


def test_changes_on_the_edges_of_windows() -> None:
    changes = Changes(np.arange(0.0, 20.0), np.arange(0.0, 20.0))
    assert window_means(changes.time, changes.value, 0.0, 20.0).tolist() == list(range(20))
    assert window_means(changes.time, changes.value, 5.0, 15.0).tolist() == [float(k // 2 + 5) for k in range(20)]


def test_gauges_against_the_corpus() -> None:
    """c14's change points are stored in full (37 of them), with what the reference reported for them."""
    run = next(run for run in measured_runs() if "line" in run["report"]["gauges"] and run["horizon"] == 60)
    expected, points = run["report"]["gauges"]["line"], run["gauge_points"]["line"]
    changes = Changes(np.array(points["time"]), np.array(points["value"]))
    row = GaugeRow.of("line", changes, mean=expected["mean"], least=0, most=28, start=run["warmup"], end=60)
    assert row.ci == pytest.approx(expected["ci"], rel=1e-12)
    means = window_means(changes.time, changes.value, run["warmup"], 60)
    assert means.mean() == pytest.approx(expected["mean"], rel=1e-12)


def test_gauges_at_the_edges() -> None:
    """As the reference has it: undefined where the signal is not finite, 0 where it never changes."""
    constant = Changes(np.array([0.0]), np.array([3.0]))
    assert GaugeRow.of("k", constant, mean=3, least=3, most=3, start=1.5, end=3).ci == pytest.approx(0, abs=1e-12)
    infinite = Changes(np.array([0.0, 5.0, 6.0]), np.array([0.2, 0.5, math.inf]))
    row = GaugeRow.of("i", infinite, mean=math.inf, least=0.2, most=math.inf, start=0, end=10)
    assert math.isnan(row.ci)
    assert (row.min, row.max) == (0.2, math.inf)
    never = Changes(np.array([0.0]), np.array([math.nan]))
    row = GaugeRow.of("n", never, mean=math.nan, least=math.inf, most=-math.inf, start=0, end=10)
    assert [plain(value) for value in (row.ci, row.min, row.max)] == [None, None, None]


# ----------------------------------------------------------------------------- claims


@pytest.mark.parametrize(
    ("value", "outside", "result", "counts", "first"),
    [
        (1.0, False, "holds", (1, 0), None),
        (0.0, False, "fails", (1, 1), 7.5),
        (math.nan, False, "not_evaluated", (0, 0), None),
        (math.nan, True, "out_of_scope", (0, 0), None),
        (0.0, True, "out_of_scope", (0, 0), None),
    ],
)
def test_claims(value: float, outside: bool, result: str, counts: tuple[int, int], first: float | None) -> None:
    row = ClaimRow.at_end("c", value, outside, 2.0, end=7.5)
    assert (row.kind, row.result, (row.checked, row.failures), plain(row.first)) == ("at_end", result, counts, first)
    assert (row.note is None) == (result in ("holds", "fails"))


# ----------------------------------------------------------------------------- text

FOUNDING = (CORPUS / "founding_report.txt").read_text(encoding="utf-8").rstrip("\n")


def undefined(name: str) -> SampleRow:
    return SampleRow(name, 0, math.nan, math.nan, math.nan, math.nan)


def founding_report(**changes: Any) -> Report:
    values: dict[str, Any] = {
        "horizon": 2e4,
        "end": 2e4,
        "warmup": 2e3,
        "seed": 1,
        "events": 97969,
        "arrivals": 9905,
        "ended": 8905,
        "turns": 43949,
        "mean_live": 6.0128,
        "mode": "native",
        "inputs": {"C": 2e5},
        "observes": (SampleRow("hit", 35046, 1.0, 0.0, 0.0, 1.0),),
        "clients": (
            *(undefined("ttft"), undefined("tpot")),
            SampleRow("response", 43949, 0.063048, 0.000621, 0.6252, 0.236871),
        ),
        "stages": (
            StageRow("engine", None, 0.15397, 0.13612, 43949, 43949 / 18000, 0.00723, 0.05583, 0),
            StageRow("tool", None, 5.85888, 0.99912, 35046, 35046 / 18000, 0.0, 3.00931, 0),
        ),
        "pools": (PoolRow("kv", None, 754.71, 29212.18, 0.00001, 0.15397, 0.0, 48984, 0, 0.0, 0, 0, 0, 0),),
    }
    return Report(**(values | changes))


def test_founding_text() -> None:
    assert str(founding_report()) == FOUNDING


def test_rows_and_sections_without_content_are_left_out() -> None:
    clients = tuple(undefined(name) for name in CLIENT_ROWS)
    report = founding_report(observes=(), clients=clients, pools=(), stages=())
    assert str(report) == FOUNDING.splitlines()[0]


def test_undefined_numbers_in_text() -> None:
    text = str(founding_report(observes=(SampleRow.of("few", values_only([1.0])), undefined("none"))))
    assert text.splitlines()[4:6] == [
        "few          1  1.0000    ±inf  NaN  1.0000",
        "none         0     NaN    ±inf  NaN     NaN",
    ]


def test_a_test_that_is_always_0_is_noted() -> None:
    never, seldom = values_only([0.0] * 40), values_only([0.0] * 39 + [1.0])
    rows = (SampleRow.of("never", never), SampleRow.of("seldom", seldom), SampleRow.of("size", never))
    lines = str(founding_report(observes=rows, tests=frozenset({"never", "seldom"}))).splitlines()
    assert [line.split()[0] for line in lines[4:8]] == ["never", "note:", "seldom", "size"]
    assert lines[5] == "note: never is constant 0 in all 40 samples"


def test_gauges_and_claims_in_text() -> None:
    gauges = (GaugeRow("used", 3.98752, 0.24406, 0.0, 21.0), GaugeRow("odd", math.nan, math.nan, 0.2, math.inf))
    claims = (
        *(ClaimRow.at_end("sure", 1.0, False, math.nan, 7.25), ClaimRow.at_end("wrong", 0.0, False, math.nan, 7.25)),
        *(ClaimRow.at_end("open", math.nan, False, 3.0, 7.25), ClaimRow.at_end("outside", math.nan, True, 4.0, 7.25)),
    )
    sections = str(founding_report(gauges=gauges, claims=claims)).split("\n\n")
    assert [section.split()[0] for section in sections] == [
        *("run:", "observe", "gauge", "claim", "client", "stage", "pool")
    ]
    assert sections[2].splitlines() == [
        "gauge    mean   95% CI     min      max",
        "-----  ------  -------  ------  -------",
        "used   3.9875  ±0.2441  0.0000  21.0000",
        "odd       NaN     ±NaN  0.2000      inf",
    ]
    assert sections[3].splitlines() == [
        "claim      kind         result  checked  failures  first",
        "-------  ------  -------------  -------  --------  -----",
        "sure     at end          holds        1         0    NaN",
        "wrong    at end          fails        1         1   7.25",
        "open     at end  not evaluated        0         0    NaN",
        "outside  at end   out of scope        0         0    NaN",
        "note: open is not evaluated: 3 sessions live at the end",
        "note: outside is out of scope: session 4 fails `given`",
    ]


def test_notes_under_the_pools() -> None:
    numbers = (0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0, 0, 0, 0, 0)
    pools = (
        PoolRow("kv", 0, *numbers, over_cap=OverCap("slots[1]", 12.5)),
        PoolRow("kv", 1, *numbers, growing_at_end=3),
        PoolRow("slots", None, *numbers, growing_at_end=2, growing_stalled=True),
    )
    assert str(founding_report(pools=pools)).splitlines()[-5:] == [
        "kv[1]   0.0     0.0  0.000    0.000  0.0000       0         0         0        0      0    0      0",
        "slots   0.0     0.0  0.000    0.000  0.0000       0         0         0        0      0    0      0",
        "note: at the end the head of the queue of slots[1] asks kv[0] for 12.5, above its cap",
        "note: at the end 3 of the holders of kv[1] wait to grow",
        "note: at the end every holder of slots waits to grow (2)",
    ]


def test_members_of_arrays_are_labelled() -> None:
    stages = tuple(StageRow("engine", index, 0, 0, 0, 0, math.nan, math.nan, 0) for index in (0, 1))
    report = founding_report(stages=stages)
    assert "engine[1]   0.000  0.000     0  0.0000   NaN      NaN      0" in str(report)
    assert report.stage("engine", 1) is report.stage("engine[1]")
    assert report.json()["stages"][1]["index"] == 1


def test_numbers() -> None:
    assert [fixed(x, 3) for x in (-0.0001, -0.001, math.nan, -math.inf)] == ["0.000", "-0.001", "NaN", "-inf"]
    assert [shortest(x) for x in (2e4, 0.5, 1e-7, 459.58796700237144, math.inf)] == [
        *("20000", "0.5", "0.0000001", "459.58796700237144", "inf")
    ]
    assert plain([2.0, 2.5, math.nan, -0.0, 1e300, True]) == [2, 2.5, None, 0, 1e300, True]
    assert aligned(["a", "b"], [["x", "1"], ["long", "22"]]) == ["a      b", "----  --", "x      1", "long  22"]


# ----------------------------------------------------------------------------- JSON


def report_from(document: dict[str, Any]) -> Report:
    """The report that has the numbers of a measured one."""

    def number(value: Any) -> Any:
        return math.nan if value is None else value

    def sample_rows(section: dict[str, Any]) -> tuple[SampleRow, ...]:
        return tuple(SampleRow(name, *map(number, row.values())) for name, row in section.items())

    def resource(row: dict[str, Any]) -> dict[str, Any]:
        values = {name: value if name in ("index", "over_cap") else number(value) for name, value in row.items()}
        return values | ({"over_cap": OverCap(**row["over_cap"])} if row.get("over_cap") else {})

    header: dict[str, Any] = {name: value for name, value in document.items() if isinstance(value, int | float)}
    return Report(
        **header,
        observes=sample_rows(document["observes"]),
        clients=sample_rows(document["client"]),
        gauges=tuple(GaugeRow(name, *map(number, row.values())) for name, row in document["gauges"].items()),
        claims=tuple(ClaimRow(**row | {"first": number(row["first"])}) for row in document.get("claims", ())),
        stages=tuple(StageRow(**resource(row)) for row in document["stages"]),
        pools=tuple(PoolRow(**resource(row)) for row in document["pools"]),
        mode="native",
        inputs={},
    )


def test_json_has_the_measured_shape() -> None:
    """Every measured report survives the way through a Report: names, order, numbers, int or float."""
    checked = 0
    for run in measured_runs():
        expected = run["report"]
        ours = report_from(expected).json()
        assert list(ours)[-3:] == ["sqc_version", "mode", "inputs"]
        same = {name: ours[name] for name in ours if name in expected}
        assert json.dumps(same) == json.dumps(expected), run
        assert set(ours) - set(expected) == {"serq_version", "sqc_version", "mode", "inputs"}
        checked += 1
    assert checked >= 150


def test_json_text_is_json() -> None:
    document = json.loads(founding_report(horizon=math.inf).to_json())
    assert document["horizon"] is None
    assert document["client"]["ttft"] == {"count": 0, "mean": None, "ci": None, "cv2": None, "p99": None}
    assert document["stages"][0]["mean_decode_batch"] is None


# ----------------------------------------------------------------------------- a run


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    fakes.install(monkeypatch, failing=(13,))
    return Program(fakes.PROGRAM)


def test_report_of_a_run(program: Program) -> None:
    report = program.run(seed=2, horizon="2e4", warmup=2e3, sets={"C": "4e4", "think time": 1})
    assert (report.horizon, report.end, report.warmup, report.seed, report.mode) == (2e4, 2e4, 2e3, 2, "native")
    assert report.inputs == {"C": 4e4, "think time": 1.0}
    assert report.observe("hit").mean == pytest.approx(fakes.samples(100, 2).value.mean())
    assert report.client("response").count == len(report.client("response").samples) == 50
    assert report.client("ttft").count == 0
    assert report.client("ttft").samples.value.tolist() == []
    assert report.stage("tool").completed == int(fakes.lane_value("stage.tool.completed", 2, {"C": 4e4}))
    assert report.pool("kv").mean_used == fakes.lane_value("pool.kv.mean_used", 2, {"C": 4e4})
    assert list(report.samples) == ["observe.hit", "client.ttft", "client.tpot", "client.response"]


def test_report_of_a_run_with_arrays_gauges_and_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    report = Program(fakes.WIDE).run(seed=2, horizon=10, warmup=1)
    assert [row.label for row in report.stages] == ["P[0]", "P[1]", "one[0]"]
    assert [(row.name, row.index) for row in report.pools] == [("P.kv", 0), ("P.kv", 1), ("slot", None)]
    value = fakes.lane_value("pool.P.kv[1].mean_used", 2, {"C": 2e5}, fakes.metrics_of(fakes.WIDE))
    assert report.pool("P.kv", 1).mean_used == report.pool("P.kv[1]").mean_used == value
    assert report.pool("P.kv", 0).over_cap == OverCap("slot", 7.5)
    assert [(row.over_cap, row.growing_at_end, row.growing_stalled) for row in report.pools[1:]] == [
        *((None, 2, True), (None, 0, False))
    ]
    line = report.gauge("line")
    assert line.changes.value.tolist() == [2.0, 0.0, 1.5]
    assert line.ci == pytest.approx(2.093 * statistics.stdev(slow_windows(fakes.CHANGES, 1, 10)) / math.sqrt(20))
    assert [row.result for row in report.claims] == ["holds", "fails", "not_evaluated", "out_of_scope"]
    assert report.claim("wrong").first == 10
    document = report.json()
    assert list(document["gauges"]["line"]) == ["mean", "ci", "min", "max"]
    names = list(document)
    assert names[names.index("gauges") :][:3] == ["gauges", "claims", "stages"]
    assert document["claims"][1] == {
        "name": "wrong",
        "kind": "at_end",
        "result": "fails",
        "checked": 1,
        "failures": 1,
        "first": 10,
        "note": None,
    }
    assert document["pools"][0]["over_cap"] == {"queue": "slot", "need": 7.5}


@pytest.mark.parametrize(
    ("kind", "name", "hint"), [("observe", "hitt", "hit"), ("stage", "tol", "tool"), ("pool", "k", "kv")]
)
def test_unknown_row(program: Program, kind: str, name: str, hint: str) -> None:
    with pytest.raises(KeyError, match=rf"no {kind} {name} \(did you mean {hint}\?\)"):
        getattr(program.run(horizon=10), kind)(name)


def test_dump(program: Program, tmp_path: Path) -> None:
    report = program.run(horizon=10)
    report.dump(tmp_path / "new" / "folder")
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "new" / "folder").iterdir()}
    assert set(written) == {"report.json", "observe.hit.csv", "client.response.csv"}
    assert json.loads(written["report.json"]) == report.json()
    header, *lines = written["observe.hit.csv"].splitlines()
    assert header == "time,session,turn,value"
    kept = report.observe("hit").samples
    for line, time, session, value in itertools.zip_longest(lines, kept.time, kept.session, kept.value):
        assert [float(cell) for cell in line.split(",")] == [time, session, 1, value]


def test_dump_of_a_gauge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fakes.install(monkeypatch)
    Program(fakes.WIDE).run(horizon=10).dump(tmp_path)
    assert (tmp_path / "gauge.line.csv").read_text(encoding="utf-8") == "time,value\n0.0,2.0\n3.0,0.0\n8.0,1.5\n"


def test_failed_run_shows_the_statement(program: Program) -> None:
    with pytest.raises(RunError) as caught:
        program.run(seed=13, horizon=10)
    assert caught.value.failure.code == "R201"
    assert str(caught.value).splitlines() == [
        "prog.sq:3:4: error[R201]: the guard is 0.5, neither 0 nor 1",
        "  3 | // line 3 of the program",
        "    |    ^^^^",
        "  note: at simulated time 12.25, session 4, seed 13",
    ]
    assert caught.value.json()["line"] == 3


def test_kernels_are_kept(program: Program) -> None:
    assert program.kernel() is program.kernel()
    assert program.kernel() is not program.kernel(samples=True)
    assert program.kernel(capacities={"sessions": 8}) is not program.kernel()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon 0: must be above 0"),
        ({"horizon": "-1"}, "horizon -1: must be above 0"),
        ({"horizon": math.nan}, "horizon: nan is not a number (NaN)"),
        ({"horizon": "inf"}, "horizon inf: must be finite"),
        ({"horizon": 10, "warmup": 10}, "warmup 10: must be below the horizon 10"),
        ({"horizon": 10, "warmup": -1}, "warmup -1: must be at least 0"),
        ({"horizon": 10, "arrivals": 0}, "arrivals 0: must be a whole number of at least 1"),
        ({"horizon": 10, "seed": -1}, "seed -1: must be a whole number from 0 to 2^64 - 1"),
        ({"horizon": 10, "seed": 2**64}, f"seed {2**64}: must be a whole number from 0 to 2^64 - 1"),
        ({"horizon": 10, "sets": {"c": 1}}, "unknown input c (did you mean C?)"),
        ({"horizon": 10, "sets": {"think tim": 1}}, "unknown input think tim (did you mean think time?)"),
        ({"horizon": 10, "sets": {"C": math.nan}}, "input C: nan is not a number (NaN)"),
        ({"horizon": 10, "sets": {"C": None}}, "input C: None is no number"),
    ],
)
def test_wrong_arguments(program: Program, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        program.run(**arguments)
    assert str(caught.value) == message


def test_arrival_limits_need_an_open_workload(program: Program) -> None:
    closed = Program(replace(program.ir, arrival=ir.Closed(ir.Const(3.0))))
    with pytest.raises(InputError, match="arrivals 5: a limit goes with poisson and renewal arrivals only"):
        closed.run(horizon=10, arrivals=5)
    assert program.run(horizon=10, arrivals=5).end == 10


def test_compiled_kernels_can_be_kept(program: Program, tmp_path: Path) -> None:
    program.run(horizon=10)
    assert fakes.kept_in == []
    program.cache_dir = tmp_path
    program.sweep(3, horizon=10)
    assert fakes.kept_in == [str(tmp_path)]
