"""Recordings of a run are exact, and their pictures show what they hold."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sqc
from harness import corpus_program
from sqc import pictures
from sqc.inputs import InputError
from sqc.pictures.recording import POOL_SIGNALS, STAGE_SIGNALS, Recording, Series
from sqc.pictures.timelines import MOST_PANELS, View, panels

if TYPE_CHECKING:
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure

WORKED = """
fn main() {
  pool mem { cap 3; evict lru; }
  pool side[2] { cap 5; }
  stage svc : fifo;
  workload { arrive renewal(2); turn { set n = serial == 1 ? 4 : 2; } }
  server { hold mem (cost(mem, n)) {
    hold side[1] (cost(side, 1)) { run svc (cost(svc, 3)); }
  } cache (cost(mem, n)); }
  gauge room = free(mem) + 10 * busy(svc);
}
"""
"""Session 0 runs from 2 to 5 and leaves 2 units behind. Session 1, at 4, asks for more than there is. Session 2, at 6,
evicts what session 0 left and runs to 9. Session 3 waits from 8 to 9, and then evicts what session 2 left."""
WORKED_SERIES = {
    "pool.mem.used": [(0, 0), (2, 2), (5, 0), (6, 2)],
    "pool.mem.cached": [(0, 0), (5, 2), (6, 0)],
    "pool.mem.queue": [(0, 0), (8, 1), (9, 0)],
    "pool.mem.holders": [(0, 0), (2, 1), (5, 0), (6, 1)],
    "pool.mem.evicted_units": [(0, 0), (6, 2), (9, 4)],
    "pool.mem.evicted_entries": [(0, 0), (6, 1), (9, 2)],
    "pool.mem.rejected": [(0, 0), (4, 1)],
    "pool.mem.preemptions": [(0, 0)],
    "pool.mem.spills": [(0, 0)],
    "pool.mem.cap": [(0, 3)],
    **{f"pool.side[0].{signal}": [(0, 0)] for signal in POOL_SIGNALS if signal != "cap"},
    "pool.side[0].cap": [(0, 5)],
    **{f"pool.side[1].{signal}": [(0, 0)] for signal in POOL_SIGNALS},
    "pool.side[1].used": [(0, 0), (2, 1), (5, 0), (6, 1)],
    "pool.side[1].holders": [(0, 0), (2, 1), (5, 0), (6, 1)],
    "pool.side[1].cap": [(0, 5)],
    "stage.svc.number": [(0, 0), (2, 1), (5, 0), (6, 1)],
    "stage.svc.busy": [(0, 0), (2, 1), (5, 0), (6, 1)],
    "gauge.room": [(0, 3), (2, 11), (5, 3), (6, 11)],
}


@pytest.fixture(scope="module")
def worked() -> Recording:
    return pictures.record(sqc.compile(source=WORKED), 1, until=9.5)


# ----------------------------------------------------------------------------- what is recorded


def test_a_run_worked_by_hand(worked: Recording) -> None:
    """Every change and nothing else; at instants with several events the value that they end with."""
    found = {name: list(zip(s.time.tolist(), s.value.tolist(), strict=True)) for name, s in worked.series.items()}
    assert found == WORKED_SERIES
    assert (worked.pools, worked.stages, worked.gauges, worked.end) == (
        ("mem", "side[0]", "side[1]"),
        ("svc",),
        ("room",),
        9.5,
    )


def test_the_run_is_the_one_without_recording() -> None:
    """Time averages of the series and the last values of the counters are those of the report of a plain run.

    An engine with growing holds, a cache in blocks, preemption: most of what can happen at one instant.
    """
    program, end, sets = corpus_program("f04_vllm_like"), 150.0, {"blocks": 30.0}
    recording = pictures.record(program, 3, until=end, sets=sets)
    report = program.run(3, horizon=end, sets=sets)
    averages = {("pool", signal) for signal in ("used", "cached", "queue", "holders")} | {("stage", "number")}
    for kind, rows in (("pool", report.pools), ("stage", report.stages)):
        for row in rows:
            for _, signal in (pair for pair in averages if pair[0] == kind):
                series = recording.series[f"{kind}.{row.label}.{signal}"]
                average = float((series.value * np.diff(series.time, append=end)).sum()) / end
                assert average == pytest.approx(getattr(row, f"mean_{signal}"), rel=1e-9, abs=1e-12), signal
    for pool in report.pools:
        for counter in ("evicted_units", "evicted_entries", "rejected", "preemptions", "spills"):
            assert recording.series[f"pool.{pool.label}.{counter}"].value[-1] == getattr(pool, counter)
    assert report.pool("kv").preemptions > 0
    assert report.pool("kv").evicted_units > 0


def test_csv(worked: Recording, tmp_path: Path) -> None:
    """A row for each instant with a change and one for the end; the columns are the series, as they hold from there."""
    text = worked.to_csv(tmp_path / "run.csv")
    assert (tmp_path / "run.csv").read_text(encoding="utf-8") == text
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["time", *WORKED_SERIES]
    assert [float(row[0]) for row in rows] == [0, 2, 4, 5, 6, 8, 9, 9.5]
    assert dict(zip(header, rows[3], strict=True))["pool.mem.cached"] == "2"
    assert rows[-1][1:] == rows[-2][1:]


def test_a_run_that_fails() -> None:
    text = "stage s : fifo; workload { arrive batch(1); turn { set w = -1; } } server { run s (cost(s, w)); }"
    program = sqc.compile(source=f"fn main() {{ {text} }}")
    with pytest.raises(sqc.RunError, match="R"):
        pictures.record(program, until=1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"until": 0}, "until 0: must be above 0 and finite"),
        ({"until": "inf"}, "until inf: must be above 0 and finite"),
        ({"until": 1, "seed": -1}, "seed -1: must be a whole number from 0 to 2^64 - 1"),
        ({"until": 1, "sets": {"c": 1}}, "unknown input c (the program has no inputs)"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        pictures.record(sqc.compile(source=WORKED), **arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message


# ----------------------------------------------------------------------------- series


def test_series() -> None:
    step = Series(np.array([0.0, 2.0, 5.0]), np.array([1.0, 3.0, 0.0]))
    assert step.at(np.array([0.0, 1.9, 2.0, 7.0])).tolist() == [1, 1, 3, 0]
    other = Series(np.array([0.0, 3.0]), np.array([1.0, 2.0]))
    for found, values in ((step.plus(other), [2, 4, 5, 2]), (step.minus(other), [0, 2, 1, -2])):
        assert (found.time.tolist(), found.value.tolist()) == ([0, 2, 3, 5], values)
    counter = Series(np.array([0.0, 2.0, 5.0]), np.array([0.0, 3.0, 4.0]))
    times, rises = counter.jumps(1.0, 5.0)
    assert (times.tolist(), rises.tolist()) == ([2, 5], [3, 1])


def test_averages_over_steps() -> None:
    """Of 0 to 2, then 4 to 5 in the second half of the window's steps: the exact averages and ranges."""
    step = Series(np.array([0.0, 2.0, 4.5]), np.array([0.0, 4.0, 5.0]))
    view = View(1.0, 5.0, 2 / 24)
    assert view.steps == 2
    edges, average, least, largest = view.steps_of(step)
    assert edges.tolist() == [1, 3, 5]
    assert average.tolist() == [2.0, 4.25, 4.25]
    assert (least.tolist(), largest.tolist()) == ([0, 4, 4], [4, 5, 5])


