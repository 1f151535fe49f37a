"""Every notebook runs from top to bottom, and is kept without outputs."""

import pathlib

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat and nbclient run the notebooks")
nbclient = pytest.importorskip("nbclient", reason="nbformat and nbclient run the notebooks")

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
FAST = ("four_bar",)
PICTURES = {"elbow": 3, "fitting": 3, "shoulder": 8}


def read(name: str):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def test_which_notebooks_there_are():
    assert NAMES == ["elbow", "fitting", "five_bar", "four_bar", "shoulder", "squeezer"]


@pytest.mark.parametrize("name", NAMES)
def test_is_kept_without_outputs(name):
    for cell in read(name).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


# The kernel's own packages warn about matters that are not ours.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
)
def test_runs(name, monkeypatch):
    # Nothing here is meant to fail: without checks that call back, JAX can cache the compiled
    # functions, which makes later runs quick.
    monkeypatch.setenv("EQX_ON_ERROR", "nan")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(FOLDER.parent / ".cache" / "jax"))
    notebook = read(name)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == PICTURES.get(name, 2)
