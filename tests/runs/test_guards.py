"""Regression tests: two runs in one folder, damaged logs, values out of bounds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import factories
from remem.data.datasets import load_dataset
from remem.data.settings import DataSettings
from remem.errors import DamagedFileError, InputError
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.runs.config import compose
from remem.runs.results import load_result
from remem.runs.run import run_in_folder, run_or_resume
from remem.runs.trees import merged, read_overrides
from remem.storage.atomic import write_atomically


@pytest.mark.skipif(sys.platform == "win32", reason="no folder lock on Windows")
def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    hold = f"""
import fcntl, os, sys
fcntl.flock(os.open({str(tmp_path)!r}, os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()  # until it is killed
"""
    command = [sys.executable, "-c", hold]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="is in use by another process"):
            run_in_folder(factories.ready(factories.blobs()), tmp_path)
        other.kill()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["garbage\n", "{}\n[]\n3\n", "\x00\x00\x00", '{"phase": "x"}\n'])
def test_a_damaged_log_does_not_stop_a_resumed_run(tmp_path: Path, damage: str) -> None:
    prepared = factories.ready(factories.blobs())

    def stop(event: Event) -> None:
        if isinstance(event, EpochEnded) and event.phase == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(prepared, tmp_path / "a", stop)
    log = tmp_path / "a" / "log.jsonl"
    log.write_text(log.read_text() + damage)
    run_or_resume(prepared, tmp_path / "a")
    whole = run_in_folder(prepared, tmp_path / "b")
    assert factories.timeless(load_result(tmp_path / "a").to_json()) == factories.timeless(whole.to_json())
    lines = [
        [json.loads(line)["event"] for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        for name in "ab"
    ]
    assert lines[0] == lines[1]


def test_results_with_missing_fields_are_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"format": 1, "status": "complete"}')
    with pytest.raises(DamagedFileError, match="'head': Field required; expected the result of a run"):
        load_result(tmp_path)


def test_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()  # a file cannot replace a folder
    with pytest.raises(OSError, match="target"):
        write_atomically(tmp_path / "target", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.mark.parametrize(
    ("pair", "field"),
    [
        ("train.threads=9999999", "train.threads"),
        ("train.milestones=[2]", "train.milestones"),
        ("train.milestones=[nan]", "train.milestones"),
        ("train.lr=inf", "train.lr"),
        ("method.temperature=inf", "method.temperature"),
        ("net.width=999999999999", "net.width"),
        ("data.image_size=100000", "data.image_size"),
        ("augment.pad=100000000", "augment.pad"),
        ("augment.brightness=1e300", "augment.brightness"),
        ("memory.budget=999999999999999999999999", "budget"),
        ("memory.exemplars=99999999999999999999999", "memory.exemplars"),
    ],
)
def test_error_of_a_value_out_of_bounds_names_the_field(pair: str, field: str) -> None:
    with pytest.raises(InputError) as caught:
        compose(read_overrides([pair]))
    assert str(caught.value).startswith(field)
    assert "\n" not in str(caught.value)


def test_table_does_not_silently_replace_a_value() -> None:
    with pytest.raises(InputError, match=r"train: 3 given; expected settings such as train\.epochs"):
        merged({"train": 3}, {"train": {"epochs": 2}})
    with pytest.raises(InputError, match="expected one key=value"):
        read_overrides(["train.epochs=1\nfoo=2"])


def test_image_folder_without_test_images_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "train" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "train" / name / "x.png")
    with pytest.raises(InputError, match="no class has two images"):
        load_dataset(DataSettings(name=f"folder:{tmp_path}"))
