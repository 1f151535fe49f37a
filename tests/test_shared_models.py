"""Public OpenSim models and tables made with OpenSim, where they are at hand.

Neither models nor tables may be part of this repository, so these tests skip without them.
What they show on public models, other tests show on models of our own.
"""

import csv
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb

SHARED = pathlib.Path(__file__).parents[2] / "shared"
MODELS, TABLES = SHARED / "models", SHARED / "reference" / "shoulder"
pytestmark = pytest.mark.skipif(
    not (MODELS.is_dir() and TABLES.is_dir()),
    reason=f"the public models and tables are not in {SHARED}",
)

SHOULDER = ("elv_angle", "shoulder_elv", "shoulder_rot")
ARM = (*SHOULDER, "elbow_flexion", "pro_sup", "deviation", "flexion")
MUSCLES = (
    *("DELT1", "DELT2", "DELT3", "SUPSP", "INFSP", "SUBSC", "TMIN", "TMAJ"),
    *("PECM1", "PECM2", "PECM3", "LAT1", "LAT2", "LAT3", "CORB"),
)
THORAX = dict.fromkeys(("r_x", "r_y", "r_z", "t_x", "t_y", "t_z"), 0.0)
MOBL = "mobl_arms_41.osim"


def read(name: str) -> dict[str, np.ndarray]:
    with (TABLES / name).open() as file:
        rows = list(csv.DictReader(file))
    return {label: np.array([float(row[label]) for row in rows]) for label in rows[0]}


def columns(table: dict[str, np.ndarray], start: str, names=ARM) -> np.ndarray:
    return np.stack([table[f"{start}_{name}"] for name in names], axis=1)


@eqx.filter_jit
def lengths_and_arms(model, q):
    return jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q))(q)


@eqx.filter_jit
def dynamics(model, q, qd, qdd):
    """Mass matrix, gravity, what speeds need, and what the motion needs."""

    def at(q, qd, qdd):
        M, G = eb.mass_matrix(model, q), eb.gravity(model, q)
        return M, -G, eb.bias(model, q, qd) - G, eb.inverse_dynamics(model, q, qd, qdd)

    return jax.vmap(at)(q, qd, qdd)


def close(found, expected, rtol):
    """To a share of the largest entry."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.max(np.abs(expected)))


@pytest.mark.parametrize(
    ("name", "coordinates", "muscles"),
    [("arm26.osim", 2, 6), ("holzbaur2005.osim", 15, 50), (MOBL, 13, 50)],
)
def test_they_load(name, coordinates, muscles):
    model = eb.load(MODELS / name)
    assert (model.nq, model.nm) == (coordinates, muscles)
    assert not model.report.unsupported
    phantoms = [note for note in model.report.warnings if "is a phantom" in note]
    assert len(phantoms) == (4 if name == MOBL else 0)


@pytest.mark.slow  # compiles what closes the loop
def test_a_closed_loop_loads():
    model = eb.load(MODELS / "coupled_moving_points.osim")
    assert (model.nq, model.nm) == (1, 1)
    assert not model.report.unsupported


def test_lengths_and_moment_arms_of_holzbaurs_shoulder():
    """All sweeps at once: one coordinate turns, the others stand as named (degrees)."""
    sweeps = {
        "sweep_shoulder_elv": (0.0, None, 0.0),
        "sweep_elv_angle": (None, 0.0, 0.0),
        "offzero_elv_angle": (None, 60.0, -30.0),
    }
    whole = eb.load(MODELS / "holzbaur2005.osim", wrapping=False)
    others = {name: 0.0 for name in whole.coordinate_names if name not in SHOULDER}
    model = eb.load(MODELS / "holzbaur2005.osim", wrapping=False, lock=others)
    poses, lengths, arms = [], [], []
    for name, held in sweeps.items():
        table = read(f"ma_holzbaur_nowrap_{name}.csv")
        n = len(table["deg"])
        degrees = [table["deg"] if x is None else np.full(n, x) for x in held]
        order = [SHOULDER.index(c) for c in model.coordinate_names]
        poses.append(np.radians(np.stack(degrees, axis=1))[:, order])
        lengths.append(columns(table, "len", MUSCLES))
        per = [columns(table, f"ma_{c}", MUSCLES) for c in model.coordinate_names]
        arms.append(np.stack(per, axis=1))
    chosen = [model.muscle_index(name) for name in MUSCLES]
    L, R = lengths_and_arms(model, jnp.asarray(np.concatenate(poses)))
    np.testing.assert_allclose(L[:, chosen], np.concatenate(lengths), rtol=0, atol=1e-10)
    np.testing.assert_allclose(R[:, :, chosen], np.concatenate(arms), rtol=0, atol=1e-10)


@pytest.fixture(scope="module")
def arm():
    return eb.load(MODELS / MOBL, wrapping=False, lock=THORAX)


def test_lengths_of_mobl(arm):
    """Its moment arms are OpenSim's own where points move, so lengths only."""
    table = read("ma_mobl41_nowrap_sweep_shoulder_elv.csv")
    q = np.zeros((len(table["deg"]), arm.nq))
    q[:, arm.coordinate_index("shoulder_elv")] = np.radians(table["deg"])
    chosen = [arm.muscle_index(name) for name in MUSCLES]
    L, _ = lengths_and_arms(arm, jnp.asarray(q))
    np.testing.assert_allclose(L[:, chosen], columns(table, "len", MUSCLES), rtol=0, atol=1e-10)


