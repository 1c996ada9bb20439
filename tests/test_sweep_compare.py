"""Paired differences to a baseline, pooled quantiles, and sweeps as frames: numbers, text and JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fakes
from harness import compiled, corpus_text
from sqc.cli import main
from sqc.inputs import InputError
from sqc.program import Program
from sqc.sweeps import Sweep
from sqc.sweeps.text import Extras, tables

# ----------------------------------------------------------------------------- paired differences


def sweep_of(lanes: dict[str, Any], points: list[dict[str, float]]) -> Sweep:
    """A sweep with these metrics [points, seeds]."""
    shape = np.shape(next(iter(lanes.values())))
    return Sweep.of(
        {name: np.array(values, float).reshape(-1) for name, values in lanes.items()},
        {},
        program="p",
        inputs={"C": 1.0, "Z": 2.0},
        points=points,
        seeds=range(1, shape[1] + 1),
        horizon=1.0,
        warmup=0.0,
        arrivals=np.inf,
        mode="native",
    )


def test_paired_differences() -> None:
    """Against SciPy's paired test; what is saved, from the variances of the two and of their difference."""
    rng = np.random.default_rng(3)
    common = rng.normal(10, 3, 50)
    x = np.array([common, common + rng.normal(1, 0.5, 50), rng.normal(5, 1, 50)])
    table = sweep_of({"x": x}, [{"C": 1.0}, {"C": 2.0}, {"C": 3.0}])
    baseline = table.baseline({"C": "1"})
    assert (baseline.against.tolist(), baseline.compared.tolist()) == ([0, 0, 0], [1, 2])
    difference = baseline.metric("x")
    for point in (1, 2):
        test = stats.ttest_rel(x[point], x[0])
        interval = test.confidence_interval(0.95)
        found = difference.at(point)
        assert found["mean"] == pytest.approx((x[point] - x[0]).mean())
        assert found["half"] == pytest.approx((interval.high - interval.low) / 2)
        apart = x[point].var(ddof=1) + x[0].var(ddof=1)
        assert found["saved"] == pytest.approx(1 - (x[point] - x[0]).var(ddof=1) / apart)
        assert found["n"] == 50
    assert difference.saved[1] > 0.9
    assert abs(difference.saved[2]) < 0.5


def test_pairs_need_both_lanes() -> None:
    x = [[1.0, 2.0, np.nan, 4.0], [2.0, np.nan, 3.0, 6.0]]
    difference = sweep_of({"x": x}, [{"C": 1.0}, {"C": 2.0}]).baseline({"C": 1}).metric("x")
    assert difference.at(1) == {
        "mean": 1.5,
        "half": pytest.approx(6.353, abs=1e-3),
        "saved": pytest.approx(0.96),
        "n": 2,
    }


def test_the_other_inputs_stay() -> None:
    points = [{"C": c, "Z": z} for c in (1.0, 2.0) for z in (5.0, 6.0)]
    table = sweep_of({"x": np.arange(8).reshape(4, 2)}, points)
    assert table.baseline({"C": 2}).against.tolist() == [2, 3, 2, 3]
    assert table.baseline({"Z": 5}).against.tolist() == [0, 0, 2, 2]
    assert table.baseline({"Z": 5, "C": 1}).against.tolist() == [0] * 4
    for given, message in (
        ({"C": 3}, "baseline: no point with C=3 Z=5"),
        ({"D": 3}, "baseline: unknown input D"),
        ({"C": "x"}, "baseline C: 'x' is no number: `x` is not a constant"),
    ):
        with pytest.raises(InputError) as caught:
            table.baseline(given)
        assert str(caught.value) == message
    alone = sweep_of({"x": [[1.0, 2.0]]}, [{}])
    assert alone.baseline({"C": 1}).against.tolist() == [0]
    with pytest.raises(InputError, match="baseline: no point with C=4"):
        alone.baseline({"C": 4})


def test_common_random_numbers_save_variance() -> None:
    """A slightly smaller queue limit, the same seeds: most of the noise is common to both."""
    source = """
    use "std/args";
    fn main() {
      let rate = args.number("rate", 0.5);
      stage svc : fifo;
      workload { arrive poisson(rate); turn { set w = ~exp(1); } }
      server { run svc (cost(svc, w)); }
    }
    """
    table = compiled(source).sweep(30, horizon=500, warmup=50, sets={"rate": [0.5, 0.52]})
    difference = table.baseline({"rate": 0.5}).metric("client.response.mean").at(1)
    assert difference["mean"] - difference["half"] > 0
    assert difference["saved"] > 0.8


