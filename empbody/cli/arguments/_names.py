"""Names that help lists. They are those of the library, which takes seconds to import."""

SOLVERS = ("tsit5", "dopri5", "dopri8", "rkf45", "kvaerno5", "trbdf2")
FAMILIES = "linear, poly:DEGREE, spline:INTERVALS, fourier:ORDER or mlp:WIDTH"
MECHANISMS = ("four-bar", "five-bar", "squeezer", "shoulder")
SHOULDER_RHYTHMS = ("de_groot", "de_groot_elevation", "holzbaur")
ROUTES = (
    "implicit",
    "projection",
    "molecule",
    "cubic",
    "cubic-not-a-knot",
    "quintic",
    "fourier",
)
