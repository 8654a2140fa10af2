"""workdir.py: a folder holds one piece of work, whose settings and data cannot change."""

import json
from pathlib import Path

import pytest

from remem.errors import DamagedFileError, InputError
from remem.storage.workdir import WRITTEN, Begun, WorkDir, WorkKind

VERSIONS = {"remem": "0.1.0", "torch": "2.13.0"}
SETTINGS = {"seed": 3, "data": {"name": "digits", "root": "/here"}, "train": {"epochs": 2}}
KIND = WorkKind("run", "config.json", {1: lambda old: {"format": 2, "settings": old["config"], "fingerprints": {}}})


def begun(path: Path) -> WorkDir:
    folder = WorkDir(path, KIND)
    with folder.claim():
        folder.begin(SETTINGS, {"data": "abc"}, VERSIONS)
    return folder


def test_begin_and_read_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out"
    assert not WorkDir(path, KIND).exists
    WorkDir(path, KIND).require_free()
    folder = begun(path)
    assert folder.exists
    assert folder.read() == Begun(SETTINGS, {"data": "abc"}, VERSIONS)
    tree = json.loads((folder.path / "config.json").read_text())
    assert (tree["format"], tree["kind"], tree["remem"]) == (2, "run", "0.1.0")


def test_settings_of_an_older_format_are_migrated(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, "config": SETTINGS}))
    assert WorkDir(tmp_path, KIND).read() == Begun(SETTINGS, {})


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 2}', '{"format": 2, "settings": 3}', "\x00"])
def test_damaged_settings_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DamagedFileError, match=r"config.json: not the settings of a run"):
        WorkDir(tmp_path, KIND).read()


@pytest.mark.parametrize("number", [0, 3])
def test_settings_of_an_unknown_format_are_refused(number: int, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(f'{{"format": {number}}}')
    with pytest.raises(DamagedFileError, match=rf"config.json: format {number}, expected 2"):
        WorkDir(tmp_path, KIND).read()


def test_folder_without_settings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=r"config.json: no such file; expected the settings of a run"):
        WorkDir(tmp_path, KIND).read()


@pytest.mark.parametrize("name", WRITTEN)
def test_folder_with_files_of_other_work_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    other = WorkDir(tmp_path, WorkKind("study", "other.json", {}))
    with pytest.raises(InputError, match=f"holds a {name} of something else; expected a new folder"):
        other.require_free()


def test_folder_with_unrelated_files_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    WorkDir(tmp_path, KIND).require_free()
    assert begun(tmp_path).exists
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    for act in (WorkDir(tmp_path / "out", KIND).require_free, WorkDir(tmp_path / "out", KIND).claim().__enter__):
        with pytest.raises(InputError, match="is a file; expected a folder"):
            act()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "seed is 4, but this run began with 3; settings cannot change"),
        ({"train": {"epochs": 5}}, "train.epochs is 5, but this run began with 2"),
        ({"train": {"epochs": 2, "lr": 1}}, "train.lr is 1, but this run began with None"),
    ],
)
def test_changed_settings_are_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    folder = begun(tmp_path)
    with pytest.raises(InputError, match=message):
        folder.require_same_settings(folder.read().settings, {**SETTINGS, **change})


def test_data_may_move_but_not_change(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    moved = {**SETTINGS, "data": {"name": "digits", "root": "/there"}}
    folder.require_same_settings(SETTINGS, moved)
    folder.require_same_data({"data": "abc", "more": "x"}, {"data": "abc"})
    with pytest.raises(InputError, match="the data have changed since this run began"):
        folder.require_same_data({"data": "abc"}, {"data": "abd"})
    with pytest.raises(InputError, match="the data have changed since this run began"):
        folder.require_same_data({}, {"data": "abc"})
    with pytest.raises(InputError, match="the data have changed since this run began"):
        folder.require_same_data({"one": "abc", "two": "def"}, {"one": "abc", "two": "xyz"})


def test_claimed_folder_cannot_be_claimed_again(tmp_path: Path) -> None:
    with WorkDir(tmp_path, KIND).claim(), pytest.raises(InputError, match="in use by another process"):
        WorkDir(tmp_path, KIND).claim().__enter__()


def test_what_a_kill_left_half_written_is_swept(tmp_path: Path) -> None:
    (tmp_path / "result.json.4711.part").write_text("{")
    (tmp_path / "notes.txt").write_text("mine")
    begun(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "notes.txt"]


def test_other_versions_are_said(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    before = folder.read().versions
    assert folder.changed_versions(before, VERSIONS) is None
    assert folder.changed_versions({}, VERSIONS) is None  # older files do not say
    assert folder.changed_versions(before, {**VERSIONS, "torch": "2.14.0"}) == (
        f"{tmp_path}: this run began with torch 2.13.0 (now 2.14.0); its numbers may differ from those of one that was "
        "never stopped"
    )
