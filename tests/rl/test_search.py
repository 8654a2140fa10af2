"""search.py: which paths are searched, and that the best of them is found, on rewards that are known."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from factories import blobs
from remem.action import Action
from remem.data.pseudo import pseudo_scenario, sealed
from remem.data.settings import ScenarioSettings
from remem.errors import DamagedFileError, InputError
from remem.events import Event, ignore
from remem.memory.budget import Budget
from remem.policies.files import load_policy, save_policy
from remem.policies.path import FixedPath
from remem.rl.config import LearnConfig
from remem.rl.events import PolicyUpdated
from remem.rl.learn import learn_in_folder
from remem.rl.paths import ActionPath, Node, Task, TaskKey
from remem.rl.prefix_tree import RewardCache
from remem.rl.search import PathSearch, level1_paths
from remem.seeding import Streams
from remem.storage.jsonfile import write_json
from rl_factories import learn_config, make_path, make_task, observe, reward_lines

LARGE = sealed(blobs(classes=8, per_class=200))
SEARCHES = ("exhaustive", "random", "tpe")


def wide_task(phases: int) -> Task:
    """One class of 180 samples per phase and a budget of 100: every share from 0.1 to 0.9 is feasible."""
    division = ScenarioSettings(phases=phases, base_classes=2)
    scenario = pseudo_scenario(LARGE, range(2 + phases), division, Streams(0))
    return Task(TaskKey(0, "features"), scenario, Budget("fixed", 100, 20))


class OneTask:
    """Every key is the same task."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def path_task(self, key: TaskKey) -> Task:
        return self._task