# ----------------------------------------------------------------------------- text and JSON


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Sweep:
    fakes.install(monkeypatch)
    return Program(fakes.PROGRAM).sweep(8, horizon=10, sets={"C": [2e5, 6e4], "think time": [1, 3]})


def test_text_of_differences(table: Sweep) -> None:
    """The fake's lanes differ by their input alone, so pairing saves all."""
    text = table.text(["events", "client.*"], baseline={"C": 2e5})
    lines = text.split("\n\n")[2:4]
    assert lines[0] == "difference to C=200000, same seeds; saved: share of its variance removed by pairing"
    rows = [line.split() for line in lines[1].splitlines()]
    assert rows[0][:5] == ["C", "think", "time", "events", "saved"]
    assert rows[2][:5] == ["60000", "1", "-1.4", "±0", "100%"]
    assert len(rows) == 4


def test_differences_fit_the_width(table: Sweep) -> None:
    for width in (60, 100, 160):
        for made in tables(table, (), width, Extras(table.baseline({"C": 2e5}))):
            line = sum(max(len(row[k]) for row in (made.header, *made.rows)) + 2 for k in range(len(made.header))) - 2
            assert line <= width


def test_wide_tables_of_chosen_metrics_fold(table: Sweep) -> None:
    made = tables(table, ["pool.*"], 80, fold=True)
    assert len(made) > 2
    assert all(part.header[:3] == ["C", "think time", "seeds"] for part in made)
    shown = [name for part in made for name in part.header[3:]]
    assert shown == [name for name in fakes.METRICS if name.startswith("pool.") and "over_cap" not in name]
    assert len(tables(table, ["pool.*"], 80)) == 1


def test_patterns_leave_out_what_is_undefined(table: Sweep) -> None:
    header = tables(table, ["client.*.mean"])[0].header
    assert header[3:] == ["client.response.mean"]
    assert tables(table, ["client.ttft.mean", "client.*.mean"])[0].header[3:] == [
        "client.ttft.mean",
        "client.response.mean",
    ]
    assert tables(table, ["client.ttft.*"])[0].header[3:] == [
        f"client.ttft.{name}" for name in ("count", "mean", "cv2", "p99")
    ]


def test_text_of_quantiles(table: Sweep) -> None:
    (_, made) = tables(table, ["events"], 100, Extras(quantiles=(0.5, 1.0)))
    assert made.title == "quantiles of the samples of all seeds together, to 1 %"
    assert made.header == ["samples of", "C", "think time", "count", "p50", "p100"]
    assert len(made.rows) == 4
    largest = fakes.lane_value("client.response.mean", 8, {"C": 2e5})
    assert made.rows[0] == ["client.response", "200000", "1", "8", made.rows[0][4], f"{largest:.5g}"]
    assert table.quantiles("client.response", (1.0,))[0, 0] == largest
    with pytest.raises(KeyError, match=r"no pooled samples client.respons \(did you mean client.response\?\)"):
        table.quantiles("client.respons", (0.5,))


def test_json(table: Sweep) -> None:
    document = json.loads(json.dumps(table.json(table.baseline({"C": 2e5}), (0.25,))))
    pooled = document["points"][0]["pooled"]["client.response"]
    assert list(pooled) == ["count", "min", "max", "p25", "p50", "p90", "p99", "p99.9"]
    assert document["baseline"]["inputs"] == {"C": 200000}
    compared = document["baseline"]["points"]
    assert [(point["inputs"], point["against"]) for point in compared] == [
        ({"C": 60000, "think time": z}, {"C": 200000, "think time": z}) for z in (1, 3)
    ]
    assert compared[0]["metrics"]["events"]["mean"] == pytest.approx(-1.4)
    assert compared[0]["metrics"]["client.ttft.mean"]["mean"] is None


# ----------------------------------------------------------------------------- frames


def test_xarray_of_a_grid(table: Sweep) -> None:
    data = table.to_xarray()
    assert dict(data.sizes) == {"C": 2, "think time": 2, "seed": 8}
    cell = data["events"].sel({"C": 6e4, "think time": 3, "seed": 5})
    assert float(cell) == fakes.lane_value("events", 5, {"C": 6e4})
    assert (data["status"] == "done").all()
    assert data.attrs["horizon"] == 10


