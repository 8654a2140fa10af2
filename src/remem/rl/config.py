"""The configuration of policy training: a target as a run would see it, and the `learn` section."""

from collections.abc import Mapping
from typing import Any

from remem.codecs.table import LADDER, RAW
from remem.errors import InputError
from remem.rl.settings import LearnSettings
from remem.runs.config import RunConfig, compose, read_section, single_threaded, with_absolute_paths
from remem.runs.trees import Tree, merged
from remem.settings import Settings
from remem.types import Json


class LearnConfig(Settings):
    """The target's settings, and how a policy for it is trained."""

    target: RunConfig
    learn: LearnSettings = LearnSettings()

    @property
    def on_source(self) -> RunConfig:
        """The target's settings on the data set of the pseudo tasks, which is read with the same data settings."""
        kind, _, name = self.learn.source.partition(":")
        if kind != "dataset":
            return self.target
        return self.target.model_copy(update={"data": self.target.data.model_copy(update={"name": name})})


def compose_learning(*layers: Mapping[str, Any]) -> LearnConfig:
    """Composes the settings of a run and a `learn` section."""
    learn: Tree = {}
    for layer in layers:
        section = layer.get("learn", {})
        if not isinstance(section, Mapping):
            raise InputError(f"learn: {section!r} given; expected settings such as learn.epochs=30")
        learn = merged(learn, section)
    target = compose(*({key: value for key, value in layer.items() if key != "learn"} for layer in layers))
    return LearnConfig(target=target, learn=read_learn_settings(learn))


def normalized(config: LearnConfig) -> LearnConfig:
    """Makes paths absolute and resets the policy, which has no effect on policy training."""
    kind, learn = config.learn.source.partition(":")[0], config.learn
    if kind == "dataset":
        name = with_absolute_paths(config.on_source).data.name
        learn = learn.model_copy(update={"source": f"{kind}:{name}"})
    none = {"policy": "static", "policy_sha256": None, "sample_actions": False}
    target = single_threaded(with_absolute_paths(config.target)).model_copy(update=none)
    if learn.levels == 3 and target.memory.codec == RAW:
        target = target.model_copy(update={"memory": target.memory.model_copy(update={"codec": LADDER})})
    return LearnConfig(target=target, learn=learn)


ADDED = {"scale_finetune": False}  # settings that earlier trainings do not have, and what they did instead


def read_stored_learn_settings(tree: Mapping[str, Any]) -> LearnSettings:
    """Reads the settings of a training, which may be from before some of them were added."""
    return read_learn_settings({**ADDED, **tree})


def stored_form(learn: LearnSettings) -> Json:
    """The settings as an earlier training would have stored them, if it could have had them."""
    every = learn.model_dump(mode="json")
    return {name: value for name, value in every.items() if name not in ADDED or value != ADDED[name]}


def read_learn_settings(tree: Mapping[str, Any]) -> LearnSettings:
    """Validates a `learn` section. The first error becomes one line."""
    return read_section(LearnSettings, "learn", tree)
