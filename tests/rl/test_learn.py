"""learn.py: what a learning leaves in its folder, what it reports, and its log recomputed from rewards alone."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from factories import same_tensors
from plain_policy import plain_entropy, plain_log_prob
from remem.events import Event, ignore
from remem.policies.learned import Learned
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.policies.table import resolve_policy
from remem.rl import jobs
from remem.rl.env import make_pseudo_cil
from remem.rl.events import LearningStarted, NodesTrained, PolicyUpdated, TaskSummary
from remem.rl.learn import TimeLeft, first_uses, identity, learn_in_folder
from remem.rl.paths import TaskKey, sample_path
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.reinforce import Reinforce, Run
from remem.rl.reward_log import RewardLog
from remem.rl.settings import LearnSettings
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.seeding import Streams
from remem.storage.event_log import read_log
from rl_factories import PHASES, RUNS, Learning, assert_same_learning, learn_config, log_entries, reward_lines


def test_the_folder_holds_a_policy_that_learned(learning: Learning, npz: Path) -> None:
    policy = resolve_policy(str(learning.out), seed=0)
    assert isinstance(policy, Learned)
    assert (policy.name, policy.oracle) == ("rmm", False)
    assert policy.facts["source"] == {
        "kind": "phase0",
        "data": "npz:blobs.npz",
        "classes": ["0", "1", "2", "3", "4", "5"],
        "order": "natural",
        "phases": [2],
        "budget": 40,
    }
    assert str(npz.parent) not in (learning.out / "policy.json").read_text()
    assert len(policy.facts["rewards"]) == 2
    weights = load_file(learning.out / "policy.safetensors")
    assert all(value.abs().max() > 0 for value in weights.values())  # output layers began at 0
    assert sorted(path.name for path in learning.out.iterdir()) == [
        "checkpoint.safetensors",
        "learning.json",
        "log.jsonl",
        "policy.json",
        "policy.safetensors",
        "rewards.jsonl",
    ]


def test_events_report_the_tasks_every_node_and_every_epoch(learning: Learning) -> None:
    started, *others = learning.events
    assert started == LearningStarted(
        name="rmm",
        oracle=False,
        source="phase0",
        data="npz:blobs.npz",
        classes=6,
        tasks=(TaskSummary((3, 2, 1), "fixed", 28, 14),),  # 40 and 20, times 66 / 96 training samples
        epochs=2,
        done=0,
    )
    updates = [event for event in others if isinstance(event, PolicyUpdated)]
    nodes = [event for event in others if isinstance(event, NodesTrained)]
    assert len(updates) + len(nodes) == len(others)
    assert [(update.epoch, update.epochs, update.fidelity) for update in updates] == [(1, 2, "full"), (2, 2, "full")]
    assert others[-1] == updates[-1]
    assert updates[-1].left == 0
    assert all(0 < update.reward <= update.best <= 1 for update in updates)
    assert [node.trained for node in nodes] == list(range(1, len(reward_lines(learning.out)) + 1))
    assert [node.share for node in nodes if node.epoch == 0][-1] == 1.0
    assert {node.epoch for node in nodes} <= {0, 1}


def test_the_log_has_the_updates_that_were_reported(learning: Learning) -> None:
    entries = read_log(learning.out / "log.jsonl")
    assert [Event.from_json(entry) for entry in entries] == [e for e in learning.events if isinstance(e, PolicyUpdated)]
    assert {"loss", "entropy", "grad_norm"} <= entries[0].keys()


def leave_one_out(runs: Sequence[Run]) -> list[float]:
    """R minus the mean R of the other two runs of the same task; runs of a task lie together."""
    totals = [sum(run.rewards) for run in runs]
    gains = []
    for place, total in enumerate(totals):
        start = place - place % 3
        others = [totals[other] for other in range(start, start + 3) if other != place]
        gains.append(total - sum(others) / 2)
    return gains


def exact_loss_and_grad_norm(policy: TwoLevelPolicy, runs: Sequence[Run]) -> tuple[float, float]:
    """The loss by plain arithmetic, and the norm of its gradient by central differences, in float64."""
    policy = _copy(policy).double()
    gains = leave_one_out(runs)

    def loss() -> float:
        logs = [sum(plain_log_prob(policy, choice) for choice in run.choices) for run in runs]
        return -sum(gain * log for gain, log in zip(gains, logs, strict=True)) / len(runs)

    squares, step = 0.0, 1e-5
    with torch.no_grad():
        for flat in (parameter.view(-1) for parameter in policy.parameters()):
            for place in range(len(flat)):
                flat[place] += step
                above = loss()
                flat[place] -= 2 * step
                squares += ((above - loss()) / (2 * step)) ** 2
                flat[place] += step
    return loss(), squares**0.5


def _copy(policy: TwoLevelPolicy) -> TwoLevelPolicy:
    copy = TwoLevelPolicy(policy.settings)
    copy.load_state_dict(policy.state_dict())
    return copy


def test_loss_entropy_and_gradient_norm_are_those_of_the_rewards_on_file(learning: Learning, npz: Path) -> None:
    """Paths are sampled again, rewards are looked up in `rewards.jsonl`, everything else is plain arithmetic."""
    config = learn_config(npz)
    tasks = PseudoTasks(config, MemorySnapshotCache(0))
    rewards, entries = (
        RewardLog(learning.out, identity(config, tasks.dataset.train.fingerprint)).read(),
        read_log(learning.out / "log.jsonl"),
    )
    policy = TwoLevelPolicy(PolicySettings(hidden=config.learn.hidden), seed=config.target.seed)
    reinforce = Reinforce(policy, config.learn)
    for epoch, entry in enumerate(entries):
        runs = []
        for number in (0, 1):
            key = TaskKey(number, "full")
            for run in range(3):
                rng = Streams(config.target.seed, "policy").numpy(epoch, f"task {number} run {run}")
                path, choices = sample_path(tasks.path_task(key), policy, rng)
                runs.append(Run(str(number), choices, tuple(rewards[key, path[:depth]] for depth in range(PHASES))))
        loss, grad_norm = exact_loss_and_grad_norm(policy, runs)
        entropies = [plain_entropy(policy, choice) for run in runs for choice in run.choices]
        assert entry["loss"] == pytest.approx(loss, abs=1e-6)
        assert entry["grad_norm"] == pytest.approx(grad_norm, rel=1e-4)
        assert entry["entropy"] == pytest.approx(sum(entropies) / len(entropies), abs=1e-5)
        means = [sum(run.rewards) / PHASES for run in runs]
        assert (entry["reward"], entry["best"]) == pytest.approx((sum(means) / len(means), max(means)), abs=1e-12)
        reinforce.step(runs)
        path, _ = sample_path(tasks.path_task(TaskKey(0, "full")), policy, None)
        assert entry["path"] == [list(action.key()) for action in path]  # most probable after the update
    assert same_tensors(policy.state_dict(), load_file(learning.out / "policy.safetensors"))


def test_no_prefix_is_trained_twice(learning: Learning) -> None:
    lines, last = reward_lines(learning.out), learning.events[-1]
    assert isinstance(last, PolicyUpdated)
    assert len({repr((line["task"], line["path"])) for line in lines}) == len(lines) == last.trained
    assert Counter(line["task"]["number"] for line in lines if not line["path"]) == {0: 1, 1: 1}  # phase 0 of each task
    assert len(lines) < RUNS * PHASES


def test_fresh_runs_share_nothing_and_repeat(npz: Path, tmp_path: Path) -> None:
    learn_in_folder(learn_config(npz, fresh_init=True, epochs=1), tmp_path / "out", ignore)
    lines = reward_lines(tmp_path / "out")
    assert len(lines) == 2 * 3 * PHASES
    first: dict[int, list[float]] = {0: [], 1: []}
    for line in lines:
        if not line["path"]:
            first[line["task"]["number"]].append(line["reward"])
    assert [len(rewards) for rewards in first.values()] == [3, 3]
    assert any(len(set(rewards)) > 1 for rewards in first.values())  # another initialisation is another phase 0
    learn_in_folder(learn_config(npz, fresh_init=True, epochs=1), tmp_path / "again", ignore)
    assert_same_learning(tmp_path / "again", tmp_path / "out")


@pytest.mark.parametrize("baseline", ["average", "leave-one-out"])
def test_several_numbers_of_phases_at_once(baseline: str, npz: Path, tmp_path: Path) -> None:
    out, events = tmp_path / "out", list[Event]()
    policy = learn_in_folder(learn_config(npz, phases=[1, 3], baseline=baseline), out, events.append)
    assert policy.facts["source"]["phases"] == [1, 3]
    started = events[0]
    assert isinstance(started, LearningStarted)
    assert [task.sizes for task in started.tasks] == [(3, 3), (3, 1, 1, 1)]
    lines = reward_lines(out)
    deepest = {number: max(len(e["path"]) for e in lines if e["task"]["number"] == number) for number in (0, 1)}
    assert deepest == {0: 1, 1: 3}
    assert all(0 < entry["reward"] < 1 for entry in log_entries(out))


def test_cheap_epochs_can_be_followed_by_full_ones(npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    learn_in_folder(learn_config(npz, fidelity="features", epochs=1, finish_epochs=1), out, ignore)
    assert [entry["fidelity"] for entry in log_entries(out)] == ["features", "full"]
    assert {line["task"]["fidelity"] for line in reward_lines(out)} == {"features", "full"}


def test_the_time_left_is_extrapolated_from_the_latest_half_of_this_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumed after 2 of 10 epochs; the 3rd takes 20 s, the 4th 10 s."""
    now = [100.0]
    monkeypatch.setattr("remem.rl.learn.time.perf_counter", lambda: now[0])
    time_left = TimeLeft(epochs=10)
    time_left.begin(2)
    assert time_left.left(2) is None
    now[0] = 110.0
    assert time_left.left(2.5) == pytest.approx(150.0)  # 10 s for half an epoch, and 7.5 epochs to go
    now[0] = 120.0
    assert time_left.left(3) == pytest.approx(140.0)  # 20 s an epoch, 7 to go
    now[0] = 130.0
    assert time_left.left(4) == pytest.approx(60.0)  # 10 s for the latest one, 6 to go
    assert time_left.left(10) == 0


