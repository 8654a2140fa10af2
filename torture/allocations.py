"""Random scenarios and actions through allocator and store; the checks are those of the tests, with other seeds."""

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

TESTS = Path(__file__).parents[1] / "tests" / "memory" / "test_memory_properties.py"
FIRST_SEED = 1_000_000  # beyond those of the tests


@dataclass
class Allocations:
    steps: int = 0  # phases
    scenarios: int = 0
    bytes_steps: int = 0  # allocations and stores whose bounds are bytes
    failures: list[str] = field(default_factory=list)


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("memory_properties", TESTS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def torture(steps: int, rng: Random) -> Allocations:
    """So many steps, a tenth of them in bytes."""
    module, tally = _module(), Allocations()
    in_bytes = (
        module.test_samples_of_any_size_are_dropped_from_the_end_until_their_bytes_fit,
        module.test_rows_of_any_size_are_replaced_within_the_bytes,
    )
    seed = FIRST_SEED + rng.randrange(10**9)
    while tally.steps < steps:
        seed += 1
        try:
            module.play(seed)
        except Exception as error:  # whatever it is, it is a failure
            tally.failures.append(f"scenario {seed}: {type(error).__name__}: {error}")
        tally.scenarios += 1
        tally.steps += len(module.random_world(seed).data) - 1
        if tally.scenarios % 200 == 0:
            for check in in_bytes:
                try:
                    check(seed)
                except Exception as error:
                    tally.failures.append(f"{check.__name__} {seed}: {type(error).__name__}: {error}")
                tally.bytes_steps += 50
                tally.steps += 50
    return tally
