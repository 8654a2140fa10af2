"""Pseudo tasks of small numbers, for tests that train nothing."""

from remem.data.pseudo import pseudo_scenario, sealed
from remem.data.settings import ScenarioSettings
from remem.memory.budget import Budget
from remem.rl.paths import Task, TaskKey
from remem.seeding import Streams
from factories import blobs

DATA = sealed(blobs(classes=8, per_class=10))


def made_task(number: int = 0, *, phases: int = 2, budget: int = 40, base: int | None = None, run: str = "") -> Task:
    """Eight classes of 9 training samples each: four in phase 0, the others evenly over the later phases."""
    division = ScenarioSettings(phases=phases, base_classes=base)
    scenario = pseudo_scenario(DATA, range(8), division, Streams(0, f"pseudo {number}"))
    return Task(TaskKey(number, "full", run), scenario, Budget("fixed", budget, 16))
