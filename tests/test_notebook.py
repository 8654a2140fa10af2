"""examples/first_look.ipynb runs from top to bottom, in a kernel of its own, and draws its pictures."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first_look.ipynb"


@pytest.mark.filterwarnings("default")  # of Jupyter's own packages
def test_the_notebook_runs(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit it"
    ran = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in ran.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
    tables = [output.data["text/markdown"] for output in outputs if "text/markdown" in output.get("data", {})]
    assert len(pictures) == 2
    assert "| icarl | fixed-0.7 | 2 |" in tables[0]
