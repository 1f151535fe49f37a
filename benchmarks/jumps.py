"""Where lengths of wrapped paths jump: sweeps that are hard on purpose, and the shoulder.

`.venv/bin/python benchmarks/jumps.py [ellipsoid] [pairs] [shoulder] [differences]` from the
project's folder prints what the limits in docs/paths.md quote; all four without arguments, in
some minutes. A jump is what the slopes at both ends of a step leave of the change in length.
"""

import itertools
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

import empbody as eb
from empbody.models._holzbaur import figures, holzbaur

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
from _sliding_string import place, sliding_string, unexplained

COUNT, LEAST = 200, 2e-6
_BLOCK = 20


def turns(rng, count):
    turned = np.linalg.qr(rng.normal(size=(count, 3, 3)))[0]
    turned[..., 2] *= np.linalg.det(turned)[:, None]
    return turned


def ends_of(rng, count, x):
    """Starts, and the lines on which strings end: between two values of x."""
    start = np.column_stack([np.full(count, -0.13), rng.uniform(-0.03, 0.03, (count, 2))])
    ends = np.tile(np.array(x)[None, :, None], (count, 1, 3))
    ends[:, :, 1:] = rng.uniform(-0.04, 0.04, (count, 2, 2))
    return start, ends


def jumps(model, steps, *scenes):
    """Largest of each sweep (m)."""
    at = jnp.linspace(0.0, 1.0, steps)[:, None]

    @jax.jit
    def block(*given):
        def one(*scene):
            placed = place(model, *scene)
            return jax.vmap(lambda q: eb.paths.lengths_and_arms(placed, q))(at)

        return jax.vmap(one)(*given)

    found = []
    for first in range(0, len(scenes[0]), _BLOCK):
        part = (jnp.asarray(x[first : first + _BLOCK]) for x in scenes)
        length, arm = (np.asarray(x).reshape(-1, steps) for x in block(*part))
        found.append(np.max(unexplained(length, arm), axis=1))
    return np.concatenate(found)


def said(name, found):
    print(f"{name}: {np.sum(found > LEAST)} of {len(found)}, {1e3 * found.max():.3g} mm at most")


def ellipsoid():
    """One ellipsoid, with both ends away and with one near."""
    for side, x in itertools.product(("all", "+x"), ((0.13, 0.13), (0.06, -0.02))):
        model = sliding_string(
            eb.WrapEllipsoid("egg", "ground", (0.02, 0.03, 0.025), quadrant=side)
        )
        rng = np.random.default_rng(5)
        axes = rng.uniform(0.015, 0.04, (COUNT, 1, 3))
        centre = rng.uniform(-0.015, 0.015, (COUNT, 1, 3))
        turned = turns(rng, COUNT)[:, None]
        start, ends = ends_of(rng, COUNT, x)
        said(
            f"ellipsoid, side {side}, end at x = {x}",
            jumps(model, 1301, start, ends, centre, turned, axes),
        )


_MAKE = {
    "cylinder": lambda name, side: eb.WrapCylinder(name, "ground", 0.02, quadrant=side),
    "sphere": lambda name, side: eb.WrapSphere(name, "ground", 0.02, quadrant=side),
    "ellipsoid": lambda name, side: eb.WrapEllipsoid(
        name, "ground", (0.02, 0.02, 0.02), quadrant=side
    ),
}


def apart(kinds, size, centre, turned):
    """Whether two surfaces are clear of each other, ellipsoids taken as balls."""
    gap, axis = centre[1] - centre[0], turned[:, :, 2]
    across = np.cross(*axis)
    if kinds == ("cylinder", "cylinder"):
        gap = (gap @ across) * across / (across @ across)
    elif "cylinder" in kinds:
        along = axis[kinds.index("cylinder")]
        gap = gap - (gap @ along) * along
    return np.linalg.norm(gap) > size.max(axis=1).sum()


def pair(rng, kinds, sides):
    """Two surfaces that do not overlap, near a line along x; sides look across it, within 30
    degrees, and so do the axes of cylinders with sides."""
    while True:
        size = rng.uniform(0.01, 0.03, (2, 3))
        for k, kind in enumerate(kinds):
            if kind != "ellipsoid":
                size[k, 1:] = size[k, 0]
        centre = rng.uniform(-0.015, 0.015, (2, 3))
        centre[:, 0] *= 4
        turned = turns(rng, 2)
        if any(
            abs(turned[k, 0, n]) > 0.5
            for k, (kind, side) in enumerate(zip(kinds, sides, strict=True))
            for n in ((0, 2) if kind == "cylinder" else (0,))
            if side != "all"
        ):
            continue
        if apart(kinds, size, centre, turned):
            for k, kind in enumerate(kinds):
                size[k, 1:] = {"cylinder": (np.inf, 0), "sphere": (0, 0)}.get(kind, size[k, 1:])
            return centre, turned, size


