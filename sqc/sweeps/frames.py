"""A sweep for other libraries: lanes as rows for pandas, as labelled arrays for xarray (both optional)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc.inputs import InputError
from sqc.sweeps.blocks import DONE, input_columns
from sqc.sweeps.spread import Ints

if TYPE_CHECKING:
    from sqc.sweeps.table import Sweep


def to_pandas(sweep: Sweep) -> Any:
    """A DataFrame with one row per finished lane: inputs, `seed`, every metric, `status`."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_pandas needs pandas: pip install 'sqc[frames]'") from None
    points, seeds = np.nonzero(sweep.done)
    columns: dict[str, Any] = {
        column: np.array([{**sweep.inputs, **point}[name] for point in sweep.points], np.float64)[points]
        for name, column in _names(sweep).items()
    }
    columns["seed"] = np.array(sweep.seeds, np.uint64)[seeds]
    columns |= {name: values[points, seeds] for name, values in sweep.lanes.items()}
    columns["status"] = _status(sweep)[points, seeds]
    return pandas.DataFrame(columns)


def to_xarray(sweep: Sweep) -> Any:
    """A Dataset of every metric with a dimension per varied input and `seed`.

    Where the points are no full grid the dimensions are `point` and `seed`, and inputs are coordinates of points.
    """
    try:
        import xarray
    except ImportError:
        raise InputError("to_xarray needs xarray: pip install 'sqc[frames]'") from None
    axes, order = grid_axes(sweep)
    columns = _names(sweep)
    seeds = {"seed": np.array(sweep.seeds, np.uint64)}
    if axes is None:
        dims, shape = ["point"], [len(sweep.points)]
        labels: dict[str, Any] = {
            columns[name]: ("point", np.array([point[name] for point in sweep.points])) for name in sweep.points[0]
        }
    else:
        dims, shape = [columns[name] for name in axes], [len(values) for values in axes.values()]
        labels = {columns[name]: np.array(values) for name, values in axes.items()}
    arrays = {**sweep.lanes, "status": _status(sweep)}
    return xarray.Dataset(
        {name: ((*dims, "seed"), values[order].reshape(*shape, -1)) for name, values in arrays.items()},
        coords={**labels, **seeds},
        attrs={
            "program": sweep.program,
            "horizon": sweep.horizon,
            "warmup": sweep.warmup,
            **{columns[name]: value for name, value in sweep.inputs.items()},
        },
    )


def grid_axes(sweep: Sweep) -> tuple[dict[str, tuple[float, ...]] | None, Ints]:
    """The values of each varied input, if the points are all their combinations, else None; and the order of
    the points in which the last input varies fastest."""
    points = [tuple(point.values()) for point in sweep.points]
    names = list(sweep.points[0]) if sweep.points else []
    axes = {name: tuple(dict.fromkeys(column)) for name, column in zip(names, zip(*points, strict=True), strict=True)}
    places = {values: place for place, values in enumerate(points)}
    order = [places.get(values, -1) for values in itertools.product(*axes.values())]
    if len(order) != len(points) or -1 in order:
        return None, np.arange(len(points))
    return axes, np.array(order)


def _names(sweep: Sweep) -> dict[str, str]:
    varied = list(sweep.points[0]) if sweep.points else []
    return input_columns([*varied, *sweep.inputs], sweep.metrics)


def _status(sweep: Sweep) -> Any:
    """`done`, the code of a failure, or nothing, for every lane."""
    status = np.where(sweep.done, DONE, "").astype(object)
    place = {seed: k for k, seed in enumerate(sweep.seeds)}
    for failure in sweep.failures:
        status[failure.point, place[failure.seed]] = failure.code
    return status
