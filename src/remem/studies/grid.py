"""Plans a study: its settings, and its grid of runs and policy trainings. Execution is in run.py."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from remem.errors import InputError
from remem.methods.table import METHODS
from remem.policies.table import policy_folder, require_policy
from remem.rl.config import LearnConfig, read_learn_settings
from remem.rl.settings import LearnSettings
from remem.runs.config import RunConfig, compose, draft, read_section, single_threaded, with_absolute_paths
from remem.runs.names import check_names
from remem.runs.presets import read_toml, shipped_configs
from remem.runs.renamed import RENAMED, current_names
from remem.runs.trees import Tree, merged, nested
from remem.settings import Settings
from remem.studies.learned_policies import LEARNED, check_shared_settings, identity, learning_of, stand_in
from remem.types import Json

SEED, METHOD, PHASES, POLICY = "seed", "method.name", "scenario.phases", "policy"
OWN_AXES = {SEED: "seeds", METHOD: "methods", PHASES: "phases", POLICY: "policies"}
PATHS = ("data.name", "data.root", "scenario.order")  # settings that may be paths
LONGEST_NAME = 200  # most file systems allow 255


class StudyPart(Settings):
    """A part of the grid: the values of some axes; an axis that is not given has all of its values."""

    methods: tuple[str, ...] | None = Field(default=None, min_length=1, description="Methods of this part.")
    policies: tuple[str, ...] | None = Field(default=None, min_length=1, description="Policies of this part.")
    phases: tuple[int, ...] | None = Field(default=None, min_length=1, description="Numbers of phases of this part.")
    seeds: tuple[int, ...] | None = Field(default=None, min_length=1, description="Seeds of this part.")

    def has(self, values: Mapping[str, Any]) -> bool:
        """Whether the run with these values, by axis, belongs to this part."""
        chosen = {key: getattr(self, name) for key, name in OWN_AXES.items()}
        return all(own is None or values[key] in own for key, own in chosen.items())


class StudySettings(Settings):
    """The `study` section: the values of every axis; an axis that is not given has the one value of the run."""

    methods: tuple[str, ...] | None = Field(default=None, min_length=1, description="Methods to run.")
    policies: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="Policies to run; the others are compared with the first."
    )
    phases: tuple[int, ...] | None = Field(default=None, min_length=1, description="Numbers of phases to run.")
    seeds: tuple[int, ...] | None = Field(default=None, min_length=1, description="Seeds to run.")
    order_by_seed: bool = Field(default=False, description="Give seed K the class order seed:K.")
    vary: dict[str, tuple[Any, ...]] = Field(
        default_factory=dict, description="Any other settings by their dotted names, each with a list of values."
    )

    parts: tuple[StudyPart, ...] = Field(
        default=(), description="Run only these parts of the grid, [[study.parts]]; none: all of it."
    )

    @model_validator(mode="after")
    def _are_axes(self) -> "StudySettings":
        for key, values in self.vary.items():
            if key in OWN_AXES:
                raise InputError(f"study.vary: '{key}' given; expected study.{OWN_AXES[key]} for this")
            if key.split(".")[0] in ("learn", "study"):
                raise InputError(f"study.vary: '{key}' given; expected a setting of a run")
            if key == "scenario.order" and self.order_by_seed:
                raise InputError("study.vary: 'scenario.order' given, but study.order_by_seed decides it")
            if not values:
                raise InputError(f"study.vary: no value for '{key}'; expected at least one")
        given = {f"study.{name}": getattr(self, name) or () for name in OWN_AXES.values()}
        for field, values in (given | {f"study.vary.{key}": values for key, values in self.vary.items()}).items():
            twice = [value for place, value in enumerate(values) if value in values[:place]]
            if twice:
                raise InputError(f"{field}: {twice[0]!r} given twice; expected each value once")
        for part in self.parts:
            self._has_part(part)
        return self

    def _has_part(self, part: StudyPart) -> None:
        for name in OWN_AXES.values():
            values = getattr(self, name) or ()
            for value in getattr(part, name) or ():
                if value not in values:
                    known = ", ".join(map(str, values)) or "none"
                    raise InputError(f"study.parts: {value!r} given; expected values of study.{name} ({known})")


@dataclass(frozen=True)
class Axis:
    """One setting and its values, each with a unique word in run names."""

    key: str
    values: tuple[Any, ...]
    words: tuple[str, ...]

    @property
    def varies(self) -> bool:
        return len(self.values) > 1


@dataclass(frozen=True)
class StudyRun:
    """One run of the grid."""

    name: str  # also of its folder
    place: Mapping[str, int]  # index of its value on every axis
    config: RunConfig  # with a placeholder for a policy that the study trains
    policy: str  # as named in the study
    learning: str | None = None  # name of its policy training


@dataclass(frozen=True)
class Study:
    """All runs, seed by seed, and the policies to train for them."""

    tree: Tree  # settings as given, with absolute paths: the study can be planned again from any folder
    settings: StudySettings
    learn: LearnSettings
    axes: tuple[Axis, ...]
    runs: tuple[StudyRun, ...]
    learnings: Mapping[str, LearnConfig]  # by folder name


def read_study_file(path: Path) -> Tree:
    """Reads a study's settings. Shipped studies are also found without the name of their folder."""
    inside = f"studies/{path.as_posix().removesuffix('.toml')}"
    tree = read_toml(Path(inside) if not path.is_file() and inside in shipped_configs() else path)
    if "study" not in tree:
        raise InputError(f"{path}: no section [study]; expected one with seeds, policies and the like")
    return tree


