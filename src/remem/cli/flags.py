"""Flags that stand for settings: one line each. Their types and help texts are those of the settings' fields."""

import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from remem.cli.completion import completer
from remem.cli.options import COMMON, LEARNING, PANELS, SCENARIO, TRAINING, ConfigFile, Overrides, option
from remem.errors import InputError
from remem.runs.config import RunConfig, draft
from remem.runs.presets import read_toml
from remem.runs.trees import Tree, merged, nested, read_overrides
from remem.settings import field_at


@dataclass(frozen=True)
class Flag:
    """A flag that sets one setting."""

    name: str
    key: str
    panel: str
    metavar: str | None = None  # None: the values that the setting allows

    @property
    def parameter(self) -> str:
        return self.name.removeprefix("--").replace("-", "_")


FLAGS = (
    Flag("--levels", "learn.levels", LEARNING),
    Flag("--source", "learn.source", LEARNING, "SOURCE"),
    Flag("--fidelity", "learn.fidelity", LEARNING),
    Flag("--epochs", "learn.epochs", LEARNING, "m"),
    Flag("--tasks", "learn.tasks", LEARNING, "K"),
    Flag("--runs", "learn.runs", LEARNING, "Z"),
    Flag("--pool", "learn.pool", LEARNING, "P"),
    Flag("--search", "learn.search", LEARNING),
    Flag("--baseline", "learn.baseline", LEARNING),
    Flag("--crossval-fixed", "learn.crossval_fixed", LEARNING),
    Flag("--dataset", "data.name", SCENARIO, "NAME"),
    Flag("--order", "scenario.order", SCENARIO, "ORDER"),
    Flag("--phases", "scenario.phases", SCENARIO, "N"),
    Flag("--base-classes", "scenario.base_classes", SCENARIO, "B"),
    Flag("--classes", "scenario.classes", SCENARIO, "C"),
    Flag("--budget", "memory.budget", SCENARIO, "M"),
    Flag("--codec", "memory.codec", SCENARIO, "NAME"),
    Flag("--exemplars", "memory.exemplars", SCENARIO, "E"),
    Flag("--policy", "policy", SCENARIO, "NAME"),
    Flag("--selection", "memory.selection", SCENARIO, "NAME"),
    Flag("--validation", "scenario.validation", SCENARIO, "SHARE"),
    Flag("--method", "method.name", TRAINING, "NAME"),
    Flag("--backbone", "net.name", TRAINING, "NAME"),
    Flag("--preset", "preset", TRAINING, "NAME"),
    Flag("--device", "train.device", TRAINING, "NAME"),
    Flag("--devices", "train.devices", TRAINING, "K"),
    Flag("--strategy", "train.strategy", TRAINING, "NAME"),
    Flag("--seed", "seed", COMMON, "K"),
    Flag("--data-root", "data.root", COMMON, "DIR"),
)


@dataclass(frozen=True)
class SettingSources:
    """Where the settings of a command come from: a file, flags by the keys of their settings, and `--set`."""

    file: Path | None
    flags: Mapping[str, Any]
    overrides: Sequence[str]

    def layers(self) -> tuple[Tree, Tree, Tree]:
        """Later ones override earlier ones."""
        from_file = {} if self.file is None else read_toml(self.file)
        if "study" in from_file:
            raise InputError(f"{self.file}: a study given, expected the settings of one run; use `remem study`")
        from_flags: Tree = {}
        for key, value in self.flags.items():
            from_flags = merged(from_flags, nested(key, value))
        return from_file, from_flags, read_overrides(self.overrides)

    def checked_layers(self, *, policy: bool = True) -> tuple[Tree, Tree, Tree]:
        """The layers; a misspelt name or setting is refused before torch is imported."""
        from remem.runs.names import check_names

        layers = self.layers()
        target = ({key: value for key, value in layer.items() if key != "learn"} for layer in layers)
        check_names(draft(*target), policy=policy)
        return layers


def takes_settings(*panels: str, only: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces the parameter `sources` of a command by CONFIG.toml, the flags of these panels and `--set`.

    `only` has the names of the flags of a command that takes no CONFIG.toml.
    """
    chosen = [flag for flag in FLAGS if flag.panel in panels or flag.name in only]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_sources(*, config: Path | None = None, overrides: list[str] | None, **given: Any) -> None:
            values = {flag.key: given.pop(flag.parameter) for flag in chosen}
            flags = {key: typed(key, value) for key, value in values.items() if value is not None}
            command(sources=SettingSources(config, flags, overrides or ()), **given)

        flags = [flag_parameter(flag) for flag in chosen]
        file = [] if only else [_parameter("config", ConfigFile)]
        expanded = {"sources": [*file, *flags, _parameter("overrides", Overrides)]}
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, own in inspect.signature(command).parameters.items()
            for parameter in expanded.get(name, [own])
        ]
        with_sources.__signature__ = inspect.Signature(sorted(parameters, key=_place))  # type: ignore[attr-defined]
        return with_sources

    return decorate


def flag_parameter(flag: Flag) -> inspect.Parameter:
    """A flag as a parameter that typer understands; None: it was not given."""
    field = field_of(flag.key)
    metavar = flag.metavar or "|".join(map(str, literal_values(field))) or None
    info = option(flag.name, field.description or "", flag.panel, metavar, autocompletion=completer(flag.key))
    return _parameter(flag.parameter, Annotated[parsed_type(field) | None, info])


def field_of(key: str) -> FieldInfo:
    """The field of a setting of a run, or of the section `learn`."""
    if key.startswith("learn."):
        from remem.rl.settings import LearnSettings

        return field_at(LearnSettings, key.removeprefix("learn."))
    return field_at(RunConfig, key)


def parsed_type(field: FieldInfo) -> type:
    """What typer reads; it is text if the setting takes both numbers and text. Limits are checked by the setting."""
    types = {type(value) for value in literal_values(field)} or set(plain_types(field.annotation))
    return str if str in types else types.pop()


def plain_types(annotation: Any) -> list[type]:
    """`int | None` -> [int]; metadata such as limits is dropped."""
    if get_origin(annotation) is Annotated:
        return plain_types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for part in get_args(annotation) for kind in plain_types(part)]
    return [] if annotation is type(None) else [annotation]


def literal_values(field: FieldInfo) -> tuple[Any, ...]:
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


def typed(key: str, value: Any) -> Any:
    """`7000` of a setting that takes numbers and text is a number."""
    numeric = (
        isinstance(value, str)
        and value.isdecimal()
        and len(value) < 400
        and int in plain_types(field_of(key).annotation)
    )
    return int(value) if numeric else value


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _place(parameter: inspect.Parameter) -> int:
    """Typer shows panels in the order of their first parameters."""
    return PANELS.index(get_args(parameter.annotation)[1].rich_help_panel)
