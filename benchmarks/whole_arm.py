"""A public model of the whole arm, from its file to poses, moments and moment arms.

Run from the project's folder, with the file of MoBL-ARMS 4.1 (not part of this project):
`.venv/bin/python benchmarks/whole_arm.py mobl_arms_41.osim`. A first call contains tracing and
compiling, without any cache. Results go to benchmarks/results/whole_arm.json.
"""

import argparse
import json
import os
import pathlib
import time

RESULTS = pathlib.Path(__file__).parent / "results" / "whole_arm.json"
FRAMES = 3600
MARKERS = 10


def places_of(model, count):
    """Markers on all bodies with mass in turn, each a few centimetres from its centre."""
    import numpy as np

    rng = np.random.default_rng(0)
    massive = [model.body_names[i] for i in model.topology.massive]
    centres = dict(zip(model.body_names, np.asarray(model.com), strict=True))
    names = [massive[i % len(massive)] for i in range(count)]
    return {
        f"marker{i}": (body, centres[body] + 0.05 * rng.normal(size=3))
        for i, body in enumerate(names)
    }


def timed(work):
    """Result, and the seconds it took."""
    import jax

    begin = time.perf_counter()
    result = jax.block_until_ready(work())
    return result, time.perf_counter() - begin


def figures(path):
    import jax
    import jax.numpy as jnp
    import numpy as np

    import empbody as eb
    from empbody.bench._timing import Figure
    from empbody.pipeline import MarkerSet, marker_positions

    model, loading = timed(lambda: eb.load(path))
    places = places_of(model, MARKERS)
    seconds = np.arange(FRAMES) / 100
    bounded = np.isfinite(model.lower) & np.isfinite(model.upper)
    low = np.where(bounded, model.lower, model.default_q - 0.5)
    high = np.where(bounded, model.upper, model.default_q + 0.5)
    pace = np.linspace(0.7, 2.3, model.nq)
    q = 0.5 * (low + high) + 0.3 * (high - low) * np.sin(seconds[:, None] * pace[None])
    points = marker_positions(model, MarkerSet.of(model, tuple(places), places), jnp.asarray(q))
    noise = 0.002 * np.random.default_rng(1).normal(size=points.shape)
    markers = eb.Markers(seconds, tuple(places), np.asarray(points) + noise, 100.0)
    motion = eb.Motion.of(model, seconds, q)
    jax.clear_caches()
    works = {
        "ik": lambda: eb.inverse_kinematics(model, markers, places=places).q,
        "id": lambda: eb.inverse_dynamics_along(model, motion).tau,
        "moment_arms": lambda: eb.moment_arms(model, jnp.asarray(q[0])),
    }
    first = {name: timed(work)[1] for name, work in works.items()}
    again = {name: [timed(work)[1] for _ in range(5)] for name, work in works.items()}
    sizes = {"coordinates": model.nq, "muscles": model.nm, "frames": FRAMES}
    return {
        "whole_arm_load_s": Figure.of([loading]),
        "whole_arm_ik_and_id_first_s": Figure.of([first["ik"] + first["id"]], **sizes),
        "whole_arm_ik_s": Figure.of(again["ik"], **sizes),
        "whole_arm_id_s": Figure.of(again["id"], **sizes),
        "whole_arm_moment_arms_first_s": Figure.of([first["moment_arms"]], **sizes),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="the model's .osim file")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args(argv)
    os.environ.setdefault("NPROC", "8")  # see empbody.cli._settings.own_process
    import jax

    from empbody.bench._machine import Clock, load, machine

    jax.config.update("jax_enable_x64", True)
    begin, before = Clock.now(), load()
    results = figures(arguments.model)
    loads = {"load_at_start": before, "load_at_end": load()}
    found = {"results": results, "machine": machine() | loads | begin.cores_since()}
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
