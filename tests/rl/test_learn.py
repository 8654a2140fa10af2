"""A policy learned in a folder: equal with and without sharing, alone or in processes, stopped or not; no test set."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from remem.data.datasets import load_dataset
from remem.data.source import Dataset
from remem.data.settings import DataSettings
from remem.episode import Episode
from remem.errors import DamagedFileError, InputError, SealedError
from remem.policies.learned import Learned
from remem.policies.table import resolve_policy
from remem.rl.paths import Task
from remem.rl.trainer import read_log
from remem.parallel.pool import open_pool
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.learn import learn_in_folder, read_learning
from remem.rl.pseudo_tasks import PseudoTasks
from factories import VECTORS, blobs, same_tensors, write_npz

Event = dict[str, Any]
LEARN = {"epochs": 2, "tasks": 2, "runs": 3, "pool": 2, "lr_eta": 0.3, "lr_phi": 0.3, "fidelity": "full"}
RUNS = 2 * 2 * 3
NODES = 3  # of one run: phases 0, 1, 2


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight classes that overlap, so that rewards differ; six of them come in phase 0."""
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs(classes=8, per_class=12, spread=2.0))
    return path


def config(npz: Path, layer: dict[str, Any] | None = None, **learn: Any) -> LearnConfig:
    """Tasks of 3 + 2 + 1 classes."""
    quick = {
        "scenario": {"phases": 2, "base_classes": 6, "order": "natural"},
        "train": {"epochs": 1, "batch_size": 16},
        "finetune": {"epochs": 0},
        "net": {"hidden": [8]},
    }
    return compose_learning(
        VECTORS, quick, {"data": {"name": f"npz:{npz}"}}, layer or {}, {"learn": {**LEARN, **learn}}
    )


def silent(event: Event) -> None:
    """Nobody reads it."""


def lines_of(out: Path) -> list[Event]:
    return [json.loads(line) for line in (out / "rewards.jsonl").read_text().splitlines()]


def said_of(out: Path) -> list[Event]:
    """The log without what hangs on the session."""
    return [{key: value for key, value in e.items() if key not in ("left", "trained")} for e in read_log(out)]


def assert_same(out: Path, whole: Path) -> None:
    """The same policy to the last bit, the same rewards node by node, the same log; nothing else is left over."""
    assert (out / "policy.json").read_bytes() == (whole / "policy.json").read_bytes()
    assert (out / "policy.safetensors").read_bytes() == (whole / "policy.safetensors").read_bytes()
    known, expected = ({repr((e["task"], e["path"])): e["reward"] for e in lines_of(folder)} for folder in (out, whole))
    assert known == expected
    assert said_of(out) == said_of(whole)
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in whole.iterdir())