def test_xarray_of_other_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points in another order are a grid still; points that are none are a dimension of their own."""
    fakes.install(monkeypatch, failing=(2,))
    points = [{"C": c, "think time": z} for c, z in ((1, 5), (2, 6), (2, 5), (1, 6))]
    program = Program(fakes.PROGRAM)
    data = program.sweep(3, horizon=1, points=points).to_xarray()
    assert float(data["events"].sel({"C": 2, "think time": 6, "seed": 1})) == fakes.lane_value("events", 1, {"C": 2})
    assert data["status"].sel(seed=2).values.tolist() == [["R201"] * 2] * 2
    assert np.isnan(data["events"].sel(seed=2)).all()
    data = program.sweep(3, horizon=1, points=points[:3]).to_xarray()
    assert dict(data.sizes) == {"point": 3, "seed": 3}
    assert data["C"].values.tolist() == [1, 2, 2]
    assert data.attrs["program"] == "prog.sq"
    assert dict(program.sweep(3, horizon=1).to_xarray().sizes) == {"seed": 3}


def test_pandas(table: Sweep) -> None:
    frame = table.to_pandas()
    assert list(frame) == ["C", "think time", "seed", *fakes.METRICS, "status"]
    assert len(frame) == 32
    of = frame[(frame["C"] == 6e4) & (frame["think time"] == 3)]
    assert of["seed"].tolist() == list(range(1, 9))
    assert of["events"].tolist() == [fakes.lane_value("events", seed, {"C": 6e4}) for seed in range(1, 9)]


# ----------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--baseline c=1", "unknown input c (did you mean C?)"),
        ("--baseline C", "--baseline C: write --baseline NAME=VALUE"),
        ("--quantiles 2", "--quantiles 2: from 0 to 1"),
        ("--until events", "--until events: write --until NAME=1%"),
        ("--until evens=1%", "until: no metric evens (did you mean events?)"),
        ("--max-seeds 9", "--max-seeds goes with --until"),
        ("--until events=1% --max-seeds 2", "max-seeds 2: below the 4 seeds to begin with"),
        ("--over C=1:2", "--over goes with --design"),
        ("--design sobol:8", "design sobol:8: over which inputs? (--over NAME=LOW:HIGH)"),
        ("--design sobol:8 --over D=1:2", "unknown input D"),
        ("--design sobol:8 --points p.csv", "--points and --design: one of them"),
        ("--set C=1:2", "input C: 1:2 is no range (LOW:HIGH:COUNT, or LOW:HIGH:COUNTlog for equal ratios)"),
    ],
)
def test_wrong_usage(
    options: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    fakes.install(monkeypatch)
    fakes.install_front_end(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.sq").write_text("a program", encoding="utf-8")
    assert main(["sweep", "prog.sq", "--seeds", "4", "--horizon", "1", *options.split()]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"sqc sweep: {message}\n")


def test_everything_at_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The command line and the library give the same."""
    fakes.install(monkeypatch)
    fakes.install_front_end(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.sq").write_text("a program", encoding="utf-8")
    options = "--design lhs:3 --over C=1e4:2e5log --baseline C=1e5 --until events=20% --max-seeds 60 --quantiles 0.5"
    assert (
        main(["sweep", "prog.sq", "--seeds", "4", "--horizon", "1", "--set", "think time=1,2", *options.split()]) == 0
    )
    out = capsys.readouterr().out
    from sqc.sweeps import design

    table = Program(fakes.PROGRAM).sweep(
        4,
        horizon=1,
        sets={"think time": "1,2"},
        points=design("lhs:3", {"C": "1e4:2e5log"}),
        baseline={"C": 1e5},
        until={"events": "20%"},
        max_seeds=60,
    )
    assert out == table.text(baseline={"C": 1e5}, quantiles=(0.5,)) + "\n"
    assert len(table.points) == 8


def test_corpus_program_has_pooled_samples() -> None:
    """A real kernel through a sweep: the pooled quantile lies among those of the lanes."""
    table = compiled(corpus_text("a01_fifo_mm1")).sweep(20, horizon=300, warmup=30)
    lanes = table.lanes["observe.wait.p99"][0]
    assert lanes.min() < table.quantiles("observe.wait", (0.99,))[0, 0] < lanes.max()
    assert table.rows_pooled == ("observe.resp", "observe.wait", "client.response")