def check_study_names(*layers: Mapping[str, Any]) -> None:
    """Refuses misspelt names and absent data before torch is imported; `plan_study` checks everything else."""
    given: Tree = {}
    for layer in layers:
        given = merged(given, current_names(layer))
    if not isinstance(given.get("study", {}), Mapping):
        return
    settings = read_section(StudySettings, "study", given.get("study", {}))
    check_names(draft({key: given[key] for key in given if key not in ("study", "learn", POLICY)}), policy=False)
    for method in settings.methods or ():
        METHODS.require(method)
    for policy in settings.policies or ((str(given[POLICY]),) if POLICY in given else ()):
        if policy not in LEARNED:
            require_policy(policy)


def plan_study(*layers: Mapping[str, Any]) -> Study:
    """Plans and validates every run and policy training, without reading the data. Later layers win."""
    given: Tree = {}
    for layer in layers:
        given = merged(given, current_names(layer))
    for name in ("study", "learn"):
        if not isinstance(given.get(name, {}), Mapping):
            raise InputError(f"{name}: {given[name]!r} given; expected a section [{name}]")
    settings = _anchored_settings(read_section(StudySettings, "study", given.get("study", {})))
    base = {key: _anchored(key, value) for key, value in given.items() if key not in ("study", "learn")}
    learned = dict(given.get("learn", {}))
    if "source" in learned:
        learned["source"] = _anchored("learn.source", learned["source"])
    learn = read_learn_settings(learned)
    axes = _axes(settings, base)
    policies = next(axis.values for axis in axes if axis.key == POLICY)
    check_shared_settings(learned, learn, policies)
    runs = list(_grid(axes, settings, base))
    _require_different(runs)
    runs, learnings = _with_learnings(runs, axes, learn)
    given_study = settings.model_dump(mode="json", exclude_defaults=True)
    tree = {**base, "study": given_study, "learn": learned}
    return Study(tree, settings, learn, axes, tuple(runs), learnings)


def _axes(settings: StudySettings, base: Tree) -> tuple[Axis, ...]:
    """Returns the axes from slowest to fastest: seeds vary last, and runs that share a phase 0 are adjacent."""
    defaults = compose({key: value for key, value in base.items() if key != POLICY})
    values: dict[str, tuple[Any, ...]] = {
        SEED: settings.seeds or (defaults.seed,),
        METHOD: settings.methods or (defaults.method.name,),
        **settings.vary,
        PHASES: settings.phases or (defaults.scenario.phases,),
        POLICY: settings.policies or (str(base.get(POLICY, defaults.policy)),),
    }
    return tuple(Axis(key, own, _words(key, own)) for key, own in values.items())


def _grid(axes: Sequence[Axis], settings: StudySettings, base: Tree) -> Iterator[StudyRun]:
    for numbers in product(*(range(len(axis.values)) for axis in axes)):
        place = {axis.key: number for axis, number in zip(axes, numbers, strict=True)}
        values = {axis.key: axis.values[place[axis.key]] for axis in axes}
        if settings.parts and not any(part.has(values) for part in settings.parts):
            continue
        name = run_name(axes, place)
        if len(name) > LONGEST_NAME:
            raise InputError(f"study.vary: '{name}' is too long for the name of a folder; expected fewer axes")
        policy = values[POLICY]
        if policy in LEARNED:
            values[POLICY] = stand_in(policy)
        if settings.order_by_seed:
            values["scenario.order"] = f"seed:{values[SEED]}"
        try:
            config = single_threaded(compose(base, *(nested(key, value) for key, value in values.items())))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        yield StudyRun(name, place, config, policy)


