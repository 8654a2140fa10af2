"""Loads the scripts beside the results and benchmarks, which are not part of the package."""

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

TINY = """
policy = "static"
[data]
name = "digits"
[scenario]
phases = 2
[net]
name = "small"
width = 4
blocks = [1, 1]
[train]
epochs = 1
batch_size = 64
[finetune]
epochs = 1
"""  # a config that trains in seconds; further sections may follow


def load_script(path: str) -> Any:
    """The module of a file below the project's root, such as `results/fill.py`."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
