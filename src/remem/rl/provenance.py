"""The size of a policy training, and the provenance of its policy. Neither contains the machine's paths."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from remem.rl.config import LearnConfig
from remem.rl.events import LearningStarted, TaskSummary
from remem.rl.paths import TaskKey
from remem.rl.settings import LearnSettings
from remem.types import Json

if TYPE_CHECKING:
    from remem.rl.pseudo_tasks import PseudoTasks

SUFFIX = {"phase0": "", "target": "-upper-bound", "dataset": "-transferred"}


def started(config: LearnConfig, tasks: "PseudoTasks", *, done: int) -> LearningStarted:
    """Returns the event with the size of the training."""
    learn = config.learn
    examples = [tasks.task(TaskKey(number, "full")) for number in range(len(learn.phases or (0,)))]
    summaries = (
        TaskSummary(
            tuple(facts.classes for facts in task.phases), task.budget.kind, task.budget.amount, task.budget.exemplars
        )
        for task in examples
    )
    return LearningStarted(
        name=policy_name(learn),
        oracle=learn.source == "target",
        source=learn.source.partition(":")[0],
        data=config.on_source.public()["data"]["name"],
        classes=len(tasks.classes),
        tasks=tuple(summaries),
        epochs=learn.all_epochs,
        done=done,
    )


def policy_name(learn: LearnSettings) -> str:
    """Returns the name of a policy of this kind (protocol 3)."""
    if learn.crossval_fixed:
        return "crossval-fixed" if learn.levels < 3 else "crossval-fixed-codec"
    kind = learn.source.partition(":")[0]
    if learn.search != "reinforce":
        return f"path-{learn.search}{SUFFIX[kind]}"
    return {1: "rmm-one-level", 2: "rmm", 3: "rmm-codec"}[learn.levels] + SUFFIX[kind]


def provenance_settings(config: LearnConfig) -> Json:
    """Returns all settings of a policy training, without the machine's paths."""
    learn = config.learn.model_dump(mode="json")
    if config.learn.source.partition(":")[0] == "dataset":
        learn["source"] = f"dataset:{config.on_source.public()['data']['name']}"
    return {"learn": learn, "target": config.target.public()}


def provenance(config: LearnConfig, tasks: "PseudoTasks", means: Sequence[float]) -> Json:
    """Returns the provenance for the policy's file, without the machine's paths."""
    target = config.target.public()
    kind = config.learn.source.partition(":")[0]
    data = config.on_source.public()["data"]["name"]
    return {
        "name": policy_name(config.learn),
        "oracle": kind == "target",
        "source": {
            "kind": kind,
            "data": data,
            "classes": [tasks.dataset.class_names[label] for label in tasks.classes],
            "order": None if kind == "dataset" else target["scenario"]["order"],
            "phases": list(config.learn.phases or (config.target.scenario.phases,)),
            "budget": None if kind == "dataset" else target["memory"]["budget"],
        },
        "method": target["method"],
        "settings": provenance_settings(config),
        "seed": config.target.seed,
        "rewards": list(means),
    }
