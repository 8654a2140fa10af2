"""The settings of a run: composition from layers, validation, and one-line error messages."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, field_validator

from remem.codecs.table import RAW
from remem.data.settings import AugmentSettings, DataSettings, ScenarioSettings
from remem.errors import InputError
from remem.memory.budget import MemorySettings
from remem.methods.settings import FinetuneSettings, MethodSettings, TrainSettings
from remem.methods.table import METHODS
from remem.nets.settings import NetSettings
from remem.runs.presets import load_preset
from remem.runs.renamed import current_names
from remem.runs.trees import Tree, merged, value_at
from remem.settings import Settings
from remem.user_paths import expand

NO_EFFECT = ("data.root", "data.max_gigabytes", "data.max_pixels", "train.checkpoint_minutes")
Section = TypeVar("Section", bound=BaseModel)


class RunConfig(Settings):
    """All settings of one class-incremental run."""

    seed: int = Field(default=0, ge=0, description="Seed of weights, batches and samples; the class order has its own.")
    preset: str = Field(
        default="small", description="small (a CPU, minutes), tiny (many runs) or paper (published schedules)."
    )
    policy: str = Field(
        default="static",
        description="How memory is split: a name (see `remem list policies`) or a policy folder.",
    )
    policy_sha256: str | None = Field(
        default=None,
        description="Digest of the policy's files, decided at the start, so that a resumed run uses the same policy.",
    )
    sample_actions: bool = Field(
        default=False, description="Sample a learned policy's actions instead of taking the most probable ones."
    )
    data: DataSettings = DataSettings()
    augment: AugmentSettings = AugmentSettings()
    scenario: ScenarioSettings = ScenarioSettings()
    memory: MemorySettings = MemorySettings()
    method: SerializeAsAny[MethodSettings] = Field(default_factory=lambda: METHODS[MethodSettings().name].settings())
    net: NetSettings = NetSettings()
    train: TrainSettings = TrainSettings()
    finetune: FinetuneSettings = FinetuneSettings()

    @field_validator("method", mode="before")
    @classmethod
    def _as_its_own_settings(cls, value: Any) -> Any:
        """Validates the method's settings with the class that its name selects."""
        if isinstance(value, MethodSettings):
            return value
        if not isinstance(value, Mapping):
            raise InputError(f"method: {value!r} given, expected settings such as method.name=icarl")
        name = str(value.get("name", MethodSettings().name))
        return METHODS[name].settings.model_validate({**value, "name": name})

    def with_effect(self) -> Tree:
        """Returns all settings on which a number can depend."""
        tree = self.model_dump(mode="json")
        for key in NO_EFFECT:
            section, _, name = key.partition(".")
            del tree[section][name]
        return tree

    def public(self) -> Tree:
        """Returns all settings without the machine's paths, for result files."""
        tree = self.with_effect()
        del tree["policy_sha256"]  # part of the policy's provenance
        for name, value in (("codec", RAW), ("codec_phase0", False), ("equal_steps", False)):
            if tree["memory"][name] == value:  # results of the paper's setting stay as they are
                del tree["memory"][name]
        tree["policy"] = Path(self.policy).name
        kind, colon, path = self.data.name.partition(":")
        tree["data"]["name"] = f"{kind}:{Path(path).name}" if colon else kind
        tree["scenario"]["order"] = Path(self.scenario.order).name  # an order may be a file
        return tree


def compose(*layers: Mapping[str, Any]) -> RunConfig:
    """Merges the preset and the layers; later layers win. Older names of settings are accepted."""
    return validate(_composed(*layers))


def _composed(*layers: Mapping[str, Any]) -> Tree:
    given: Tree = {}
    for layer in layers:
        given = merged(given, current_names(layer))
    return merged(load_preset(str(given.get("preset", "small")), given), given)


def draft(*layers: Mapping[str, Any]) -> RunConfig:
    """Composes all settings but those of the method, whose class is defined beside its losses: torch is not imported.

    So a misspelt setting is refused at once.
    """
    tree = _composed(*layers)
    section = tree.get("method", {})
    if isinstance(section, Mapping):
        name = str(section.get("name", MethodSettings().name))
        METHODS.require(name)
        tree = {**tree, "method": MethodSettings(name=name)}
    return validate(tree)


def single_threaded(config: RunConfig) -> RunConfig:
    """Uses one thread instead of all cores, so that results of parallel runs do not depend on the machine."""
    if config.train.threads:
        return config
    return config.model_copy(update={"train": config.train.model_copy(update={"threads": 1})})


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """Makes all paths absolute, so that a run finds its files from any folder."""
    data, division = config.data, config.scenario
    kind, colon, path = data.name.partition(":")
    if colon:
        data = data.model_copy(update={"name": f"{kind}:{expand(path).absolute()}"})
    if data.root is not None:
        data = data.model_copy(update={"root": expand(data.root).absolute()})
    order = expand(division.order)
    if order.is_file():
        division = division.model_copy(update={"order": str(order.absolute())})
    return config.model_copy(update={"data": data, "scenario": division})


def validate(tree: Mapping[str, Any]) -> RunConfig:
    """Validates a tree of settings. The first error becomes one line that names the field."""
    try:
        return RunConfig.model_validate(current_names(tree))
    except ValidationError as error:
        raise InputError(_explain(error, tree)) from error


def read_section(kind: type[Section], name: str, tree: Mapping[str, Any]) -> Section:
    """Validates a section outside the run's settings, such as `learn`. The first error becomes one line."""
    try:
        return kind.model_validate(current_names({name: tree})[name])
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            raise InputError(str(cause)) from error
        field = ".".join([name, *(str(part) for part in first["loc"])])
        if first["type"] == "extra_forbidden":
            known = ", ".join(kind.model_fields)
            raise InputError(f"{field}: no such setting; there are {known}") from error
        raise InputError(f"{field}: {first['input']!r} given; {first['msg'][0].lower()}{first['msg'][1:]}") from error


def _explain(error: ValidationError, tree: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    field = ".".join(where)
    if first["type"] == "extra_forbidden":
        known = known_keys(tree) if where[0] == "method" else _keys(MethodSettings)
        close = difflib.get_close_matches(field, sorted(known), n=1)
        return f"{field}: no such setting" + (f"; did you mean '{close[0]}'?" if close else "")
    if len(where) > 2 and not where[-1].isdigit():  # pydantic appends the branch of a union
        field = ".".join(where[:-1])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):  # already a one-line message
        return str(cause)
    return f"{field}: {first['input']!r} given; {first['msg'][0].lower()}{first['msg'][1:]}"


def known_keys(tree: Mapping[str, Any]) -> set[str]:
    """Returns the dotted names of all settings, including those of the method."""
    name = value_at(tree, "method.name", MethodSettings().name)
    return _keys(METHODS[name].settings if name in METHODS else MethodSettings)


def _keys(method: type[MethodSettings]) -> set[str]:
    sections = {key: field.annotation for key, field in RunConfig.model_fields.items()}
    sections["method"] = method
    keys = {key for key in sections if key not in ("method",)}
    for key, section in sections.items():
        if isinstance(section, type) and issubclass(section, BaseModel):
            keys |= {f"{key}.{field}" for field in section.model_fields}
    return keys