def test_slow_first_epochs_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of ten epochs take 500 s each; the 3rd and 4th take 10 s and 8 s, whatever the latest half is."""
    now = [0.0]
    monkeypatch.setattr("remem.rl.learn.time.perf_counter", lambda: now[0])
    time_left, found = TimeLeft(epochs=10, slow=2), []
    time_left.begin(0)
    for epoch, seconds in enumerate((500, 500, 10, 8), start=1):
        now[0] += seconds
        found.append(time_left.left(epoch))
    assert found == [None, None, 70.0, 54.0]  # 7 epochs of 10 s, 6 of 9 s


@pytest.mark.parametrize(
    ("changed", "slow"),
    [
        ({}, 2),  # 4 tasks, 2 in every epoch
        ({"pool": 5}, 3),
        ({"search": "tpe"}, 1),  # every round has all tasks
        ({"pool": 0}, 0),  # new tasks in every epoch
        ({"fidelity": "short"}, 0),  # a phase 0 takes no longer than other phases
        ({"crossval_fixed": True}, 0),
        ({"epochs": 1}, 0),
    ],
)
def test_epochs_that_train_phases_0(changed: dict[str, Any], slow: int) -> None:
    assert first_uses(LearnSettings(**changed)) == slow


def test_a_learning_that_takes_no_time_has_none_left(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stands still from the beginning."""
    monkeypatch.setattr("remem.rl.learn.time.perf_counter", lambda: 1000.0)
    events = list[Event]()
    learn_in_folder(learn_config(npz, epochs=2, tasks=1, runs=1), tmp_path / "out", events.append)
    left = [event.left for event in events if isinstance(event, NodesTrained | PolicyUpdated)]
    assert len(left) > 4
    assert set(left) == {0.0}


