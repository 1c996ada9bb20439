"""Pictures of sweeps: which numbers are drawn, on which axes, and what is refused. The sweeps are made up."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.colors import LogNorm

from sqc import pictures
from sqc.inputs import InputError
from sqc.pictures import slices
from sqc.sweeps import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRIC = "client.response.mean"
SEEDS = 5
C = (1e4, 2e4, 4e4, 8e4)
Z = (1.0, 3.0, 10.0)
GRID = [{"C": c, "Z": z} for c, z in itertools.product(C, Z)]


def sweep(
    points: list[dict[str, float]] = GRID, seeds: int = SEEDS, failed: tuple[int, ...] = (), **metrics: Any
) -> Sweep:
    """Metric `METRIC` is C / 1e4 + Z plus a tenth of the seed; others are given by point and seed, or for all."""
    lanes = [(point, seed) for point in points for seed in range(1, seeds + 1)]
    values = {METRIC: np.array([point.get("C", 0) / 1e4 + point.get("Z", 0) + seed / 10 for point, seed in lanes])}
    values |= {name: np.broadcast_to(np.asarray(value, float), len(lanes)) for name, value in metrics.items()}
    failure = SimpleNamespace(code="R101", message="no", time=1.0, session=0, span=None)
    return Sweep.of(
        values,
        dict.fromkeys(failed, failure),
        program="dir/prog.sq",
        inputs={"C": 2e5, "Z": 3.0, "p": 0.8},
        points=points,
        seeds=tuple(range(1, seeds + 1)),
        horizon=2000.0,
        warmup=200.0,
        arrivals=np.inf,
        mode="native",
    )


def only(figure: Figure) -> Axes:
    return figure.axes[0]


def caption(figure: Figure) -> str:
    return figure.get_supxlabel().replace("\n", " ").replace("\u00a0", " ")


def ticks(axis: Any) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    return [axis.get_major_formatter()(at, 0) for at in axis.get_majorticklocs() if low <= at <= high]


# ----------------------------------------------------------------------------- lines


def test_a_line_per_value(tmp_path: Path) -> None:
    """Means against the input with their 95 % Student intervals, lines told apart by mark and dashes."""
    figure = pictures.plot(sweep(), METRIC, x="C", by="Z")
    axes = only(figure)
    spread = sweep().metric(METRIC)
    for k, line in enumerate(axes.lines):
        x, y = np.asarray(line.get_xydata()).T
        assert x.tolist() == list(C)
        np.testing.assert_allclose(y, spread.mean[k :: len(Z)])
        band = np.asarray(axes.collections[k].get_paths()[0].vertices)[:, 1]
        np.testing.assert_allclose(band.max(), (spread.mean + spread.half)[k :: len(Z)].max())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Z = 1", "Z = 3", "Z = 10"]
    for different in ("get_marker", "get_color"):
        assert len({str(getattr(line, different)()) for line in axes.lines}) == len(Z)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("C", f"{METRIC} (time)")
    assert caption(figure) == "prog.sq, 5 seeds, horizon 2000, band: 95 % interval of the mean"
    for suffix in (".png", ".svg", ".pdf"):
        assert pictures.save(figure, tmp_path / f"cliff{suffix}").stat().st_size > 5000
    assert f"<!-- {METRIC} (time) -->" in (tmp_path / "cliff.svg").read_text(encoding="utf-8")


def test_colours_differ_in_grey() -> None:
    """From line to line lighter, by a step that can be seen."""
    figure = pictures.plot(sweep(), METRIC, x="C", by="Z")
    greys = [float(np.dot(line.get_color()[:3], (0.299, 0.587, 0.114))) for line in only(figure).lines]
    assert all(b - a > 0.1 for a, b in itertools.pairwise(greys))


def test_one_line_without_a_legend() -> None:
    """The input that varies need not be named."""
    figure = pictures.plot(sweep([{"C": c} for c in C]), METRIC)
    assert len(only(figure).lines) == 1
    assert not figure.legends
    assert only(figure).get_xlabel() == "C"


def test_an_input_set_to_a_value() -> None:
    figure = pictures.plot(sweep(), METRIC, pinned={"Z": 3})
    assert np.asarray(only(figure).lines[0].get_ydata()).tolist() == pytest.approx([c / 1e4 + 3.3 for c in C])
    assert "Z = 3" in caption(figure)


def test_one_seed_has_no_band() -> None:
    figure = pictures.plot(sweep(seeds=1), METRIC, x="C", by="Z")
    assert "one run each: no interval" in caption(figure)
    assert len(only(figure).lines) == 3


def test_failed_runs_are_told() -> None:
    """A point without any run left is a gap in the line."""
    figure = pictures.plot(sweep([{"C": c} for c in C], failed=(5, 6, 7, 8, 9, 0)), METRIC)
    values = np.asarray(only(figure).lines[0].get_ydata())
    assert np.isnan(values).tolist() == [False, True, False, False]
    assert "6 failed runs left out" in caption(figure)


def test_infinite_values_are_left_out() -> None:
    values = np.repeat([1.0, np.inf, 2.0, 3.0], SEEDS)
    for kind in ("line", "scatter"):
        figure = pictures.plot(sweep([{"C": c} for c in C], rate=values), "rate", kind=kind)
        assert np.isfinite(only(figure).get_ylim()).all()


# ----------------------------------------------------------------------------- axes


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([1e4, 2e4, 4e4, 8e4, 2e5], True),
        (np.geomspace(1, 1000, 7).round(1), True),
        ([1, 3, 10], True),
        ([2e5, 6e4, 4e4, 2e4], True),
        (np.linspace(1, 100, 12), False),
        ([0.5, 0.8, 0.9], False),
        ([0, 1, 10, 100], False),
        ([1, 100], False),
        ([1, 2, 4], False),
    ],
)
def test_when_an_axis_is_logarithmic(values: list[float], log: bool) -> None:
    assert slices.is_logarithmic(values) is log


@pytest.mark.parametrize(
    ("log", "scales"),
    [(None, ("log", "linear")), ("none", ("linear", "linear")), ("y", ("linear", "log")), ("xy", ("log", "log"))],
)
def test_logarithmic_axes_are_a_choice(log: str | None, scales: tuple[str, str]) -> None:
    axes = only(pictures.plot(sweep(), METRIC, x="C", by="Z", log=log))
    assert (axes.get_xscale(), axes.get_yscale()) == scales


def test_ticks_are_few_and_short() -> None:
    """Round numbers, never more than have room, on a screen and in a column."""
    points = [{"C": c} for c in np.geomspace(1e4, 2e5, 12)]
    wide, narrow = (only(pictures.plot(sweep(points), METRIC, width=width)) for width in (25, 8))
    assert ticks(wide.xaxis) == ["10k", "20k", "30k", "50k", "100k", "200k"]
    assert ticks(narrow.xaxis) == ["10k", "30k", "100k"]
    even = [{"C": c} for c in np.linspace(1e4, 2e5, 12)]
    assert len(ticks(only(pictures.plot(sweep(even), METRIC, width=8)).xaxis)) <= 6
    assert max(map(len, ticks(wide.yaxis))) <= 4


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("client.response.p99", "client.response.p99 (time)"),
        ("pool.kv.mean_used", "pool.kv.mean_used (units)"),
        ("stage.e.utilization", "stage.e.utilization (share of time)"),
        ("observe.hit.mean", "observe.hit.mean"),
        ("mean_live", "mean_live (sessions)"),
    ],
)
def test_units(metric: str, label: str) -> None:
    given: dict[str, Any] = {metric: 1.0}
    table = sweep([{"C": c} for c in C], **given)
    assert only(pictures.plot(table, metric)).get_ylabel() == label


# ----------------------------------------------------------------------------- other kinds


def test_a_distribution() -> None:
    """Of five runs: from 0 to 1 in fifths, at their values in order; the input that varies tells lines apart."""
    figure = pictures.plot(sweep([{"Z": z} for z in Z]), METRIC, kind="dist")
    axes = only(figure)
    assert [line.get_label() for line in axes.lines] == ["Z = 1", "Z = 3", "Z = 10"]
    x, y = np.asarray(axes.lines[0].get_xydata()).T
    assert y.tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert x.tolist() == pytest.approx([1.1, 1.1, 1.2, 1.3, 1.4, 1.5])
    assert (axes.get_xlabel(), axes.get_ylabel()) == (f"{METRIC} (time)", "share of runs at or below")
    assert only(pictures.plot(sweep(), METRIC, kind="dist", by="Z", pinned={"C": 1e4}, log="y")).get_xscale() == "log"


def test_a_heat_map() -> None:
    """A cell for each point with its number in it; the other input that varies need not be named."""
    figure = pictures.plot(sweep(), METRIC, kind="heat", x="C")
    axes = only(figure)
    mesh = axes.collections[0].get_array()
    assert mesh is not None
    means = np.asarray(mesh).reshape(len(Z), len(C))
    np.testing.assert_allclose(means, [[c / 1e4 + z + 0.3 for c in C] for z in Z])
    assert [text.get_text() for text in axes.texts][:2] == ["2.3", "3.3"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["10k", "20k", "40k", "80k"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1", "3", "10"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("C", "Z")
    assert figure.axes[1].get_ylabel() == f"{METRIC} (time)"


@pytest.mark.parametrize(
    ("values", "log", "norm"),
    [
        ((1, 1000), None, True),
        ((1, 1000), "none", False),
        ((1, 2), "y", True),
        ((1, 2), None, False),
        ((3, 3), None, False),
    ],
)
def test_colours_of_a_heat_map(values: tuple[float, float], log: str | None, norm: bool) -> None:
    """Logarithmic where the values differ by more than a hundred times, or as asked."""
    spread = np.geomspace(*values, len(GRID))
    figure = pictures.plot(sweep(x=np.repeat(spread, SEEDS)), "x", kind="heat", x="C", by="Z", log=log)
    assert isinstance(only(figure).collections[0].norm, LogNorm) is norm


def test_holes_in_a_heat_map() -> None:
    figure = pictures.plot(sweep(GRID[:-1]), METRIC, kind="heat", x="C", by="Z")
    assert len(only(figure).texts) == len(GRID) - 1


def test_a_scatter() -> None:
    """Points that fill a space: each one at its input, coloured by another, whatever else varies."""
    rng = np.random.default_rng(1)
    points = [{"C": float(c), "Z": float(z), "p": float(p)} for c, z, p in rng.uniform(1, 2, (20, 3))]
    figure = pictures.plot(sweep(points), METRIC, kind="scatter", x="Z", by="p")
    dots = only(figure).collections[-1]
    assert sorted(np.asarray(dots.get_offsets())[:, 0]) == pytest.approx(sorted(point["Z"] for point in points))
    assert figure.axes[1].get_ylabel() == "p"
    assert "bars: 95 % interval" in caption(figure)
    assert len(only(pictures.plot(sweep(points), METRIC, kind="scatter", x="Z")).lines) >= 1


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "client.reponse.mean", "x": "C"}, f"no metric client.reponse.mean (did you mean {METRIC}?)"),
        ({"x": "c"}, "unknown input c (did you mean C?)"),
        ({"x": "C", "by": "zz"}, "unknown input zz (did you mean Z?)"),
        ({"x": "p", "by": "Z"}, "input p does not vary: it is 0.8 at all points"),
        ({"x": "C"}, "input Z varies too: draw it, or set it to one of 1, 3, 10"),
        ({}, "which input is x (one of C, Z)"),
        ({"x": "C", "by": "C"}, "input C is asked for twice"),
        ({"x": "C", "pinned": {"Z": 2}}, "input Z: no point has 2; there are 1, 3, 10"),
        ({"x": "C", "pinned": {"C": 1e4}}, "input C is drawn and cannot be set too"),
        ({"x": "C", "by": "Z", "kind": "lines"}, "kind lines: no such choice (did you mean line?)"),
        ({"x": "C", "by": "Z", "log": "z"}, "log z: no such choice (one of none, x, y, xy)"),
        ({"kind": "dist", "x": "C"}, "x goes with line, heat and scatter: a distribution is over seeds"),
        ({"kind": "dist", "by": "Z"}, "input C varies too: draw it, or set it to one of 10000, 20000, 40000, 80000"),
        (
            {"kind": "dist", "by": "Z", "pinned": {"C": 1e4}, "log": "x"},
            "log x goes with an input on the x axis (y is the metric's axis)",
        ),
        (
            {"kind": "heat", "x": "C", "pinned": {"Z": 3}},
            "which input is the other of the heat map: no other input varies",
        ),
        ({"x": "C", "by": "Z", "metric": "none"}, "metric none has no finite value in any of these runs"),
        ({"x": "C", "by": "Z", "metric": "zero", "log": "y"}, "a logarithmic axis needs values above 0"),
        ({"kind": "heat", "x": "C", "metric": "zero", "log": "y"}, "a logarithmic axis needs values above 0"),
        ({"x": "C", "by": "Z", "width": 300}, "width 300: must be from 4 to 200 cm"),
    ],
)
def test_refused(arguments: dict[str, Any], message: str) -> None:
    metric = arguments.pop("metric", METRIC)
    with pytest.raises(InputError) as caught:
        pictures.plot(sweep(none=np.nan, zero=0.0), metric, **arguments)
    assert str(caught.value) == message


def test_refused_for_its_points() -> None:
    with pytest.raises(InputError, match="which input is x: no other input varies"):
        pictures.plot(sweep([{"C": 1e4}]), METRIC)
    diagonal = [{"C": float(k), "Z": float(k)} for k in range(9)]
    with pytest.raises(InputError, match="no grid over C and Z: scatter shows them"):
        pictures.plot(sweep(diagonal), METRIC, kind="heat", x="C", by="Z")
    many = [{"C": c, "Z": float(z)} for c in C for z in range(13)]
    with pytest.raises(InputError, match="Z has 13 values, more lines than the 12 that can be told apart"):
        pictures.plot(sweep(many), METRIC, x="C", by="Z")