def run_name(axes: Sequence[Axis], place: Mapping[str, int], without: Sequence[str] = ()) -> str:
    """`icarl_static_phases-5_seed-0`: one word per axis with more than one value, the seed last."""
    shown = [axis for axis in axes if axis.varies and axis.key not in without]
    front = {METHOD: 0, POLICY: 1, PHASES: 2, SEED: 4}
    parts = []
    for axis in sorted(shown, key=lambda axis: front.get(axis.key, 3)):
        word = axis.words[place[axis.key]]
        parts.append(word if axis.key in (METHOD, POLICY) else f"{axis_label(axis, axes)}-{word}")
    return "_".join(parts) or "run"


def axis_label(axis: Axis, axes: Sequence[Axis]) -> str:
    """`budget` for `memory.budget` and `data` for `data.name`, unless another axis has the same label."""
    alike = [other for other in axes if _short(other.key) == _short(axis.key)]
    return _short(axis.key) if len(alike) == 1 else axis.key


def _short(key: str) -> str:
    section, _, last = key.rpartition(".")
    return section if last == "name" else last


def _words(key: str, values: Sequence[Any]) -> tuple[str, ...]:
    """Returns a word for each value that any file system accepts. Words are unique even if case is ignored."""
    words: list[str] = []
    for value in values:
        text = Path(value).name if key == POLICY else value if isinstance(value, str) else json.dumps(value)
        word = re.sub(r"[^A-Za-z0-9.+-]+", "-", text)[-32:].rstrip("-.")
        word = (word.lstrip("-.") if isinstance(value, str) else word) or "x"  # numbers keep their sign
        taken = {other.lower() for other in words}
        count, unique = 1, word
        while unique.lower() in taken:
            count += 1
            unique = f"{word}+{count}"
        words.append(unique)
    return tuple(words)


def _require_different(runs: Sequence[StudyRun]) -> None:
    """Raises if two runs are equal: values such as 2000 and '2000' mean the same."""
    seen: dict[str, str] = {}
    for run in runs:
        key = run.policy + run.config.model_dump_json()
        if key in seen:
            raise InputError(f"study: {seen[key]} and {run.name} are the same run; expected different settings")
        seen[key] = run.name


def _with_learnings(
    runs: Sequence[StudyRun], axes: Sequence[Axis], learn: LearnSettings
) -> tuple[list[StudyRun], dict[str, LearnConfig]]:
    """Assigns policy trainings to the runs that need one. Their names have the axes in which they differ."""
    wanted = {run.name: learning_of(run.policy, run.config, learn) for run in runs}
    first: dict[tuple[str, str], StudyRun] = {}
    for run in runs:
        learning = wanted[run.name]
        if learning is not None:
            first.setdefault((run.policy, identity(learning)), run)
    names = {}
    for (policy, key), run in first.items():
        same_policy = [other for (other_policy, _), other in first.items() if other_policy == policy]
        same = [axis.key for axis in axes if len({other.place[axis.key] for other in same_policy}) == 1]
        where = run_name(axes, run.place, without=same)
        names[policy, key] = policy if len(same_policy) == 1 else f"{where}/{policy}"
    learnings: dict[str, LearnConfig] = {}
    known = []
    for run in runs:
        learning = wanted[run.name]
        if learning is not None:
            name = names[run.policy, identity(learning)]
            learnings[name] = learning
            run = replace(run, learning=name)
        known.append(run)
    return known, learnings


def _anchored_settings(settings: StudySettings) -> StudySettings:
    """Makes paths among the values of axes absolute."""
    vary = {RENAMED.get(key, key): values for key, values in settings.vary.items()}
    update: Json = {
        "vary": {key: tuple(_anchored_value(key, value) for value in values) for key, values in vary.items()}
    }
    if settings.policies is not None:
        update["policies"] = _anchored_policies(settings.policies)
    update["parts"] = tuple(
        part.model_dump() | ({} if part.policies is None else {"policies": _anchored_policies(part.policies)})
        for part in settings.parts
    )
    return read_section(StudySettings, "study", settings.model_dump() | update)


def _anchored_policies(policies: Sequence[str]) -> tuple[str, ...]:
    return tuple(_anchored_value(POLICY, policy) for policy in policies)


def _anchored(key: str, value: Any) -> Any:
    """Makes the paths of a section or a plain value absolute."""
    if isinstance(value, Mapping):
        return {name: _anchored_value(f"{key}.{name}", inner) for name, inner in value.items()}
    return _anchored_value(key, value)


def _anchored_value(key: str, value: Any) -> Any:
    if key == POLICY and isinstance(value, str) and value not in LEARNED:
        folder = policy_folder(value)
        return value if folder is None else str(folder.absolute())
    if key == "learn.source" and isinstance(value, str) and value.startswith("dataset:"):
        return "dataset:" + str(_anchored_value("data.name", value.removeprefix("dataset:")))
    if key in PATHS:
        section, _, name = key.partition(".")
        return with_absolute_paths(compose(nested(key, value))).model_dump(mode="json")[section][name]
    return value