def trainer_of(value: Callable[[ActionPath], float], seen: list[Node]) -> Callable[..., Iterator[tuple[Node, float]]]:
    """Rewards of nodes by a known function of the path."""

    def train_nodes(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        for node in nodes:
            seen.append(node)
            yield node, value(node[1])

    return train_nodes


def searched(
    config: LearnConfig, task: Task, value: Callable[[ActionPath], float]
) -> tuple[FixedPath, list[float], list[Node]]:
    seen: list[Node] = []
    search = PathSearch(config, OneTask(task), RewardCache(trainer_of(value, seen)))
    rounds = list(search.rounds())
    assert len(rounds) == config.learn.all_epochs == len(search.mean_rewards)
    assert all(done.best == search.policy.actions for done in rounds[-1:])
    return search.policy, search.mean_rewards, seen


def near(path: ActionPath) -> float:
    """The best path is 0.3, 0.4, 0.5, then 0.5, with splits of 0.7."""
    if not path:
        return 0.5
    action, wanted = path[-1], min(2 + len(path), 5)
    return 0.9 - 0.05 * abs(action.old_tenths - wanted) - 0.01 * abs(action.level2_tenths - 7)


def test_level_1_has_891_states_for_five_phases() -> None:
    """9 first shares, then changes of at most a tenth: 9 + 25 + 71 + 203 + 583."""
    task = wide_task(5)
    assert all(observe(task, phase, 5).feasible == tuple(range(1, 10)) for phase in range(1, 6))
    paths = list(level1_paths(task))
    states = {path[:depth] for path in paths for depth in range(1, 6)}
    assert (len(paths), len(states)) == (583, 891)
    assert len(set(paths)) == len(paths)


def test_all_paths_are_those_whose_changes_are_at_most_a_tenth() -> None:
    """By brute force; M = 40 and 18 arriving samples leave 0.5 to 0.9."""
    task = make_task(phases=2)
    expected = {(a, b) for a, b in product(range(5, 10), repeat=2) if abs(a - b) <= 1}
    assert {tuple(action.old_tenths for action in path) for path in level1_paths(task)} == expected
    assert all(action.level2_tenths == 5 for path in level1_paths(task) for action in path)


def search_config(npz: Path, search: str, **learn: Any) -> LearnConfig:
    levels = {"levels": 1} if search == "exhaustive" else {}
    return learn_config(npz, search=search, **{"epochs": 25, "tasks": 2, "runs": 4, "pool": 2, **levels, **learn})


def test_the_exhaustive_search_finds_the_best_path_of_level_1(npz: Path) -> None:
    policy, _, seen = searched(search_config(npz, "exhaustive"), wide_task(4), near)
    assert policy == FixedPath(make_path((3, 5), (4, 5), (5, 5), (5, 5)))
    assert len(seen) == len(set(seen)) == 2 * (1 + 9 + 25 + 71 + 203)  # both tasks, each node once, and phase 0


def test_ties_go_to_the_first_path(npz: Path) -> None:
    policy, _, _ = searched(search_config(npz, "exhaustive"), wide_task(2), lambda path: 0.5)
    assert policy == FixedPath(make_path((1, 5), (1, 5)))


@pytest.mark.parametrize("levels", [1, 2])
def test_tpe_comes_closer_than_random_search(npz: Path, levels: int) -> None:
    """At equally many runs, the mean over three seeds; both see each path on all tasks."""
    gaps: dict[str, list[float]] = {}
    for search, seed in product(("random", "tpe"), (0, 1, 2)):
        config = search_config(npz, search, levels=levels)
        config = config.model_copy(update={"target": config.target.model_copy(update={"seed": seed})})
        policy, means, _ = searched(config, wide_task(4), near)
        assert len(means) == 25
        actions = policy.actions
        gaps.setdefault(search, []).append(sum(near(actions[:depth]) for depth in range(1, 5)))
    assert sum(gaps["tpe"]) > sum(gaps["random"])


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_a_search_of_one_level_never_splits(npz: Path, search: str) -> None:
    _, _, seen = searched(search_config(npz, search, levels=1), wide_task(3), near)
    assert {action.level2_tenths for _, path in seen for action in path} == {5}


@pytest.mark.parametrize("search", SEARCHES)
def test_equal_seeds_search_equal_paths(npz: Path, search: str) -> None:
    config = search_config(npz, search, epochs=6)
    runs = [searched(config, wide_task(3), near) for _ in range(2)]
    assert runs[0] == runs[1]
    other = config.model_copy(update={"target": config.target.model_copy(update={"seed": 7})})
    assert (searched(other, wide_task(3), near)[2] == runs[0][2]) is (search == "exhaustive")


def test_an_epoch_of_k_z_runs_is_a_round_of_as_many(npz: Path) -> None:
    assert search_config(npz, "random", tasks=2, runs=8, pool=4).learn.paths_per_round == 4
    assert search_config(npz, "random", tasks=1, runs=1, pool=4).learn.paths_per_round == 1


@pytest.mark.parametrize(
    ("learn", "message"),
    [
        ({"search": "exhaustive", "levels": 2}, "learn.levels: 2 given; an exhaustive search covers level 1"),
        ({"search": "random", "pool": 0}, "learn.pool: 0 given; expected at least 1"),
        ({"search": "tpe", "phases": [5, 10], "pool": 4}, r"learn.phases: \[5, 10\] given; a path has one N"),
        ({"search": "tpe", "finish_epochs": 2}, "learn.finish_epochs: 2 given; only reinforce has them"),
        ({"search": "random", "crossval_fixed": True}, "learn.search: random given, but learn.crossval_fixed"),
    ],
)
def test_settings_that_do_not_fit_are_refused(npz: Path, learn: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        learn_config(npz, **learn)


def test_without_optuna_tpe_says_what_to_install(npz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(InputError, match=r"learn.search: tpe given, but Optuna is not installed; .*remem\[search\]"):
        searched(search_config(npz, "tpe"), wide_task(2), near)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_in_a_folder_gives_a_policy_and_resumes(npz: Path, tmp_path: Path, search: str) -> None:
    """Stopped after the first round, it goes on to the same policy."""
    config = search_config(npz, search, epochs=3, runs=2, fidelity="features")
    whole, events = tmp_path / "whole", list[Event]()
    policy = learn_in_folder(config, whole, events.append)
    assert policy.name == f"path-{search}"
    assert isinstance(policy.core, FixedPath)
    updates = [event for event in events if isinstance(event, PolicyUpdated)]
    assert [update.path for update in updates][-1] == tuple(action.key() for action in policy.core.actions)
    assert policy.facts["rewards"] == pytest.approx([update.reward * 3 for update in updates])  # phases 0, 1, 2

    def stop(event: Event) -> None:
        if isinstance(event, PolicyUpdated):
            raise KeyboardInterrupt

    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        learn_in_folder(config, stopped, stop)
    assert not (stopped / "policy.json").exists()
    learn_in_folder(config, stopped, ignore)
    assert (stopped / "policy.json").read_bytes() == (whole / "policy.json").read_bytes()
    found, expected = ({repr((x["task"], x["path"])): x["reward"] for x in reward_lines(f)} for f in (stopped, whole))
    assert found == expected


def test_a_path_goes_on_with_its_last_action() -> None:
    task = wide_task(4)
    path = FixedPath(make_path((3, 6), (4, 7)))
    assert [path.act(observe(task, phase, 3)) for phase in (1, 2, 3, 4)] == [
        Action(3, 6),
        Action(4, 7),
        Action(4, 7),
        Action(4, 7),
    ]


def test_a_path_is_saved_and_loaded(npz: Path, tmp_path: Path) -> None:
    policy = learn_in_folder(search_config(npz, "random", epochs=1), tmp_path / "learned", ignore)
    assert isinstance(policy.core, FixedPath)
    save_policy(tmp_path / "copy", policy.core, policy.provenance())
    again = load_policy(tmp_path / "copy")
    assert (again.core, again.facts, again.digest) == (policy.core, policy.facts, policy.digest)
    assert again.act(observe(make_task(), 1)) == policy.core.actions[0]
    with pytest.raises(InputError, match="has no probabilities"):
        again.sampling(0)
    facts = tmp_path / "copy" / "policy.json"
    write_json(facts, {**json.loads(facts.read_text()), "path": [[12, 5]]})
    with pytest.raises(DamagedFileError, match=r"policy.json: 'path.0.0'"):
        load_policy(tmp_path / "copy")
