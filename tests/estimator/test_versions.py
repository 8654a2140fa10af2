"""versions.py: a model folder holds whole versions, whatever is killed or damaged, and goes back when asked to."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from remem.errors import DamagedFileError, InputError
from remem.estimator.versions import RECEIPTS, ModelFolder
from remem.storage.atomic import folder_lock

EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree")


def writing(text: str) -> Callable[[Path], None]:
    """What `commit` calls: two files of the same text."""

    def write(folder: Path) -> None:
        for name in ("a", "b"):
            (folder / name).write_text(text)

    return write


def content(folder: ModelFolder) -> str:
    """The text of the current version; both files must have it."""
    one, other = ((folder.current / name).read_text() for name in ("a", "b"))
    assert one == other
    return one


def on_disk(folder: ModelFolder) -> list[str]:
    return sorted(path.name for path in (folder.path / "versions").iterdir())


def test_versions_are_committed_kept_and_counted(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "new" / "model")
    assert not folder.exists
    assert folder.versions() == ()
    assert [folder.commit(writing(f"text {number}"), keep=2) for number in (1, 2, 3)] == [1, 2, 3]
    assert ModelFolder(folder.path).exists
    assert (folder.versions(), on_disk(folder)) == ((2, 3), ["0002", "0003"])
    assert folder.current == tmp_path / "new" / "model" / "versions" / "0003"
    assert content(folder) == "text 3"
    assert folder.size() == 4 * len("text 3")
    assert folder.commit(writing("text 4"), keep=1) == 4
    assert (folder.versions(), on_disk(folder)) == ((4,), ["0004"])
    tree = json.loads((folder.path / "model.json").read_text())
    assert (tree["format"], tree["current"], tree["kept"]) == (1, 4, [4])
    with pytest.raises(InputError, match="keep: 0 given; expected at least 1"):
        folder.commit(writing("no"), keep=0)


def test_rollback_goes_back_and_the_next_version_starts_there(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    folder.commit(writing("one"), keep=3)
    with pytest.raises(InputError, match="version 1 is the only one; there is none to go back to"):
        folder.rollback()
    folder.commit(writing("two"), keep=3)
    assert folder.rollback() == 1
    assert (content(folder), on_disk(folder)) == ("one", ["0001"])
    assert folder.commit(writing("other two"), keep=3) == 2
    rmtree(tmp_path / "versions" / "0001")
    with pytest.raises(DamagedFileError, match="0001: no such folder; expected the version to go back to"):
        folder.rollback()
    assert content(folder) == "other two"


def test_a_damaged_current_version_can_be_left_behind(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    for text in ("one", "two"):
        folder.commit(writing(text), keep=2)
    rmtree(tmp_path / "versions" / "0002")
    with pytest.raises(DamagedFileError, match="0002: no such folder; expected version 2 of the model"):
        _ = folder.current
    assert folder.rollback() == 1
    assert content(folder) == "one"


def test_purge_leaves_the_current_version(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    for text in ("one", "two", "three"):
        folder.commit(writing(text), keep=3)
    folder.purge_others()
    assert (folder.versions(), on_disk(folder), content(folder)) == ((3,), ["0003"], "three")


def test_what_fails_leaves_the_old_version_and_nothing_else(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "model")

    def broken(part: Path) -> None:
        (part / "a").write_text("half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        folder.commit(broken, keep=3)
    assert not folder.path.exists()
    folder.commit(writing("one"), keep=3)
    with pytest.raises(OSError, match="full"):
        folder.commit(broken, keep=3)
    assert (folder.versions(), on_disk(folder), content(folder)) == ((1,), ["0001"], "one")


def test_changes_lock_the_folder_once(tmp_path: Path) -> None:
    folder, other = ModelFolder(tmp_path), ModelFolder(tmp_path)
    with folder.claim():
        folder.commit(writing("one"), keep=2)  # inside its own claim
        folder.commit(writing("two"), keep=2)
        for change in (lambda: other.commit(writing("no"), keep=1), other.rollback, other.purge_others):
            with pytest.raises(InputError, match="in use by another process"):
                change()
        assert content(other) == "two"  # reading needs no lock
    with folder_lock(tmp_path), pytest.raises(InputError, match="in use by another process"):
        folder.rollback()
    assert other.rollback() == 1


def play(folder: ModelFolder) -> None:
    """Every kind of change once."""
    folder.commit(writing("two"), keep=2)
    folder.commit(writing("three"), keep=2)
    folder.rollback()
    folder.commit(writing("four"), keep=3)
    folder.purge_others()


def killed(act: Callable[[], None], root: Path, kill_at: int) -> bool:
    """Runs in a fork that kills itself at its so-manieth file event below `root`; whether it was killed."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        inside = event in ("os.remove", "os.rmdir") and "/" not in str(arguments[0])  # while a tree is removed
        if event in EVENTS and (inside or str(arguments[0]).startswith(str(root))):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    act()
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_at_every_file_event_a_version_is_whole(tmp_path: Path) -> None:
    start = ModelFolder(tmp_path / "start")
    start.commit(writing("one"), keep=2)
    order = ["one", "two", "three", "two", "four"]
    reached, event = 0, 1
    while True:
        folder = ModelFolder(tmp_path / "model")
        copytree(start.path, folder.path)
        if not killed(lambda folder=folder: play(folder), folder.path, event):  # type: ignore[misc]
            break
        text = content(folder)
        reached = max(reached, order.index(text))
        folder.commit(writing("after"), keep=5)
        assert content(folder) == "after"
        assert sorted(path.name for path in folder.path.iterdir()) == ["model.json", "versions"]
        assert on_disk(folder) == [f"{number:04}" for number in folder.versions()]
        if text == "four":  # what `purge_others` was told to delete is gone as soon as the pointer says so
            assert len(folder.versions()) <= 4
        rmtree(folder.path)
        event += 1
    assert event > 40
    assert reached == len(order) - 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_at_every_file_event_a_version_and_its_receipt_are_both_there_or_neither(tmp_path: Path) -> None:
    start = ModelFolder(tmp_path / "start")
    start.commit(writing("one"), keep=1, receipt="first")
    assert (start.path / RECEIPTS).read_text() == "first\n"
    found, event = set(), 1
    while True:
        folder = ModelFolder(tmp_path / "model")
        copytree(start.path, folder.path)
        act = lambda folder=folder: folder.commit(writing("two"), keep=1, receipt="second")  # noqa: E731
        done = not killed(act, folder.path, event)
        expected = b"first\nsecond\n" if content(folder) == "two" else b"first\n"
        found.add((expected, (folder.path / RECEIPTS).read_bytes()))
        assert folder.receipts() == expected
        folder.commit(writing("three"), keep=1)
        assert (folder.path / RECEIPTS).read_bytes() == folder.receipts() == expected
        assert sorted(path.name for path in folder.current.iterdir()) == ["a", "b"]
        rmtree(folder.path)
        event += 1
        if done:
            break
    assert found == {  # a kill between the two has been tried
        (b"first\n", b"first\n"),
        (b"first\nsecond\n", b"first\n"),
        (b"first\nsecond\n", b"first\nsecond\n"),
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_in_its_first_commit_a_folder_is_as_good_as_new(tmp_path: Path) -> None:
    event = 1
    while True:
        folder = ModelFolder(tmp_path / "model")
        done = not killed(lambda folder=folder: folder.commit(writing("one"), keep=2), folder.path, event)  # type: ignore[misc]
        if folder.exists:
            assert content(folder) == "one"
        elif folder.path.exists() and (folder.path / "model.json").exists():
            with pytest.raises(DamagedFileError, match="no version yet"):
                _ = folder.current
        if done:
            break
        assert folder.commit(writing("two"), keep=2) in (1, 2)
        assert content(folder) == "two"
        rmtree(folder.path)
        event += 1
    assert event > 8


def test_deleted_versions_lose_their_name_before_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a kill would leave half a version under a whole name, and `rollback` might go there."""
    folder = ModelFolder(tmp_path)
    for text in ("one", "two"):
        folder.commit(writing(text), keep=2)
    removed: list[str] = []
    monkeypatch.setattr("remem.estimator.versions.rmtree", lambda path: removed.append(path.name))
    folder.commit(writing("three"), keep=2)
    assert removed == ["0001.part"]


def test_leftovers_are_swept_by_the_next_change(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    folder.commit(writing("one"), keep=2)
    copytree(tmp_path / "versions" / "0001", tmp_path / "versions" / "0002")  # whole, but never made current
    (tmp_path / "versions" / "0002.part").mkdir()
    (tmp_path / "model.json.99.part").write_text("half")
    (tmp_path / "notes.txt").write_text("mine")
    assert folder.versions() == (1,)
    assert folder.commit(writing("two"), keep=2) == 2
    assert (content(folder), on_disk(folder)) == ("two", ["0001", "0002"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "notes.txt", "versions"]


@pytest.mark.parametrize("name", ["config.json", "study.json", "learning.json", "policy.json", "model.safetensors"])
def test_folders_of_other_work_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=f"holds {name}, but no model; expected a folder of its own"):
        ModelFolder(tmp_path).commit(writing("one"), keep=1)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_versions_without_their_pointer_are_not_touched(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    folder.commit(writing("one"), keep=1)
    (tmp_path / "model.json").unlink()
    with pytest.raises(InputError, match=r"holds versions, but no model; expected its model\.json; put a copy back"):
        folder.commit(writing("two"), keep=1)
    for act in (folder.rollback, folder.purge_others, lambda: folder.current):
        with pytest.raises(DamagedFileError, match=r"no model\.json; expected a model folder"):
            act()
    assert on_disk(folder) == ["0001"]


def test_other_things_among_the_versions_are_not_removed(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    folder.commit(writing("one"), keep=1)
    (tmp_path / "versions" / "mine").mkdir()
    with pytest.raises(InputError, match="mine: not a version of this model"):
        folder.commit(writing("two"), keep=1)
    assert content(folder) == "one"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    with pytest.raises(InputError, match="model: a file; expected the folder of a model, or a new one"):
        ModelFolder(tmp_path / "model").commit(writing("one"), keep=1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": 2, "kept": [1], "current": 1}',
        '{"format": 1}',
        '{"format": 1, "kept": [1, 2], "current": 1}',
        '{"format": 1, "kept": [2, 1], "current": 1}',
        '{"format": 1, "kept": [0], "current": 0}',
        '{"format": 1, "kept": [true], "current": true}',
        '{"format": 1, "kept": "1", "current": "1"}',
    ],
)
def test_damaged_pointers_are_one_line_and_nothing_is_removed(text: str, tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    folder.commit(writing("one"), keep=1)
    (tmp_path / "model.json").write_text(text)
    for act in (folder.versions, folder.rollback, folder.purge_others, lambda: folder.commit(writing("two"), keep=1)):
        with pytest.raises(
            DamagedFileError, match=r"model\.json: (not the pointer of a model folder|format 2)"
        ) as caught:
            act()
        assert "\n" not in str(caught.value)
    assert on_disk(folder) == ["0001"]