@pytest.fixture(scope="module")
def whole(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """Learned in this process, never stopped; and its events."""
    out, events = tmp_path_factory.mktemp("whole") / "deep" / "out", list[Event]()
    learn_in_folder(config(npz), out, events.append)
    return out, events


def test_the_folder_is_a_policy_that_learned(whole: tuple[Path, list[Event]], npz: Path) -> None:
    out, events = whole
    policy = resolve_policy(str(out), seed=0)
    assert isinstance(policy, Learned)
    assert (policy.name, policy.oracle) == ("rmm", False)
    facts = policy.facts
    assert facts["source"] == {
        "kind": "phase0",
        "data": "npz:blobs.npz",
        "classes": ["0", "1", "2", "3", "4", "5"],
        "order": "natural",
        "phases": [2],
        "budget": 40,
    }
    assert str(npz.parent) not in (out / "policy.json").read_text()
    assert len(facts["rewards"]) == 2
    assert all(value.abs().max() > 0 for value in load_file(out / "policy.safetensors").values())  # heads began at 0
    assert sorted(path.name for path in out.iterdir()) == [
        "checkpoint.safetensors",
        "learning.json",
        "log.jsonl",
        "policy.json",
        "policy.safetensors",
        "rewards.jsonl",
    ]
    begin, *others = events
    assert begin["tasks"] == [{"sizes": [3, 2, 1], "kind": "fixed", "budget": 28, "exemplars": 14}]  # 40, 20 x 66 / 96
    assert [event["event"] for event in others].count("epoch") == 2
    assert others[-1]["left"] == 0
    assert 0 < others[-1]["reward"] <= others[-1]["best"] <= 1


def test_no_prefix_is_trained_twice(whole: tuple[Path, list[Event]]) -> None:
    out, events = whole
    lines = lines_of(out)
    assert len({repr((e["task"], e["path"])) for e in lines}) == len(lines) == events[-1]["trained"]
    assert Counter(e["task"]["number"] for e in lines if not e["path"]) == {0: 1, 1: 1}  # phase 0 once per task
    assert len(lines) < RUNS * NODES


def test_with_and_without_shared_prefixes_rewards_and_weights_are_equal(
    whole: tuple[Path, list[Event]], npz: Path, tmp_path: Path
) -> None:
    events = list[Event]()
    learn_in_folder(config(npz, share=False), tmp_path / "alone", events.append)
    assert events[-1]["trained"] == len(lines_of(tmp_path / "alone")) == RUNS * NODES
    assert said_of(tmp_path / "alone") == said_of(whole[0])
    weights = [load_file(folder / "policy.safetensors") for folder in (tmp_path / "alone", whole[0])]
    assert same_tensors(*weights)
    alone, shared = (
        {(e["task"]["number"], repr(e["path"])): e["reward"] for e in lines_of(f)}
        for f in (tmp_path / "alone", whole[0])
    )
    assert alone == shared


def test_a_shelf_without_room_changes_nothing_but_the_work(
    whole: tuple[Path, list[Event]], npz: Path, tmp_path: Path
) -> None:
    events = list[Event]()
    learn_in_folder(config(npz, disk_gigabytes=0), tmp_path / "out", events.append)
    assert said_of(tmp_path / "out") == said_of(whole[0])
    assert events[-1]["trained"] > whole[1][-1]["trained"]


def test_two_processes_one_of_which_is_killed_give_the_same(
    whole: tuple[Path, list[Event]], npz: Path, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill_one(event: Event) -> None:
        """After the first reward: the process that was started last, busy with another task."""
        if event["event"] == "node" and not killed:
            killed.append(list(crew._desks.values())[-1].pid)
            os.kill(killed[0], signal.SIGKILL)

    torch.set_num_threads(2)  # as a new process has; no episode is opened here that would set it
    with open_pool(2, None) as crew:
        learn_in_folder(config(npz), tmp_path / "out", kill_one, crew)
    assert killed
    assert torch.get_num_threads() == 1  # the setting, on which the last bit of a policy's weights hangs
    assert_same(tmp_path / "out", whole[0])


KILLED = """
import json, os, signal, sys
from pathlib import Path
from remem.rl.config import LearnConfig
from remem.rl.learn import learn_in_folder
config = LearnConfig.model_validate(json.loads(sys.argv[1]))
count = 0
def die(event):
    global count
    count += event["event"] == "node"
    if count == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
learn_in_folder(config, Path(sys.argv[2]), die)
"""


def test_a_killed_learning_goes_on_and_equals_one_that_was_never_stopped(
    whole: tuple[Path, list[Event]], npz: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    nodes = len(lines_of(whole[0]))
    tree = json.dumps(config(npz).model_dump(mode="json"))
    ended = subprocess.run([sys.executable, "-c", KILLED, tree, str(out), str(nodes - 2)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(lines_of(out)) == nodes - 2
    assert not (out / "policy.json").exists()
    events = list[Event]()
    learn_in_folder(read_learning(out)[0], out, events.append)
    assert events[0]["done"] == 1
    assert events[-1]["trained"] == 2  # only what was missing
    assert_same(out, whole[0])


@pytest.mark.parametrize("stop", ["epoch", "node"])
def test_stopped_again_and_again_it_still_becomes_the_same(
    stop: str, whole: tuple[Path, list[Event]], npz: Path, tmp_path: Path
) -> None:
    """Ctrl-C at every fourth node, or after every epoch; and a line of the ledger that was cut off."""
    out, stops, count = tmp_path / "out", 0, 0

    def interrupt(event: Event) -> None:
        nonlocal count
        count += event["event"] == stop
        if count == (4 if stop == "node" else 1):
            raise KeyboardInterrupt

    while not (out / "policy.json").exists():
        count = 0
        try:
            learn_in_folder(config(npz), out, interrupt)
        except KeyboardInterrupt:
            stops += 1
            with open(out / "rewards.jsonl", "a") as file:
                file.write('{"task": {"number"')
    assert stops >= 2
    assert_same(out, whole[0])


def test_a_complete_learning_is_only_read(whole: tuple[Path, list[Event]], npz: Path) -> None:
    out, events = whole[0], list[Event]()
    stamp = (out / "policy.json").stat().st_mtime_ns
    assert learn_in_folder(config(npz), out, events.append).name == "rmm"
    assert events == []
    assert (out / "policy.json").stat().st_mtime_ns == stamp


def test_changed_settings_and_changed_data_are_refused(npz: Path, tmp_path: Path) -> None:
    def cut_off(event: Event) -> None:
        raise KeyboardInterrupt

    data, out = tmp_path / "blobs.npz", tmp_path / "out"
    data.write_bytes(npz.read_bytes())
    with pytest.raises(KeyboardInterrupt):
        learn_in_folder(config(data), out, cut_off)
    for changed, message in (
        (config(data, runs=4), "learn.runs is 4, but this run began with 3"),
        (config(data, {"seed": 5}), "target.seed is 5, but this run began with 3"),
    ):
        with pytest.raises(InputError, match=message):
            learn_in_folder(changed, out, silent)
    write_npz(data, blobs(classes=8, per_class=12, spread=2.0, seed=1))
    with pytest.raises(InputError, match="the data have changed since this learning began"):
        learn_in_folder(config(data), out, silent)


def test_fresh_runs_share_nothing(whole: tuple[Path, list[Event]], npz: Path, tmp_path: Path) -> None:
    learn_in_folder(config(npz, fresh_init=True, epochs=1), tmp_path / "out", silent)
    lines = lines_of(tmp_path / "out")
    assert len(lines) == 2 * 3 * NODES
    first = {
        number: [e["reward"] for e in lines if not e["path"] and e["task"]["number"] == number] for number in (0, 1)
    }
    assert [len(rewards) for rewards in first.values()] == [3, 3]
    assert any(len(set(rewards)) > 1 for rewards in first.values())  # another initialisation is another phase 0
    again = tmp_path / "again"
    learn_in_folder(config(npz, fresh_init=True, epochs=1), again, silent)
    assert_same(again, tmp_path / "out")


@pytest.mark.parametrize("baseline", ["average", "leave-one-out"])
def test_several_numbers_of_phases_at_once(baseline: str, npz: Path, tmp_path: Path) -> None:
    out, events = tmp_path / "out", list[Event]()
    policy = learn_in_folder(config(npz, phases=[1, 3], baseline=baseline), out, events.append)
    assert policy.facts["source"]["phases"] == [1, 3]
    assert [task["sizes"] for task in events[0]["tasks"]] == [[3, 3], [3, 1, 1, 1]]
    deepest = {n: max(len(e["path"]) for e in lines_of(out) if e["task"]["number"] == n) for n in (0, 1)}
    assert deepest == {0: 1, 1: 3}
    assert all(0 < event["reward"] < 1 for event in read_log(out))


def test_cheap_epochs_can_be_followed_by_full_ones(npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    learn_in_folder(config(npz, fidelity="features", epochs=1, finish_epochs=1), out, silent)
    assert [event["fidelity"] for event in read_log(out)] == ["features", "full"]
    assert {e["task"]["fidelity"] for e in lines_of(out)} == {"features", "full"}


@pytest.mark.parametrize(
    ("learn", "name", "oracle"),
    [
        ({"levels": 1}, "rmm-one-level", False),
        ({"source": "target"}, "rmm-upper-bound", True),
        ({"source": "dataset:npz:{}"}, "rmm-transferred", False),
        ({"source": "target", "levels": 1}, "rmm-one-level-upper-bound", True),
    ],
)
def test_a_policy_is_called_what_it_is(
    learn: dict[str, Any], name: str, oracle: bool, npz: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.npz"
    write_npz(other, blobs(classes=6, per_class=10, spread=2.0))
    given: dict[str, Any] = {k: v.format(other) if isinstance(v, str) else v for k, v in learn.items()}
    out = tmp_path / "out"
    policy = learn_in_folder(config(npz, None, **given, epochs=1, tasks=1, runs=1), out, silent)
    assert (policy.name, policy.oracle) == (name, oracle)
    source = policy.facts["source"]
    transferred = name == "rmm-transferred"
    assert source["data"] == ("npz:other.npz" if transferred else "npz:blobs.npz")
    assert len(source["classes"]) == (8 if oracle else 6)
    assert str(tmp_path) not in (out / "policy.json").read_text()
    if "levels" in learn:
        assert all(split == 5 for e in lines_of(out) for _, split in e["path"])


@pytest.mark.parametrize(("source", "oracle"), [("phase0", False), ("target", True)])
def test_all_fixed_shares_are_compared_and_the_best_one_stays(
    source: str, oracle: bool, npz: Path, tmp_path: Path
) -> None:
    out, given = tmp_path / "out", config(npz, crossval_fixed=True, source=source)

    def interrupt(event: Event) -> None:
        if event["event"] == "node" and len(lines_of(out)) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_in_folder(given, out, interrupt)
    events = list[Event]()
    policy = learn_in_folder(given, out, events.append)
    lines = lines_of(out)
    assert events[-1]["trained"] == len(lines) - 5
    assert (policy.name, policy.oracle, policy.facts["kind"]) == ("crossval-fixed", oracle, "fixed")
    rewards = {(e["task"]["number"], tuple(map(tuple, e["path"]))): e["reward"] for e in lines}
    shares = {round(10 * share["old_share"]): share for share in policy.facts["shares"]}
    # Phase 0 of the target: M = 28, and 22 arriving samples fit beside 0.2 of it; the target itself: M = 37 and 11.
    assert list(shares) == ([7, 8, 9] if oracle else [2, 3, 4, 5, 6, 7, 8, 9])
    for tenths in (7, 8, 9):  # feasible in every phase; lower ones become the nearest that is
        path = ((tenths, 5), (tenths, 5))
        totals = [sum(rewards[number, path[:depth]] for depth in range(3)) for number in (0, 1)]
        assert shares[tenths]["reward"] == pytest.approx(sum(totals) / 2, abs=1e-12)
        assert shares[tenths]["accuracy"] == pytest.approx(sum(totals) / 6, abs=1e-12)
    assert shares[policy.facts["old_tenths"]]["reward"] == max(share["reward"] for share in shares.values())
    assert policy.facts["rewards"] == [shares[policy.facts["old_tenths"]]["reward"]]


def test_reading_the_test_set_while_a_policy_learns_raises(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_episode: Callable[[PseudoTasks, Task], Episode] = PseudoTasks.open

    def peek(self: PseudoTasks, task: Task) -> Episode:
        assert len(self.dataset.test.labels)
        return open_episode(self, task)

    monkeypatch.setattr(PseudoTasks, "open", peek)
    with pytest.raises(SealedError, match=r"blobs.npz: the test set was asked for while a policy learns"):
        learn_in_folder(config(npz), tmp_path / "out", silent)
    assert not (tmp_path / "out" / "policy.json").exists()


class Poison:
    """A test split that cannot even be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the test split was asked for {name}")


@pytest.mark.parametrize("learn", [{}, {"fidelity": "features"}, {"source": "target"}, {"crossval_fixed": True}])
def test_a_poisoned_test_set_is_never_touched(
    learn: dict[str, Any], npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(settings: DataSettings) -> Dataset:
        return replace(load_dataset(settings), test=Poison())

    monkeypatch.setattr("remem.rl.pseudo_tasks.load_dataset", poisoned)
    assert learn_in_folder(config(npz, **learn, epochs=1, tasks=1, runs=2), tmp_path / "out", silent).facts["rewards"]


def test_the_test_set_has_no_part_in_what_is_learned(
    whole: tuple[Path, list[Event]], npz: Path, tmp_path: Path
) -> None:
    """Another test set, the same policy; its name in the file is the only trace of the data's place."""
    same = blobs(classes=8, per_class=12, spread=2.0)
    write_npz(tmp_path / "blobs.npz", replace(same, test=blobs(classes=8, per_class=12, seed=9).test))
    learn_in_folder(config(tmp_path / "blobs.npz"), tmp_path / "out", silent)
    assert_same(tmp_path / "out", whole[0])


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("rewards.jsonl", lambda text: "{}\n" + text, r"rewards.jsonl: line 1 is not a reward"),
        ("checkpoint.safetensors", lambda text: text[:-9], r"checkpoint.safetensors: "),
        ("learning.json", lambda text: text[:-9], r"learning.json: not the settings of a policy's learning"),
        ("learning.json", lambda text: "[]", r"learning.json: not the settings of a policy's learning"),
        ("learning.json", lambda text: text.replace('"format": 1', '"format": 9'), r"format 9, expected 1"),
        ("learning.json", lambda text: text.replace('"runs": 3', '"runs": "x"'), r"learn.runs: 'x' given"),
    ],
)
def test_damage_is_one_line(
    name: str, damage: Callable[[str], str], message: str, whole: tuple[Path, list[Event]], npz: Path, tmp_path: Path
) -> None:
    for file in ("learning.json", "checkpoint.safetensors", "rewards.jsonl", "log.jsonl"):
        (tmp_path / file).write_bytes((whole[0] / file).read_bytes())
    text = (tmp_path / name).read_bytes().decode("latin-1")
    (tmp_path / name).write_bytes(damage(text).encode("latin-1"))
    with pytest.raises(DamagedFileError, match=message) as caught:
        learn_in_folder(config(npz), tmp_path, silent)
    assert "\n" not in str(caught.value)


def test_what_lies_in_the_folder_already_is_left_alone(npz: Path, tmp_path: Path) -> None:
    for name in ("policy.json", "config.json", "rewards.jsonl"):
        out = tmp_path / name.partition(".")[0]
        out.mkdir()
        (out / name).write_text("mine")
        with pytest.raises(InputError, match=f"holds a {name} of something else; expected a new folder"):
            learn_in_folder(config(npz), out, silent)
        assert [path.name for path in out.iterdir()] == [name]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file; expected a folder"):
        learn_in_folder(config(npz), tmp_path / "file", silent)
    with pytest.raises(InputError, match="less than one for each"):
        learn_in_folder(config(npz, {"memory": {"budget": 2, "exemplars": 1}}), tmp_path / "wrong", silent)
    assert not (tmp_path / "wrong").exists()


def test_a_missing_folder_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(
        DamagedFileError, match=r"learning.json: no such file; expected the folder of a policy's learning"
    ):
        read_learning(tmp_path)