# ----------------------------------------------------------------------------- the picture


def made(**series: list[tuple[float, float]]) -> Recording:
    """A recording of pool `kv` and stage `engine` to time 10; what is not given is 0 throughout."""
    names = [f"pool.kv.{signal}" for signal in POOL_SIGNALS]
    names += [f"stage.engine.{signal}" for signal in STAGE_SIGNALS]
    given = {name: series.get(name.rpartition(".")[2], [(0.0, 0.0)]) for name in names}
    made = {name: Series(*(np.array(column, float) for column in zip(*v, strict=True))) for name, v in given.items()}
    return Recording("dir/prog.sq", 7, 10.0, {"C": 2e4}, ("kv",), ("engine",), (), made)


def heights(area: Collection) -> NDArray[Any]:
    return np.asarray(area.get_paths()[0].vertices)[:, 1]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def caption(figure: Figure) -> str:
    return figure.texts[-1].get_text().replace("\n", " ").replace("\u00a0", " ")


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_worked_run_as_a_picture(worked: Recording, tmp_path: Path) -> None:
    figure = pictures.timeline(worked)
    assert titles(figure) == [
        "pool mem: 4 units evicted (2 entries), 1 rejected",
        "waiting for mem",
        "pool side[0]: cap 5, above what is shown, nobody waits",
        "pool side[1]: cap 5, above what is shown, nobody waits",
        "stage svc",
        "gauge room",
    ]
    assert legend(figure) == ["used", "cached", "in service", "waiting", "cap", "evicted", "rejected"]
    assert figure.axes[-1].get_xlabel() == "time"
    assert figure.axes[-1].get_xlim() == (0, 9.5)
    assert [axes.get_ylabel() for axes in figure.axes] == ["units", "requests", "units", "units", "jobs", ""]
    pool = figure.axes[0]
    top, cap, evicted, rejected = (np.asarray(line.get_xydata()) for line in pool.lines)
    assert top[:, 1].max() == 2
    assert set(cap[:, 1]) == {3.0}
    assert (evicted[:, 0].tolist(), rejected[:, 0].tolist()) == ([6, 9], [4])
    rows = {evicted[0, 1], rejected[0, 1]}
    assert len(rows) == 2
    assert min(rows) * pool.get_ylim()[1] > 3  # the marks are above the cap
    used, cached = pool.collections
    assert heights(used).max() == 2
    assert heights(cached).max() == 2
    assert caption(figure) == "<program>, seed 1"
    assert pictures.save(figure, tmp_path / "run.png").stat().st_size > 10_000


