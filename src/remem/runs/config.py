"""The settings of a run: sections that live beside their users, presets, TOML files and `key=value` overrides."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, field_validator

from remem.data.augment import AugmentSettings
from remem.data.scenario import ScenarioSettings
from remem.data.source import DataSettings
from remem.errors import DamagedFileError, InputError
from remem.memory.budget import MemorySettings
from remem.methods.method import MethodSettings
from remem.methods.settings import FinetuneSettings, TrainSettings
from remem.methods.table import METHODS
from remem.nets.contract import NetSettings
from remem.settings import Settings

Tree = dict[str, Any]
Section = TypeVar("Section", bound=BaseModel)
PRESETS = ("small", "paper")


class RunConfig(Settings):
    """One class-incremental run, whole."""

    seed: int = Field(default=0, ge=0)
    preset: str = "small"
    policy: str = "static"  # a registered name or a policy folder
    policy_sha256: str | None = None  # what the policy's files must be; None: whatever they are
    sample_actions: bool = False  # False: the most probable action
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
        """Each method has settings of its own; its name says which."""
        if isinstance(value, MethodSettings):
            return value
        if not isinstance(value, Mapping):
            raise InputError(f"method: {value!r} given, expected settings such as method.name=icarl")
        name = str(value.get("name", MethodSettings().name))
        return METHODS[name].settings.model_validate({**value, "name": name})

    def public(self) -> Tree:
        """All settings without the paths of a machine, for result files."""
        tree = self.model_dump(mode="json")
        del tree["data"]["root"]
        del tree["policy_sha256"]  # the policy's own provenance says what it was
        tree["policy"] = Path(self.policy).name
        kind, colon, path = self.data.name.partition(":")
        tree["data"]["name"] = f"{kind}:{Path(path).name}" if colon else kind
        tree["scenario"]["order"] = Path(self.scenario.order).name  # an order may be a file
        return tree


def compose(*layers: Mapping[str, Any]) -> RunConfig:
    """Later layers override earlier ones; the preset that they name lies beneath all of them."""
    given: Tree = {}
    for layer in layers:
        given = merged(given, layer)
    name = str(given.get("preset", "small"))
    return validate(merged(load_preset(name, given), given))


def beside_others(config: RunConfig) -> RunConfig:
    """As one of many runs: it does not take all cores, and computes the same however many run at once."""
    if config.train.threads:
        return config
    return config.model_copy(update={"train": config.train.model_copy(update={"threads": 1})})


def validate(tree: Mapping[str, Any]) -> RunConfig:
    """Settings from a tree; the first thing wrong becomes one line that names the field."""
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise InputError(_explain(error, tree)) from error


def read_section(kind: type[Section], name: str, tree: Mapping[str, Any]) -> Section:
    """The settings of a section that stands beside those of a run; one line for the first thing wrong."""
    try:
        return kind.model_validate(tree)
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


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    """Nested tables are merged key by key, everything else is replaced. Another method's settings do not carry over."""
    result = dict(below)
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            before = result[key].get("name")
            renamed = key == "method" and before is not None and value.get("name", before) != before
            result[key] = dict(value) if renamed else merged(result[key], value)
        elif isinstance(value, Mapping) and key in result:  # settings must not hide that a plain value was given
            raise InputError(
                f"{key}: {result[key]!r} given; expected settings such as {key}.{next(iter(value), 'name')}"
            )
        else:
            result[key] = value
    return result


def load_preset(name: str, given: Mapping[str, Any]) -> Tree:
    """The rules of a preset that fit the data set, the method and the number of phases, merged in order."""
    if name not in PRESETS:
        raise InputError(f"preset: '{name}' given, expected one of {', '.join(PRESETS)}")
    facts = {
        "datasets": str(_at(given, "data.name", DataSettings().name)).partition(":")[0],
        "methods": _at(given, "method.name", MethodSettings().name),
        "phases": _at(given, "scenario.phases", ScenarioSettings().phases),
    }
    text = resources.files("remem.conf").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    tree: Tree = {}
    for rule in tomllib.loads(text)["rule"]:
        if all(facts[key] in rule[key] for key in facts if key in rule):
            tree = merged(tree, rule["set"])
    return tree


def shipped_configs() -> dict[str, str]:
    """The texts of the configs that come with remem, by name: `demo`, and one for every reported number."""
    root = resources.files("remem.conf")
    texts = {"demo": root.joinpath("demo.toml").read_text(encoding="utf-8")}
    for folder in sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.name):
        files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
        for file in sorted(files, key=lambda file: file.name):
            texts[f"{folder.name}/{file.name.removesuffix('.toml')}"] = file.read_text(encoding="utf-8")
    return texts


def read_toml(path: Path) -> Tree:
    """A config file's settings; a name of a shipped config stands for that one."""
    name = path.as_posix().removesuffix(".toml")
    if not path.exists() and name in (shipped := shipped_configs()):
        return tomllib.loads(shipped[name])
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        close = difflib.get_close_matches(name, shipped_configs(), n=1)
        hint = (
            f"; did you mean '{close[0]}'?" if close else " (see `remem list configs` for those that come with remem)"
        )
        raise DamagedFileError(f"{path}: no such config file{hint}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DamagedFileError(f"{path}: not a TOML file ({error})") from error


def read_overrides(pairs: Iterable[str]) -> Tree:
    """`train.epochs=5` and the like; a value that TOML cannot read is a string."""
    tree: Tree = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not all(key.split(".")):
            raise InputError(f"--set: '{pair}' given, expected key=value such as train.epochs=5")
        try:
            parsed = tomllib.loads(f"value = {text}")
        except tomllib.TOMLDecodeError:
            parsed = {"value": text}
        if parsed.keys() != {"value"}:
            raise InputError(f"--set: {pair!r} given, expected one key=value")
        value = parsed["value"]
        tree = merged(tree, nested(key, value))
    return tree


def nested(key: str, value: Any) -> Tree:
    """'train.epochs', 5 -> {'train': {'epochs': 5}}."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def _at(tree: Mapping[str, Any], key: str, default: Any) -> Any:
    for part in key.split("."):
        if not isinstance(tree, Mapping) or part not in tree:
            return default
        tree = tree[part]
    return tree


def _explain(error: ValidationError, tree: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    field = ".".join(where)
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(field, sorted(known_keys(tree)), n=1)
        return f"{field}: no such setting" + (f"; did you mean '{close[0]}'?" if close else "")
    if len(where) > 2 and not where[-1].isdigit():  # pydantic also names the branch of a union
        field = ".".join(where[:-1])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):  # a line of its own already
        return str(cause)
    return f"{field}: {first['input']!r} given; {first['msg'][0].lower()}{first['msg'][1:]}"


def known_keys(tree: Mapping[str, Any]) -> set[str]:
    """Every setting that exists, dotted; a method's own included."""
    name = _at(tree, "method.name", MethodSettings().name)
    sections = {key: field.annotation for key, field in RunConfig.model_fields.items()}
    sections["method"] = METHODS[name].settings if name in METHODS else MethodSettings
    keys = {key for key in sections if key not in ("method",)}
    for key, section in sections.items():
        if isinstance(section, type) and issubclass(section, BaseModel):
            keys |= {f"{key}.{field}" for field in section.model_fields}
    return keys
