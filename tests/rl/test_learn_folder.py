"""learn.py: which folders and settings a learning accepts, and what it says of damaged files and older formats."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from factories import blobs, write_npz
from remem.errors import DamagedFileError, InputError
from remem.events import Event, ignore
from remem.rl.events import NodesTrained
from remem.rl.learn import learn_in_folder, read_learning
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot
from rl_factories import Learning, assert_same_learning, learn_config, reward_lines


def interrupt(event: Event) -> None:
    raise KeyboardInterrupt


def test_a_complete_learning_is_only_read(learning: Learning, npz: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in learning.out.iterdir()}
    events = list[Event]()
    assert learn_in_folder(learn_config(npz), learning.out, events.append).name == "rmm"
    assert events == []
    assert {path.name: path.stat().st_mtime_ns for path in learning.out.iterdir()} == before


def test_changed_settings_and_changed_data_are_refused(npz: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "blobs.npz", tmp_path / "out"
    data.write_bytes(npz.read_bytes())
    with pytest.raises(KeyboardInterrupt):
        learn_in_folder(learn_config(data), out, interrupt)
    for changed, message in (
        (learn_config(data, runs=4), "learn.runs is 4, but this learning began with 3"),
        (learn_config(data, {"seed": 5}), "target.seed is 5, but this learning began with 3"),
    ):
        with pytest.raises(InputError, match=message):
            learn_in_folder(changed, out, ignore)
    write_npz(data, blobs(classes=8, per_class=12, spread=2.0, seed=1))
    with pytest.raises(InputError, match="the data have changed since this learning began"):
        learn_in_folder(learn_config(data), out, ignore)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("rewards.jsonl", lambda text: "{}\n" + text, r"rewards.jsonl: line 1 is not a reward"),
        ("checkpoint.safetensors", lambda text: text[:-9], r"checkpoint.safetensors: "),
        ("learning.json", lambda text: text[:-9], r"learning.json: not the settings of a learning"),
        ("learning.json", lambda text: "[]", r"learning.json: not the settings of a learning"),
        ("learning.json", lambda text: text.replace('"format":2', '"format":9'), r"format 9, expected 2"),
        (
            "learning.json",
            lambda text: text.replace('"target"', '"targets"'),
            r"learning.json: the content does not match its checksum; the file is damaged",
        ),
        ("learning.json", lambda text: text.replace('"checksum"', '"checksun"'), r"does not match its checksum"),
    ],
)
def test_damage_is_reported_in_one_line(
    name: str, damage: Callable[[str], str], message: str, learning: Learning, npz: Path, tmp_path: Path
) -> None:
    for file in ("learning.json", "checkpoint.safetensors", "rewards.jsonl", "log.jsonl"):
        (tmp_path / file).write_bytes((learning.out / file).read_bytes())
    text = (tmp_path / name).read_bytes().decode("latin-1")
    assert damage(text) != text
    (tmp_path / name).write_bytes(damage(text).encode("latin-1"))
    with pytest.raises(DamagedFileError, match=message) as caught:
        learn_in_folder(learn_config(npz), tmp_path, ignore)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: Snapshot({}, kept.tensors),
        lambda kept: Snapshot({"means": 3}, kept.tensors),
        lambda kept: Snapshot(kept.facts, {k: v for k, v in kept.tensors.items() if k != "policy/eta.0.weight"}),
    ],
    ids=["no means", "means are a number", "a weight is missing"],
)
def test_a_checkpoint_of_something_else_is_refused(
    change: Callable[[Snapshot], Snapshot], learning: Learning, npz: Path, tmp_path: Path
) -> None:
    for file in ("learning.json", "rewards.jsonl", "log.jsonl"):
        (tmp_path / file).write_bytes((learning.out / file).read_bytes())
    path = tmp_path / "checkpoint.safetensors"
    save_snapshot(path, change(load_snapshot(learning.out / path.name)))
    with pytest.raises(DamagedFileError, match=r"checkpoint.safetensors: not the checkpoint of this learning"):
        learn_in_folder(learn_config(npz), tmp_path, ignore)


def test_a_folder_with_files_of_something_else_is_left_alone(npz: Path, tmp_path: Path) -> None:
    for name in ("policy.json", "config.json", "rewards.jsonl"):
        out = tmp_path / name.partition(".")[0]
        out.mkdir()
        (out / name).write_text("mine")
        with pytest.raises(InputError, match=f"holds a {name} of something else; expected a new folder"):
            learn_in_folder(learn_config(npz), out, ignore)
        assert [path.name for path in out.iterdir()] == [name]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file; expected a folder"):
        learn_in_folder(learn_config(npz), tmp_path / "file", ignore)


def test_a_mistake_in_the_settings_leaves_no_folder_behind(npz: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="less than one for each"):
        learn_in_folder(learn_config(npz, {"memory": {"budget": 2, "exemplars": 1}}), tmp_path / "out", ignore)
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_learning(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=r"learning.json: no such file; expected the settings of a learning"):
        read_learning(tmp_path)


def test_data_may_move_to_another_root(learning: Learning, tmp_path: Path) -> None:
    config, fingerprint = read_learning(learning.out, root=tmp_path)
    assert config.target.data.root == tmp_path
    assert len(fingerprint) > 0


def test_a_learning_of_format_1_is_resumed(learning: Learning, npz: Path, tmp_path: Path) -> None:
    """Settings lay beside the format and learning rates were called rates."""
    out = tmp_path / "out"

    def interrupt_later(event: Event) -> None:
        if isinstance(event, NodesTrained) and len(reward_lines(out)) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_in_folder(learn_config(npz), out, interrupt_later)
    now = json.loads((out / "learning.json").read_text())
    settings: dict[str, Any] = now["settings"]
    for section, old, new in (("learn", "rate_eta", "lr_eta"), ("learn", "rate_phi", "lr_phi")):
        settings[section][old] = settings[section].pop(new)
    train = settings["target"]["train"]
    train["rate"], train["rate_later"] = train.pop("lr"), train.pop("lr_later")
    before = {"format": 1, "remem": "0.1.0", "data_fingerprint": now["fingerprints"]["data"], **settings}
    (out / "learning.json").write_text(json.dumps(before, indent=1))
    learn_in_folder(learn_config(npz), out, ignore)
    assert_same_learning(out, learning.out)


def test_files_of_another_seed_are_refused(learning: Learning, npz: Path, tmp_path: Path) -> None:
    """Its checkpoint, its policy, and its rewards."""
    config = learn_config(npz, {"seed": 1})
    with pytest.raises(KeyboardInterrupt):
        learn_in_folder(config, tmp_path, interrupt)
    for names, message in (
        (["checkpoint.safetensors"], r"the checkpoint of another learning \(settings.target.seed is 3, expected 1\)"),
        (["policy.json", "policy.safetensors"], r"the policy of another learning \(seed is 3, expected 1\)"),
        (["rewards.jsonl"], r"line 1 is not a reward \(it does not match its checksum, or is of another learning\)"),
    ):
        for name in names:
            (tmp_path / name).write_bytes((learning.out / name).read_bytes())
        with pytest.raises(DamagedFileError, match=message):
            learn_in_folder(config, tmp_path, ignore)
        for name in names:
            (tmp_path / name).unlink()
