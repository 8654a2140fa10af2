"""env.py: spaces, masks and rewards of the environment, its registration, and the checkers of other libraries."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_stable_baselines3

from factories import blobs, ready
from remem.data.arrays import from_arrays
from remem.data.source import Dataset
from remem.errors import InputError
from remem.policies.agent import AgentPolicy
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.env import PseudoCIL, make_pseudo_cil
from remem.rl.paths import ActionPath, Node, Task, TaskKey, follow_path
from remem.rl.prefix_tree import RewardCache, one_by_one
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import MemorySnapshotCache
from rl_factories import make_path

# Two classes in each of three phases, 20 samples each, M = 40: nine shares are feasible in phase 1.
PAIRS = ready(blobs())
# One class after another behind three in phase 0: nothing is split from phase 2 on.
SINGLES = ready(blobs(), {"scenario": {"phases": 3, "base_classes": 3}})
# 19 classes come to 1 and M = 20: 0.1 is two samples for one old class, so that one of the new ones would have none.
CROWD = ready(blobs(20), {"scenario": {"phases": 1, "base_classes": 1}, "memory": {"budget": 20}})


def uneven() -> Dataset:
    """Six classes of 20, 20, 60, 60, 5 and 5 vectors."""
    labels = np.repeat(np.arange(6), (20, 20, 60, 60, 5, 5))
    values = np.arange(len(labels), dtype=np.float32)[:, None]
    return from_arrays(values, labels, values, labels, name="uneven")


# Under M = 40 all shares are feasible in phase 1, and 0.7 to 0.9 in phase 2, which brings 10 samples.
JUMP = ready(uneven())

TINY = {"train": {"epochs": 1, "batch_size": 64}, "finetune": {"epochs": 0}, "net": {"width": 4, "blocks": [1]}}


class FakeTraining:
    """Rewards by arithmetic on the last action. Keeps the nodes that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Node] = []

    def __call__(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        for key, path in nodes:
            self.asked.append((key, path))
            yield (key, path), fake_reward(key, path)


def fake_reward(key: TaskKey, path: ActionPath) -> float:
    return 0.5 + key.number / 100 + sum(a.old_tenths / 100 + a.level2_tenths / 1000 for a in path[-1:])


def environment(prepared: Any = PAIRS, pool: int = 1, training: Any = None, **more: Any) -> PseudoCIL:
    def task(number: int) -> Task:
        return Task(TaskKey(number, "full"), prepared.scenario, prepared.budget)

    return PseudoCIL(task, training or FakeTraining(), pool, **more)


def act(env: PseudoCIL, *action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    return env.step(np.array(action))


def test_an_episode_by_hand() -> None:
    env = environment()
    first, info = env.reset()
    assert first.tolist() == [1.0, 0.0]  # 2 new to 2 old classes, no share yet
    assert info["action_mask"].tolist() == [True] * 18
    counts = {"phase": 1, "new_classes": 2, "old_classes": 2, "old_tenths": 0, "budget": 40, "exemplars": 20}
    assert info.items() >= {**counts, "arriving": 40, "task": 0, "reward_phase0": 0.5}.items()

    second, reward, terminated, truncated, info = act(env, 5, 2)
    assert second.tolist() == pytest.approx([2 / 4, 0.6])
    assert reward == pytest.approx(0.5 + 0.06 + 0.003)
    assert (terminated, truncated, info["clamped"], info["carried_out"].tolist()) == (False, False, False, [6, 3])
    assert np.flatnonzero(info["action_mask"]).tolist() == [4, 5, 6, *range(9, 18)]  # 0.5, 0.6, 0.7; every split
    assert (info["phase"], info["new_classes"], info["old_classes"]) == (2, 2, 4)

    last, reward, terminated, truncated, info = act(env, 8, 4)  # 0.9 cannot be reached from 0.6
    assert last.tolist() == pytest.approx([0.0, 0.7])  # nothing arrives any more
    assert reward == pytest.approx(0.5 + 0.07 + 0.005)
    assert (terminated, truncated, info["clamped"], info["carried_out"].tolist()) == (True, False, True, [7, 5])
    assert (info["phase"], info["new_classes"], info["arriving"]) == (3, 0, 0)
    assert (info["old_classes"], info["old_tenths"]) == (6, 7)
    assert info["action_mask"].reshape(2, 9).sum(1).tolist() == [1, 1]


def test_where_nothing_is_split_one_choice_remains() -> None:
    env = environment(SINGLES)
    _, info = env.reset()
    assert info["action_mask"][9:].all()  # three classes of phase 0
    *_, info = act(env, 4, 8)
    assert info["carried_out"].tolist() == [5, 9]
    assert np.flatnonzero(info["action_mask"][9:]).tolist() == [4]
    *_, info = act(env, 4, 8)
    assert (info["carried_out"].tolist(), info["clamped"]) == ([5, 5], False)


def test_where_nothing_is_feasible_the_nearest_is_held() -> None:
    env = environment(CROWD)
    first, info = env.reset()
    assert first.tolist() == [19.0, 0.0]
    assert env.observation_space.contains(first)
    assert info["action_mask"].reshape(2, 9).sum(1).tolist() == [1, 1]  # and one class is not split
    *_, info = act(env, 8, 8)
    assert (info["carried_out"].tolist(), info["clamped"]) == ([1, 5], True)


def test_where_no_feasible_share_can_be_reached_the_nearest_one_is_trained() -> None:
    training = FakeTraining()
    env = environment(JUMP, training=training)
    env.reset()
    *_, info = act(env, 0, 4)
    assert info["carried_out"].tolist() == [1, 5]
    assert np.flatnonzero(info["action_mask"][:9]).tolist() == [0]  # only the old share, 0.1
    *_, info = act(env, 8, 4)
    assert (info["carried_out"].tolist(), info["clamped"]) == ([7, 5], True)
    assert training.asked[-1][1] == make_path((1, 5), (7, 5))  # the same node as for any other wish


@pytest.mark.parametrize("prepared", [PAIRS, SINGLES], ids=["pairs", "singles"])
def test_masks_allow_exactly_the_shares_that_are_not_clamped(prepared: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        path: list[tuple[int, int]] = []
        for _ in range(len(prepared.scenario.phases) - 1):
            unclamped = []
            for share in range(9):
                env = environment(prepared)
                _, info = env.reset()
                for earlier in path:
                    *_, info = act(env, *earlier)
                mask = info["action_mask"]
                *_, info = act(env, share, 4)
                unclamped.append(not info["clamped"])
            assert mask[:9].tolist() == unclamped
            path.append((int(rng.integers(9)), int(rng.integers(9))))


@pytest.mark.parametrize("prepared", [PAIRS, SINGLES, CROWD, JUMP], ids=["pairs", "singles", "crowd", "jump"])
def test_an_agent_in_a_run_does_what_it_did_here(prepared: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        wishes = rng.integers(9, size=(4, 2))
        training = FakeTraining()
        env = environment(prepared, training=training)
        observation, _ = env.reset()
        seen, done = [], False
        while not done:
            seen.append(observation.tolist())
            observation, _, done, _, _ = env.step(wishes[len(seen) - 1])
        shown: list[Any] = []

        def predict(observation: Any, wishes: Any = wishes, shown: Any = shown) -> Any:
            shown.append(observation.tolist())
            return wishes[len(shown) - 1]

        task = Task(TaskKey(0, "full"), prepared.scenario, prepared.budget)
        assert follow_path(task, AgentPolicy(predict).act) == training.asked[-1][1]
        assert shown == seen


def test_equal_prefixes_are_asked_for_once() -> None:
    training = FakeTraining()
    env = environment(training=training)
    for share in (5, 5, 7):
        env.reset()
        act(env, 5, 4)
        act(env, share, 4)  # 0.8 is out of reach and becomes 0.7
    key = TaskKey(0, "full")
    paths = (), make_path((6, 5)), make_path((6, 5), (6, 5)), make_path((6, 5), (7, 5))
    assert training.asked == [(key, path) for path in paths]


def test_tasks_are_drawn_by_the_seed_or_named() -> None:
    env, other = environment(pool=3), environment(pool=3)

    def numbers(env: PseudoCIL, seed: int) -> list[int]:
        return [env.reset(seed=seed)[1]["task"], *(env.reset()[1]["task"] for _ in range(9))]

    assert numbers(env, 0) == numbers(other, 0) == numbers(env, 0)
    assert len({tuple(numbers(env, seed)) for seed in range(4)}) == 4
    assert set(numbers(env, 0)) == {0, 1, 2}
    assert [env.reset(options={"task": k})[1]["reward_phase0"] for k in (2, 0)] == pytest.approx([0.52, 0.5])
    with pytest.raises(InputError, match="options: task 3 given; expected a whole number from 0 to 2"):
        env.reset(options={"task": 3})


def test_masks_by_the_name_that_maskable_agents_use() -> None:
    env = environment()
    with pytest.raises(ResetNeeded):
        env.action_masks()
    env.reset()
    assert env.action_masks().tolist() == [True] * 18
    *_, info = act(env, 5, 2)
    assert env.action_masks().tolist() == info["action_mask"].tolist()


def test_rendering_as_text() -> None:
    env = environment(render_mode="ansi")
    env.reset()
    act(env, 5, 2)
    assert env.render() == (
        "task 0, phase 0: accuracy 0.5000\ntask 0, phase 1: old share 0.6, harder half 0.3, accuracy 0.5630"
    )
    assert environment().render() is None


def test_mistakes_of_an_agent() -> None:
    env = environment()
    with pytest.raises(ResetNeeded):
        act(env, 0, 0)
    env.reset()
    for action in (np.array([9, 0]), np.array([-1, 0]), np.array([1.5, 0]), np.array([1]), 3):
        wrong: Any = action
        with pytest.raises(InputError, match=r"action: .* given; expected two whole numbers from 0 to 8"):
            env.step(wrong)
    act(env, 0, 0)
    act(env, 0, 0)
    with pytest.raises(ResetNeeded):
        act(env, 0, 0)
    with pytest.raises(InputError, match="pool: 0 tasks given"):
        environment(pool=0)
    with pytest.raises(InputError, match="render_mode: 'human' given"):
        environment(render_mode="human")


def make_tasks(fidelity: str) -> PseudoTasks:
    config = compose_learning(
        {"data": {"name": "digits"}, "scenario": {"phases": 3, "base_classes": 6}, "memory": {"budget": 250}},
        {**TINY, "learn": {"fidelity": fidelity}},
    )
    return PseudoTasks(config, MemorySnapshotCache(10**9))


@pytest.mark.parametrize("fidelity", ["full", "features"])
def test_rewards_are_those_of_policy_learning(fidelity: Any) -> None:
    """Compared with other tasks, asked for the whole path at once, and with gradients."""
    env = make_pseudo_cil(fidelity=fidelity, settings=TINY)
    state = torch.get_rng_state()
    with torch.inference_mode():
        _, info = env.reset(options={"task": 1})
        rewards = [info["reward_phase0"], *(act(env, *wish)[1] for wish in ((5, 7), (6, 0), (6, 0)))]
    assert torch.equal(torch.get_rng_state(), state)  # an agent's own draws are not touched
    key = TaskKey(1, fidelity)
    path = make_path((6, 8), (7, 5), (7, 5))
    [expected] = RewardCache(one_by_one(make_tasks(fidelity).train)).of([(key, path)])
    assert rewards == list(expected)


def test_no_phase_is_trained_twice() -> None:
    tasks = make_tasks("full")
    env = PseudoCIL(lambda number: tasks.path_task(TaskKey(number, "full")), one_by_one(tasks.train), 2)
    for seed in range(4):
        env.reset(seed=seed)
    assert tasks.trained == 2  # phase 0 of both tasks
    for share, trained in ((5, 5), (5, 5), (6, 8)):
        env.reset(options={"task": 1})
        for _ in range(3):
            act(env, share, 4)
        assert tasks.trained == trained


def test_the_defaults_are_those_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/guides/environment.md: six digits in phase 0, M = 250, five epochs, three phases, four tasks."""
    configs = list[LearnConfig]()

    class ReadError(Exception):
        """Enough is known."""

    def read(config: LearnConfig, cache: object) -> None:
        configs.append(config)
        raise ReadError

    monkeypatch.setattr("remem.rl.env.PseudoTasks", read)
    with pytest.raises(ReadError):
        make_pseudo_cil()
    target, learn = configs[0].target, configs[0].learn
    assert (target.data.name, target.method.name, target.seed) == ("digits", "icarl", 0)
    assert (target.scenario.phases, target.scenario.base_classes, target.memory.budget) == (3, 6, 250)
    assert (target.train.epochs, learn.fidelity, learn.pool) == (5, "full", 4)


def test_the_source_of_the_tasks_is_reported() -> None:
    env = make_pseudo_cil(settings={**TINY, "learn.phases": [1, 2]})
    assert env.source is not None
    assert env.source["kind"] == "phase0"
    assert (env.source["data"], env.source["phases"], env.source["budget"]) == ("digits", [1, 2], 250)
    assert len(env.source["classes"]) == 6
    assert env.reset(options={"task": 0})[1].items() >= {"new_classes": 3, "old_classes": 3}.items()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": {"learn.epochs": 3}}, r"^settings: learn\.epochs given; expected one of learn\.source, "),
        ({"settings": {"train": {"epoch": 3}}}, r"^train\.epoch: no such setting"),
        ({"fidelity": "fast"}, r"^learn\.fidelity: 'fast' given"),
        ({"pool": 0}, "^pool: 0 tasks given"),
        ({"method": "joint"}, "^method: joint given"),
        ({"budget": 5}, "^budget: 5 samples are less than one for each"),
        ({"phases": 0}, "^phases: 0 given; expected at least 1"),
    ],
)
def test_wrong_settings_are_refused_before_any_training(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_pseudo_cil(**arguments)


def test_registered_whichever_is_imported_first_and_without_torch() -> None:
    """Warnings are errors: nothing is registered twice."""
    found = "assert gymnasium.spec('remem/PseudoCIL-v0').entry_point == 'remem.rl.env:make_pseudo_cil'"
    programs = [
        f"import sys, remem; assert 'torch' not in sys.modules; import gymnasium; {found}",
        f"import gymnasium, remem; {found}",
        "import importlib, remem; importlib.reload(remem); import gymnasium; importlib.reload(remem); "
        f"importlib.reload(gymnasium); {found}",
    ]
    for program in programs:
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_the_checker_of_gymnasium() -> None:
    """As a user makes it, with all defaults."""
    env = gymnasium.make("remem/PseudoCIL-v0").unwrapped
    assert isinstance(env, PseudoCIL)
    check_env(env)


def test_the_checker_of_stable_baselines3() -> None:
    check_env_of_stable_baselines3(gymnasium.make("remem/PseudoCIL-v0", settings=TINY))


def test_the_example_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "environment.md").read_text(encoding="utf-8")
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0].partition(", ")[2] for line in lines] == [f"phase {index}" for index in range(4)]


def test_episodes_have_three_phases_and_repeat() -> None:
    episodes = []
    for _ in range(2):
        env = gymnasium.make("remem/PseudoCIL-v0", settings=TINY)
        observation, info = env.reset(seed=7)
        steps: list[Any] = [(observation.tolist(), info["task"], info["reward_phase0"])]
        for wish in [(6, 4), (6, 4), (7, 4)]:
            observation, reward, terminated, _, info = env.step(np.array(wish))
            steps.append((observation.tolist(), float(reward), terminated))
        episodes.append(steps)
    assert episodes[0] == episodes[1]
    assert [step[2] for step in episodes[0][1:]] == [False, False, True]