def test_dynamics_of_mobl(arm):
    assert arm.coordinate_names == ARM
    mass, bias = read("mass_matrix_mobl41_asis.csv"), read("bias_mobl41_asis.csv")
    need = read("id_mobl41_asis_3dof.csv")
    tables = (mass, bias, need)
    poses = np.concatenate([columns(table, "q") for table in tables])
    still = np.zeros((len(mass["pose"]), len(ARM)))
    speeds, pushes = (
        np.concatenate([still, columns(bias, start), columns(need, start)])
        for start in ("u", "udot")
    )
    found = dynamics(arm, *map(jnp.asarray, (poses, speeds, pushes)))
    ends = np.cumsum([len(columns(table, "q")) for table in tables])[:-1]
    M, G, N, total = ([np.asarray(part) for part in np.split(x, ends)] for x in found)
    close(M[0], np.stack([columns(mass, f"M_{a}") for a in ARM], axis=1), 1e-9)
    close(G[1], columns(bias, "tau_gravity"), 1e-9)
    close(N[1], columns(bias, "tau_bias"), 1e-9)
    close(total[1], columns(bias, "tau_total"), 1e-9)
    close(total[2], columns(need, "tau"), 1e-9)


def test_mobl_without_phantom_inertias(arm):
    """Their masses and inertias are numbers of the model like all others."""
    table = read("mass_matrix_mobl41_nophant.csv")
    phantoms = jnp.array([arm.body_index(n) for n in arm.body_names if "phant" in n])
    assert phantoms.shape == (4,)
    nothing = arm.mass.at[phantoms].set(0.0), arm.inertia.at[phantoms].set(0.0)
    lighter = eqx.tree_at(lambda m: (m.mass, m.inertia), arm, nothing)
    q = jnp.asarray(np.resize(columns(table, "q"), (241, len(ARM))))
    rest = jnp.zeros_like(q)
    M = np.asarray(dynamics(lighter, q, rest, rest)[0])[: len(table["pose"])]
    close(M, np.stack([columns(table, f"M_{a}") for a in ARM], axis=1), 1e-9)


def test_one_second_of_mobl():
    """The reference was integrated at accuracy 1e-10, with couplers as constraints."""
    table = read("fd_mobl41_asis_3dof.csv")
    model = eb.load(MODELS / MOBL, wrapping=False, lock=THORAX | dict.fromkeys(ARM[3:], 0.0))
    springs = [
        eb.forces.CoordinateSpring(name, stiffness=k, rest=at, damping=b)
        for name, k, at, b in zip(
            SHOULDER, (20.0, 40.0, 10.0), (0.5, 1.2, -0.3), (1.0, 1.0, 0.5), strict=True
        )
    ]
    model = model.with_forces(springs)
    solution = eb.simulate(model, [0.2, 0.8, -0.5], np.zeros(3), table["t"], rtol=1e-9, atol=1e-9)
    assert np.max(np.abs(solution.q[-1] - columns(table, "q", SHOULDER)[-1])) < 1e-9
    np.testing.assert_allclose(solution.q, columns(table, "q", SHOULDER), rtol=0, atol=2e-9)
    np.testing.assert_allclose(solution.qd, columns(table, "u", SHOULDER), rtol=0, atol=5e-8)
