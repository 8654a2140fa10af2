"""Shipped presets and configs, and the user's TOML files."""

import difflib
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from remem.data.settings import DataSettings, ScenarioSettings
from remem.errors import DamagedFileError, InputError, is_damage
from remem.methods.settings import MethodSettings
from remem.runs.trees import Tree, merged, value_at
from remem.storage.limits import parse_toml

PRESETS = ("small", "tiny", "paper")


def load_preset(name: str, given: Mapping[str, Any]) -> Tree:
    """Merges, in order, the rules of a preset that match the data set, the method and the number of phases."""
    if name not in PRESETS:
        raise InputError(f"preset: '{name}' given, expected one of {', '.join(PRESETS)}")
    facts = {
        "datasets": str(value_at(given, "data.name", DataSettings().name)).partition(":")[0],
        "methods": value_at(given, "method.name", MethodSettings().name),
        "phases": value_at(given, "scenario.phases", ScenarioSettings().phases),
    }
    tree: Tree = {}
    for rule in _rules(name):
        if all(facts[key] in rule[key] for key in facts if key in rule):
            tree = merged(tree, rule["set"])
    return tree


def _rules(name: str) -> list[Tree]:
    """The rules of a preset, after those of the preset it is based on."""
    preset = tomllib.loads(resources.files("remem.conf").joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    rules: list[Tree] = preset["rule"]
    return [*_rules(preset["base"]), *rules] if "base" in preset else rules


def shipped_configs() -> dict[str, str]:
    """Returns the texts of the shipped configs by name: `demo`, and one for every reported number."""
    root = resources.files("remem.conf")
    texts = {"demo": root.joinpath("demo.toml").read_text(encoding="utf-8")}
    for folder in sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.name):
        files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
        for file in sorted(files, key=lambda file: file.name):
            texts[f"{folder.name}/{file.name.removesuffix('.toml')}"] = file.read_text(encoding="utf-8")
    return texts


def read_toml(path: Path) -> Tree:
    """Reads a config file, or the shipped config of that name."""
    name = path.as_posix().removesuffix(".toml")
    if not path.is_file() and name in (shipped := shipped_configs()):
        return tomllib.loads(shipped[name])
    try:
        return parse_toml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        close = difflib.get_close_matches(name, shipped_configs(), n=1)
        hint = (
            f"; did you mean '{close[0]}'?" if close else " (see `remem list configs` for those that come with remem)"
        )
        raise DamagedFileError(f"{path}: no such config file{hint}") from error
    except (OSError, ValueError) as error:
        if not is_damage(error):
            raise
        raise DamagedFileError(f"{path}: not a TOML file ({error})") from error
