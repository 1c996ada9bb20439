"""The portable path of a kernel as StableHLO, which a later process calls without tracing the program.

The module is JAX's portable artefact (StableHLO with its compatibility promise) for any number of lanes. What
`jax.export` must know besides it, the signature, is plain JSON here, so nothing but the kernel is ever executed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import stored

if TYPE_CHECKING:
    import jax.export

    from .build import About, Options, PortableBuild

PLATFORMS = ("cpu", "cuda")
"""The platforms an export is lowered for, whatever this machine has."""

FIELDS = frozenset(
    ("platforms", "calling_convention", "kept", "constants", "columns", "results", "capacities", "skip", "about")
)
"""Those of a signature."""


@dataclasses.dataclass(frozen=True)
class Export:
    """A portable build with fixed capacities, ready to be called; `head` is the JSON object of its signature."""

    module: bytes
    head: Mapping[str, Any]

    @classmethod
    def of(cls, build: PortableBuild, capacities: Mapping[str, int], columns: int, skip: bool) -> Export:
        """Trace and lower a build; nothing is compiled. `columns`: of doubles, those after the seeds."""
        import jax

        with jax.enable_x64(True):
            made = jax.export.export(jax.jit(build.call), platforms=PLATFORMS)(*_arguments(columns))
            shapes = dict(jax.tree.unflatten(made.out_tree, made.out_avals))
        head = {
            "platforms": list(made.platforms),
            "calling_convention": made.calling_convention_version,
            "kept": list(made.module_kept_var_idx),
            "constants": made.uses_global_constants,
            "columns": columns,
            "results": {name: [str(shape.dtype), *shape.shape[1:]] for name, shape in shapes.items()},
            "capacities": dict(capacities),
            "skip": skip,
            "about": stored.about_json(build.about),
        }
        return cls(made.mlir_module_serialized, head)

    @property
    def about(self) -> About:
        return stored.about_of(self.head["about"])

    def fits(self, capacities: Mapping[str, int], options: Options) -> bool:
        """Whether this is the build with these capacities and options, and can be called by this JAX on its device."""
        same = (dict(capacities), False, options.skip) == (self.head["capacities"], options.debug, self.head["skip"])
        if not same:
            return False
        import jax.export

        return self.readable() and jax.export.default_export_platform() in self.head["platforms"]

    def readable(self) -> bool:
        """Whether this JAX knows the calling convention of the module."""
        from jax import export

        oldest = export.minimum_supported_calling_convention_version
        newest = export.maximum_supported_calling_convention_version
        return bool(oldest <= self.head["calling_convention"] <= newest)

    def exported(self) -> jax.export.Exported:
        """`exported().call(seeds, horizon, warmup, limit, *inputs)`, arrays of one length; JAX needs x64 on."""
        import jax
        import jax.numpy as jnp

        results = self.head["results"]

        def nothing(seeds: jax.Array, *_: jax.Array) -> dict[str, jax.Array]:
            return {name: jnp.zeros((seeds.shape[0], *cells), kind) for name, (kind, *cells) in results.items()}

        with jax.enable_x64(True):
            # JAX makes the signature, from a function that has the same one.
            like = jax.export.export(jax.jit(nothing), platforms=self.head["platforms"])(
                *_arguments(self.head["columns"])
            )
        return dataclasses.replace(
            like,
            fun_name="lanes",
            mlir_module_serialized=self.module,
            calling_convention_version=self.head["calling_convention"],
            module_kept_var_idx=tuple(self.head["kept"]),
            uses_global_constants=self.head["constants"],
            _get_vjp=None,  # that of `nothing` would be 0
        )


def _arguments(columns: int) -> list[Any]:
    """Seeds and columns of any number of lanes."""
    import jax
    import jax.export

    lanes = jax.export.symbolic_shape("lanes")
    shape: Any = jax.ShapeDtypeStruct
    return [shape(lanes, np.uint64), *[shape(lanes, np.float64)] * columns]
