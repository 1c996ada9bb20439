"""The points of a sweep: ranges, designs, files, combinations, and what a baseline adds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars
import pytest

import fakes
from sqc.inputs import InputError
from sqc.program import Program
from sqc.sweeps import design
from sqc.sweeps.grids import combined, several, tidy, with_baseline
from sqc.sweeps.pointfile import read_points

INPUTS = {"C": 2e5, "think time": 3.0, "x": 0.0}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0:1:3", (0, 0.5, 1)),
        ("1:0:3", (1, 0.5, 0)),
        ("0:1:4", (0, 0.333333, 0.666667, 1)),
        ("1:1000:4log", (1, 10, 100, 1000)),
        ("1e4:2e5:4log", (1e4, 27144.2, 73680.6, 2e5)),
        ("7,0:10:3,8", (7, 0, 5, 10, 8)),
        ("2*3:max(7,8):2", (6, 8)),
        ("1 < 2 ? 5 : 6", (5,)),
        ("1:2: 2log ", (1, 2)),
        ("-1:-3:3", (-1, -2, -3)),
    ],
)
def test_ranges(text: str, values: tuple[float, ...]) -> None:
    assert several(text, "C") == pytest.approx(values, abs=0)


def test_values_are_short_where_their_spacing_allows() -> None:
    """Six digits would make these one number."""
    assert several("1000000:1000001:3", "C") == (1000000, 1000000.5, 1000001)
    assert several("1:1.000003:4", "C") == pytest.approx((1, 1.000001, 1.000002, 1.000003), abs=1e-9)
    assert len(set(tidy([1 + k * 1e-12 for k in range(5)]))) == 5
    assert tidy([0.1234567, 5.0]) == (0.123457, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:2", "input C: 1:2 is no range (LOW:HIGH:COUNT, or LOW:HIGH:COUNTlog for equal ratios)"),
        ("1:2:x", "input C: 1:2:x is no range (LOW:HIGH:COUNT, or LOW:HIGH:COUNTlog for equal ratios)"),
        ("1:2:1", "input C: 1:2:1: a range has at least 2 values"),
        ("1:2:3:4", "input C: 1:2:3 is no interval LOW:HIGH"),
        ("1:1:4", "input C: 1:1: the ends are finite and differ"),
        ("1:inf:4", "input C: 1:inf: the ends are finite and differ"),
        ("0:1:4log", "input C: 0:1: equal ratios need ends above 0"),
        ("a:1:4", "input C: 'a' is no number: `a` is not a constant"),
        ("1:2:999999999", "input C: 1:2:999999999: more than 50000000 values"),
    ],
)
def test_wrong_ranges(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        several(text, "input C")
    assert str(caught.value) == message


def test_points_times_grid() -> None:
    given: list[dict[str, Any]] = [{"C": 1, "x": "2"}, {"x": 3, "C": 4}]
    assert combined({"think time": "5,6"}, given, INPUTS) == [
        *({"C": 1, "x": 2, "think time": z} for z in (5, 6)),
        *({"C": 4, "x": 3, "think time": z} for z in (5, 6)),
    ]
    cases: list[tuple[Any, Any, str]] = [
        ([], {}, "points: none given"),
        ([{"C": 1}, {"x": 1}], {}, "points: point 2 does not have the inputs of the first one"),
        ([{"c": 1}], {}, "unknown input c (did you mean C?)"),
        ([{"C": "nan"}], {}, "point 1, input C: nan is not a number (NaN)"),
        ([{"C": 1}], {"C": 2}, "input C is set twice: by the points and by itself"),
        (None, {"x": range(10_000), "C": range(10_000)}, "100000000 points are more than 50000000 runs"),
    ]
    for wrong, sets, message in cases:
        with pytest.raises(InputError) as caught:
            combined(sets, wrong, INPUTS)
        assert str(caught.value) == message


# ----------------------------------------------------------------------------- designs


@pytest.mark.parametrize("spec", ["sobol:64", "lhs:64"])
def test_designs_fill_their_box(spec: str) -> None:
    """Of 64 points each sixteenth of each side has four, whether sides are divided equally or by ratios."""
    points = design(spec, {"C": "1e4:2e5", "x": "1:100log"})
    assert len(points) == 64
    for name, share in (
        ("C", lambda value: (value - 1e4) / 1.9e5),
        ("x", lambda value: math.log(value) / math.log(100)),
    ):
        cells = [int(16 * share(point[name])) for point in points]
        assert [cells.count(k) for k in range(16)] == [4] * 16
    assert points == design(spec, {"C": "1e4:2e5", "x": "1:100log"})
    assert points != design(f"{spec}:2", {"C": "1e4:2e5", "x": "1:100log"})


@pytest.mark.parametrize(
    ("spec", "over", "message"),
    [
        ("sobol:60", {"C": "1:2"}, "design sobol:60: a Sobol design has a power of 2 points (64)"),
        ("sobo:64", {"C": "1:2"}, "design sobo:64: no method sobo (did you mean sobol?)"),
        ("grid:64", {"C": "1:2"}, "design grid:64: no method grid (sobol or lhs)"),
        ("lhs", {"C": "1:2"}, "design lhs: write lhs:COUNT or lhs:COUNT:SEED"),
        ("lhs:x", {"C": "1:2"}, "design lhs:x: write lhs:COUNT or lhs:COUNT:SEED"),
        ("lhs:0", {"C": "1:2"}, "design lhs:0: from 1 to 65536 points"),
        ("lhs:3", {}, "design lhs:3: over which inputs? (--over NAME=LOW:HIGH)"),
        ("lhs:3", {"C": "1"}, "input C: 1 is no interval LOW:HIGH"),
        ("lhs:3", {"C": "0:1log"}, "input C: 0:1: equal ratios need ends above 0"),
    ],
)
def test_wrong_designs(spec: str, over: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        design(spec, over)
    assert str(caught.value) == message


# ----------------------------------------------------------------------------- files of points


def test_files(tmp_path: Path) -> None:
    text = "C, think time\n2e4,3\n\n2 * 1e4,1\n"
    (tmp_path / "points.csv").write_text("\ufeff" + text, encoding="utf-8")
    expected = [{"C": 2e4, "think time": 3.0}, {"C": 2e4, "think time": 1.0}]
    assert read_points(tmp_path / "points.csv") == expected
    polars.DataFrame({"C": [20000, 20000], "think time": [3.0, 1.0]}).write_parquet(tmp_path / "points.parquet")
    assert read_points(tmp_path / "points.parquet") == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", b"", "a line with the names of inputs, then a line for each point"),
        ("p.csv", b"C\n", "a line with the names of inputs, then a line for each point"),
        ("p.csv", b"C,x\n1\n", "point 1 has 1 values for 2 inputs"),
        ("p.csv", b"C,C\n1,2\n", "two columns C"),
        ("p.csv", b"C\nmany\n", "point 1, input C: 'many' is no number: `many` is not a constant"),
        ("p.csv", b"\xff\xfe", "no CSV text in UTF-8"),
        ("p.parquet", b"C\n1\n", "no Parquet file"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_points(path)
    assert str(caught.value) == f"{path}: {message}"


def test_parquet_files_without_values(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    for values, message in (([], "no points"), ([1.0, None], "point 2, input C: no value")):
        polars.DataFrame({"C": values}, schema={"C": polars.Float64}).write_parquet(path)
        with pytest.raises(InputError) as caught:
            read_points(path)
        assert str(caught.value) == f"{path}: {message}"
    with pytest.raises(FileNotFoundError):
        read_points(tmp_path / "missing.parquet")


# ----------------------------------------------------------------------------- through a sweep


def test_a_sweep_of_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fakes.install(monkeypatch)
    program = Program(fakes.PROGRAM)
    setting: dict[str, Any] = {"seeds": 2, "horizon": 1}
    (tmp_path / "p.csv").write_text("C\n5\n7\n", encoding="utf-8")
    table = program.sweep(**setting, points=tmp_path / "p.csv", sets={"think time": [1, 2]})
    assert [tuple(point.values()) for point in table.points] == [(5, 1), (5, 2), (7, 1), (7, 2)]
    table = program.sweep(**setting, points=design("lhs:3", {"C": "1e4:2e5"}), baseline={"think time": 9, "C": 1e4})
    assert len(table.points) == 4
    assert table.points[-1] == {"C": 1e4, "think time": 9}
    assert table.baseline({"think time": 9, "C": 1e4}).against.tolist() == [3] * 4


def test_points_that_a_baseline_adds() -> None:
    grid = [{"C": c, "x": x} for c in (1.0, 2.0) for x in (0.0, 5.0)]
    assert with_baseline(grid, {"C": 2}, INPUTS) == grid
    assert with_baseline(grid, {"C": "3"}, INPUTS) == [*grid, {"C": 3, "x": 0}, {"C": 3, "x": 5}]
    assert with_baseline([{}], {"C": 2e5}, INPUTS) == [{"C": 2e5}]
    with pytest.raises(InputError, match="unknown input c"):
        with_baseline(grid, {"c": 2}, INPUTS)
