"""The README's Python runs as it stands."""

import pathlib
import re

import jax.numpy as jnp
import numpy as np

import empbody as eb

README = pathlib.Path(__file__).parents[1] / "README.md"


def test_the_readmes_code_runs_in_order(monkeypatch):
    monkeypatch.chdir(README.parent)  # it names files of the repository
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 6
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert bool(names["solution"].succeeded)
    q = jnp.array([0.7])
    closed = names["loop"](q, names["closure"](q))
    np.testing.assert_allclose(closed, 0.0, atol=1e-13)
    arms = eb.moment_arms(names["elbow"], jnp.array([1.0]))[0]
    np.testing.assert_allclose(arms, [0.0451, -0.0203], rtol=0, atol=5e-5)
    np.testing.assert_allclose(names["flexion"].q[-1], 1.5336, rtol=0, atol=5e-5)
    assert float(jnp.max(jnp.abs(names["followed"].errors))) < 1e-8
    assert float(names["found"].rms.max()) < 0.003