def pairs():
    """Two surfaces on one stretch, without sides and with them."""
    for sides in (("all", "all"), ("+x", "+x"), ("+x", "all")):
        for kinds in itertools.product(_MAKE, repeat=2):
            if sides[0] == sides[1] and list(kinds) != sorted(kinds):
                continue
            both = zip(kinds, "ab", sides, strict=True)
            model = sliding_string(*(_MAKE[kind](name, side) for kind, name, side in both))
            rng = np.random.default_rng(7)
            scenes = [
                np.array(x)
                for x in zip(*(pair(rng, kinds, sides) for _ in range(COUNT)), strict=True)
            ]
            start, ends = ends_of(rng, COUNT, (0.13, 0.13))
            said(
                f"{kinds[0]} {sides[0]}, {kinds[1]} {sides[1]}",
                jumps(model, 1024, start, ends, *scenes),
            )


_SWEEPS = {
    "elevation": (0.0, (0, 180), 0.0),
    "plane": ((-90, 130), 0.0, 0.0),
    "plane, elevation 60, rotation -30": ((-90, 130), 60.0, -30.0),
    "rotation, elevation 20": (0.0, 20.0, (-90, 20)),
    "rotation, plane 30, elevation 60": (30.0, 60.0, (-90, 20)),
    "elevation, plane 30": (30.0, (0, 180), 0.0),
    "elevation, plane 60, rotation -30": (60.0, (0, 180), -30.0),
    "elevation, plane 90, rotation -30": (90.0, (0, 180), -30.0),
    "elevation, plane -60": (-60.0, (0, 180), 0.0),
    "plane, elevation 90": ((-90, 130), 90.0, 0.0),
}


def shoulder():
    """Sweeps of Holzbaur et al.'s shoulder in steps of 0.1 degrees."""
    model, names = holzbaur(wrapping=True), list(figures()["muscles"])
    batch = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q)))
    for sweep, pose in _SWEEPS.items():
        moves = next(k for k, x in enumerate(pose) if isinstance(x, tuple))
        low, high = pose[moves]
        degrees = low + 0.1 * np.arange(10 * (high - low) + 1)
        at = np.stack([degrees if k == moves else 0 * degrees + pose[k] for k in range(3)], axis=1)
        lengths, arms = (np.asarray(x) for x in batch(jnp.radians(at)))
        arms, step = arms[:, moves], np.radians(0.1)
        explained = -0.5 * (arms[1:] + arms[:-1]) * step
        spread = 0.5 * np.abs(np.diff(arms, axis=0)) * step
        beyond = np.abs(np.diff(lengths, axis=0) - explained) - spread
        far = [k for k in range(len(names)) if beyond[:, k].max() > 1e-6]
        told = [
            f"{names[k]} {1e3 * beyond[:, k].max():.3g} ({degrees[beyond[:, k].argmax()]:.0f})"
            for k in far
        ]
        print(f"{sweep}: {', '.join(told) or 'none'} mm (deg)")


def differences():
    """Moment arms against central differences of lengths at random poses."""
    model, names = holzbaur(wrapping=True), list(figures()["muscles"])
    batch = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q)))
    low, high = np.radians([-60.0, 5.0, -60.0]), np.radians([100.0, 150.0, 10.0])
    q = np.random.default_rng(0).uniform(low, high, (1536, 3))
    arms = np.asarray(batch(jnp.asarray(q))[1])
    for step in (1e-5, 1e-6):
        ends = [
            np.asarray(batch(jnp.asarray(q + s * step * e))[0]) for e in np.eye(3) for s in (1, -1)
        ]
        slopes = np.stack([a - b for a, b in zip(ends[::2], ends[1::2], strict=True)], axis=1)
        slopes /= 2 * step
        off = np.abs(arms + slopes)
        far = [f"{names[k]} {off[i, c, k]:.2g}" for i, c, k in np.argwhere(off > 1e-7)]
        print(
            f"step {step:g} rad: {len(far)} of {off.size} off by more than 1e-7 m: {', '.join(far)}"
        )


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    work = {f.__name__: f for f in (ellipsoid, pairs, shoulder, differences)}
    for name in sys.argv[1:] or work:
        work[name]()