def test_a_window_and_a_choice(worked: Recording) -> None:
    figure = pictures.timeline(worked, start=5.5, only=["mem"])
    assert titles(figure) == ["pool mem: 4 units evicted (2 entries), 0 rejected", "waiting for mem"]
    assert figure.axes[0].get_xlim() == (5.5, 9.5)
    assert titles(pictures.timeline(worked, only=["svc", "room"])) == ["stage svc", "gauge room"]


def test_a_cap_far_above_is_told_in_words() -> None:
    for cap, said in ((2e5, "cap 200k, above what is shown, "), (np.inf, "no cap, "), (50, "")):
        axes = pictures.timeline(made(cap=[(0, cap)], used=[(0, 0), (1, 40)])).axes[0]
        assert axes.get_title(loc="left") == f"pool kv: {said}nobody waits"
        assert len(axes.lines) == (2 if cap == 50 else 1)
        assert 40 < axes.get_ylim()[1] < 60


def test_nobody_is_there() -> None:
    """In the whole run, or in the window only."""
    assert titles(pictures.timeline(made(cap=[(0, 1)]))) == ["pool kv: nobody waits", "stage engine: no job"]
    late = pictures.timeline(made(cap=[(0, 1)], queue=[(0, 1), (3, 0)]), start=5)
    assert titles(late) == ["pool kv", "waiting for kv: nobody", "stage engine: no job"]


def test_frequent_changes_are_averaged() -> None:
    """On 8 cm, 2000 changes: the areas are averages, the largest values a line, and the caption says so."""
    often = [(k / 200, k % 2 * 4.0) for k in range(2000)]
    recording = made(number=often, busy=[(t, min(v, 1.0)) for t, v in often])
    few = pictures.timeline(recording, start=9.9).axes[1]
    figure = pictures.timeline(recording, width=8)
    assert "largest" in legend(figure)
    assert "averages over 0.0521" in caption(figure)
    axes = figure.axes[1]
    (largest,) = axes.lines
    assert set(np.asarray(largest.get_ydata())) == {4.0}
    service, _ = axes.collections
    assert 0.3 < heights(service).max() < 0.7
    assert heights(few.collections[0]).max() == 1.0


def test_many_panels() -> None:
    """The first are drawn, and `only` picks among them by array and by member."""
    base = made()
    stages = tuple(f"gpu[{k}]" for k in range(40))
    series = {
        f"stage.{name}.{signal}": Series(np.zeros(1), np.ones(1)) for name in stages for signal in ("number", "busy")
    }
    recording = Recording("x.sq", 1, 10.0, {}, (), stages, (), {**base.series, **series})
    assert len(panels(recording)) == 40
    assert len(pictures.timeline(recording).axes) == MOST_PANELS
    assert [panel.title for panel in panels(recording, ["gpu[3]"])] == ["stage gpu[3]"]
    assert len(panels(recording, ["gpu"])) == 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": 10}, "from 10: must be at least 0 and below 10"),
        ({"start": -1}, "from -1: must be at least 0 and below 10"),
        ({"only": ["engin"]}, "no pool, stage or gauge engin (did you mean engine?)"),
        ({"width": 1}, "width 1: must be from 4 to 200 cm"),
    ],
)
def test_wrong_pictures(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        pictures.timeline(made(), **arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_nothing_to_draw() -> None:
    with pytest.raises(InputError, match="no pool, stage or gauge"):
        pictures.timeline(Recording("x.sq", 1, 1.0, {}, (), (), (), {}))
