"""Loads the scripts beside the results and benchmarks, which are not part of the package."""

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def load_script(path: str) -> Any:
    """The module of a file below the project's root, such as `results/fill.py`."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