def test_room_for_snapshots_is_given_in_gigabytes(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, in a worker, and in the memory of an environment."""
    limits = list[int]()

    class FullError(Exception):
        """Enough is known."""

    def cache(*arguments: Any) -> None:
        limits.append(arguments[-1])
        raise FullError

    for name in ("learn.DiskSnapshotCache", "jobs.DiskSnapshotCache", "env.MemorySnapshotCache"):
        monkeypatch.setattr(f"remem.rl.{name}", cache)
    config = learn_config(npz, disk_gigabytes=0.5)
    with pytest.raises(FullError):
        learn_in_folder(config, tmp_path / "out", ignore)
    with pytest.raises(FullError):
        jobs._tasks(config.model_dump_json(), str(tmp_path), None)
    with pytest.raises(FullError):
        make_pseudo_cil(memory_gigabytes=0.25)
    with pytest.raises(FullError):
        make_pseudo_cil()
    assert limits == [500_000_000, 500_000_000, 250_000_000, 1_000_000_000]


def test_the_number_of_threads_is_the_one_of_the_settings(npz: Path, tmp_path: Path) -> None:
    """The last bit of a policy's weights depends on it, whoever trains the nodes."""
    before, seen = torch.get_num_threads(), list[int]()

    def note(event: Event) -> None:
        seen.append(torch.get_num_threads())

    torch.set_num_threads(2)
    try:
        given: dict[str, Any] = {"epochs": 1, "tasks": 1, "runs": 1}
        learn_in_folder(learn_config(npz, **given), tmp_path / "out", note)
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}
