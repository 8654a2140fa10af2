"""remem: class-incremental learning under a strict memory budget. Torch is imported on first use."""

from importlib import import_module
from typing import Any

from gymnasium.envs.registration import register, registry

__version__ = "0.1.0"

_HOMES = {
    "scenario": "remem.api",
    "run": "remem.api",
    "load_model": "remem.runs.model",
    "IncrementalClassifier": "remem.estimator.classifier",
    "export_onnx": "remem.runs.export",
    "from_arrays": "remem.data.arrays",
    "Scenario": "remem.data.scenario",
    "RunResult": "remem.runs.results",
    "InputError": "remem.errors",
}

__all__ = [
    "IncrementalClassifier",
    "InputError",
    "RunResult",
    "Scenario",
    "__version__",
    "export_onnx",
    "from_arrays",
    "load_model",
    "run",
    "scenario",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"remem has no '{name}'")
    return getattr(import_module(_HOMES[name]), name)


if "remem/PseudoCIL-v0" not in registry:  # Gymnasium warns of a second registration, as after a reload
    register("remem/PseudoCIL-v0", entry_point="remem.rl.env:make_pseudo_cil")
