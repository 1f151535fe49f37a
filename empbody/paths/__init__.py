"""Musculotendon paths: lengths, wrapping, moment arms."""

from ._effective import (
    EffectivePoints as EffectivePoints,
    ShrinkingForces as ShrinkingForces,
    effective_points as effective_points,
    effective_points_and_forces as effective_points_and_forces,
)
from ._lengths import (
    lengthening_speeds as lengthening_speeds,
    lengths_and_arms as lengths_and_arms,
    lengths_from_frames as lengths_from_frames,
    moment_arms as moment_arms,
    path_lengths as path_lengths,
)
from ._opensim import opensim_moment_arms as opensim_moment_arms
from ._polyline import path_polylines as path_polylines
from ._report import check_paths as check_paths
from ._tabulate import (
    TableError as TableError,
    Tabulated as Tabulated,
    tabulate_paths as tabulate_paths,
)
from ._tension import (
    CurveTension as CurveTension,
    ElasticTension as ElasticTension,
    GivenTension as GivenTension,
    PathForce as PathForce,
    string_lengths as string_lengths,
)
