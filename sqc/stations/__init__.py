"""Stations (`queue NAME : role { ... }`) and their lowering to pools, stages and statements."""
