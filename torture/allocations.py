"""Random scenarios and actions through allocator and store; the checks are those of the tests, with other seeds."""

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

TESTS = Path(__file__).parents[1] / "tests" / "memory"
FIRST_SEED = 1_000_000  # beyond those of the tests


@dataclass
class Allocations:
    steps: int = 0  # phases
    byte_steps: int = 0  # those whose budget is in bytes
    scenarios: int = 0
    failures: list[str] = field(default_factory=list)


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, TESTS / f"test_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def torture(steps: int, rng: Random) -> Allocations:
    """At least so many steps, in turn of a scenario in samples and one in bytes."""
    in_samples, in_bytes = _module("memory_properties"), _module("byte_properties")
    tally = Allocations()
    seed = FIRST_SEED + rng.randrange(10**9)
    while tally.steps < steps:
        seed += 1
        tally.steps += _played(in_samples, seed, tally)
        byte_steps = _played(in_bytes, seed, tally)
        tally.steps += byte_steps
        tally.byte_steps += byte_steps
    return tally


def _played(module: Any, seed: int, tally: Allocations) -> int:
    """Plays a scenario; the steps that kept their bounds."""
    tally.scenarios += 1
    try:
        return int(module.play(seed))
    except Exception as error:  # whatever it is, it is a failure
        tally.failures.append(f"{module.__name__} {seed}: {type(error).__name__}: {error}")
        return 0
