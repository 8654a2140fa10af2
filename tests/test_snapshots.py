"""Snapshots of an episode: restored episodes continue bit for bit, in a new process as well."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import factories
from factories import NO_REPLAY, UNEVEN, blobs, facts_of, opened, pictures, play, ready, same_tensors
from remem.action import Action
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot

CASES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "vectors": (blobs, {}, False),
    "pictures": (pictures, {"augment": {"brightness": 0.2}}, False),
    "stream of pictures": (pictures, {"memory": {"selection": "uniform"}, "policy": "fixed-0.4"}, True),
    "sigmoid, clamped": (blobs, {"method": {"loss": "sigmoid"}, "policy": "fixed-0.9", "memory": {"budget": 7}}, False),
    "no replay": (blobs, NO_REPLAY, False),
    "joint": (pictures, {"method": {"name": "joint"}}, False),
    "momentum-free": (blobs, {"train": {"optimizer": "adamw", "lr": 0.01, "lr_later": 0.01}}, True),
}


def whole(name: str) -> tuple[list[dict[str, Any]], list[Snapshot]]:
    """An uninterrupted run: the facts of every phase and the snapshot after it."""
    build, layer, owned = CASES[name]
    prepared = ready(build(), UNEVEN, layer)
    episode = opened(prepared)
    facts, snapshots = [], []
    for phase in prepared.scenario.phases:
        facts += [facts_of(result) for result in play(episode, prepared, stop=phase.index + 1, owned=owned)]
        snapshots.append(episode.snapshot())
    return facts, snapshots


def continued(name: str, snapshot: Snapshot) -> tuple[list[dict[str, Any]], Snapshot]:
    """Restores the snapshot in a new episode and plays the remaining phases."""
    build, layer, owned = CASES[name]
    prepared = ready(build(), UNEVEN, layer)
    episode = opened(prepared)
    episode.restore(snapshot)
    return [facts_of(result) for result in play(episode, prepared, owned=owned)], episode.snapshot()


def assert_same(one: Snapshot, other: Snapshot) -> None:
    assert json.loads(json.dumps(one.facts)) == json.loads(json.dumps(other.facts))
    assert same_tensors(one.tensors, other.tensors)


@pytest.mark.parametrize("name", CASES)
def test_restored_episode_continues_exactly(name: str, tmp_path: Path) -> None:
    facts, snapshots = whole(name)
    assert len(facts) == 4
    for phase, snapshot in enumerate(snapshots):
        save_snapshot(tmp_path / "snapshot", snapshot)
        loaded = load_snapshot(tmp_path / "snapshot")
        assert_same(loaded, snapshot)
        rest, last = continued(name, loaded)
        assert rest == facts[phase + 1 :]
        assert_same(last, snapshots[-1])


def test_snapshot_does_not_change_in_later_phases(tmp_path: Path) -> None:
    prepared = ready(blobs(), UNEVEN)
    episode = opened(prepared)
    play(episode, prepared, stop=2, owned=True)
    snapshot = episode.snapshot()
    save_snapshot(tmp_path / "then", snapshot)
    play(episode, prepared, owned=True)
    assert_same(snapshot, load_snapshot(tmp_path / "then"))


def test_episode_can_be_restored_and_take_another_action() -> None:
    """As in the prefix tree: restore in the same object, act differently, restore, act the same."""
    prepared = ready(blobs(), UNEVEN)
    phases, episode = prepared.scenario.phases, opened(prepared)
    episode.advance(phases[0], None)
    snapshot = episode.snapshot()
    seen = []
    for tenths in (3, 8, 3):
        result = episode.advance(phases[1], Action(old_tenths=tenths))
        seen.append((facts_of(result), episode.learner.state()))
        episode.restore(snapshot)
    assert seen[0][0] == seen[2][0]
    assert same_tensors(seen[0][1], seen[2][1])
    assert seen[0][0]["held_old"] != seen[1][0]["held_old"]


def test_snapshot_contains_owned_rows() -> None:
    _, snapshots = whole("stream of pictures")
    rows = snapshots[1].tensors["memory/rows"].tolist()
    assert sorted(snapshots[1].tensors["owned/rows"].tolist()) == sorted(rows)
    assert snapshots[1].tensors["owned/values"].shape == (40, 8, 8, 3)


CONTINUE = """
import json, sys
from pathlib import Path
from test_snapshots import continued
from remem.storage.tensorfile import load_snapshot, save_snapshot

folder = Path(sys.argv[1])
for name, phase in json.loads((folder / "jobs.json").read_text()):
    facts, last = continued(name, load_snapshot(folder / f"{name} {phase}"))
    (folder / f"{name} {phase}.json").write_text(json.dumps(facts))
    save_snapshot(folder / f"{name} {phase} end", last)
"""


def test_new_process_continues_exactly(tmp_path: Path) -> None:
    runs = {name: whole(name) for name in CASES}
    jobs = [(name, phase) for name in CASES for phase in range(3)]
    for name, phase in jobs:
        save_snapshot(tmp_path / f"{name} {phase}", runs[name][1][phase])
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    environment = {**os.environ, "PYTHONPATH": str(Path(factories.__file__).parent)}
    command = [sys.executable, "-c", CONTINUE, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, phase in jobs:
        facts, snapshots = runs[name]
        assert json.loads((tmp_path / f"{name} {phase}.json").read_text()) == json.loads(json.dumps(facts[phase + 1 :]))
        assert_same(load_snapshot(tmp_path / f"{name} {phase} end"), snapshots[-1])


def test_snapshot_contains_no_source_images() -> None:
    """A snapshot has row numbers, weights and counters only."""
    _, snapshots = whole("pictures")
    assert {name.partition("/")[0] for name in snapshots[-1].tensors} == {"network", "memory", "evaluated"}
    assert len(snapshots[-1].tensors["memory/rows"]) == 40
    json.dumps(snapshots[-1].facts)
