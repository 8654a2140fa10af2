"""tensorfile.py: snapshots survive a round trip, damaged files are refused, and loading never runs code."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from factories import blobs, opened, pictures, play, ready, same_tensors
from remem.errors import DamagedFileError
from remem.storage.tensorfile import Snapshot, digest, load_snapshot, save_snapshot


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    prepared = ready(blobs())
    episode = opened(prepared)
    play(episode, prepared, stop=2, owned=True)
    return episode.snapshot()


@pytest.fixture
def saved(snapshot: Snapshot, tmp_path: Path) -> Path:
    save_snapshot(tmp_path / "checkpoint", snapshot)
    return tmp_path / "checkpoint"


def header_length(content: bytes) -> int:
    """Bytes of a safetensors header: eight bytes of length, then JSON."""
    return 8 + int.from_bytes(content[:8], "little")


def test_save_and_load_round_trip(snapshot: Snapshot, saved: Path) -> None:
    loaded = load_snapshot(saved)
    assert loaded.facts == json.loads(json.dumps(snapshot.facts))
    assert same_tensors(loaded.tensors, snapshot.tensors)
    assert {name.partition("/")[0] for name in loaded.tensors} == {"network", "memory", "evaluated", "owned"}


def test_exemplars_take_at_most_one_percent_more_than_their_raw_bytes(tmp_path: Path) -> None:
    """Compares files with and without owned rows of 32 x 32 x 3 bytes."""
    prepared = ready(pictures(per_class=60, side=32), {"memory": {"budget": 300}, "train": {"epochs": 1}})
    episode = opened(prepared)
    play(episode, prepared, stop=2, owned=True)
    whole = episode.snapshot()
    rows = {"owned/rows", "owned/values", "memory/rows"}
    without = Snapshot(whole.facts, {name: value for name, value in whole.tensors.items() if name not in rows})
    for name, snapshot in (("whole", whole), ("without", without)):
        save_snapshot(tmp_path / name, snapshot)
    raw = 32 * 32 * 3 * len(whole.tensors["owned/rows"])
    taken = (tmp_path / "whole").stat().st_size - (tmp_path / "without").stat().st_size
    assert len(whole.tensors["owned/rows"]) == len(whole.tensors["memory/rows"]) > 200
    assert raw <= taken <= 1.01 * raw


def test_empty_and_scalar_tensors_round_trip(tmp_path: Path) -> None:
    tensors = {"none": torch.empty(0, 7), "one": torch.tensor(3.5), "whole": torch.arange(3)}
    save_snapshot(tmp_path / "small", Snapshot({"a": [1, None]}, tensors))
    loaded = load_snapshot(tmp_path / "small")
    assert same_tensors(loaded.tensors, tensors)
    assert loaded.facts == {"a": [1, None]}


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file_is_refused(share: float, saved: Path) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamagedFileError, match="not a whole checkpoint"):
        load_snapshot(saved)


def test_missing_or_extra_byte_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for damaged in (content + b"x", content[:-1]):
        saved.write_bytes(damaged)
        with pytest.raises(DamagedFileError):
            load_snapshot(saved)


def test_flipped_byte_of_the_body_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    start = header_length(content)
    for place in range(start, len(content), max(1, (len(content) - start) // 60)):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        saved.write_bytes(bytes(damaged))
        with pytest.raises(DamagedFileError, match="checksum"):
            load_snapshot(saved)


@pytest.mark.parametrize("bit", [0x01, 0x20, 0x80])
def test_flipped_byte_of_the_header_never_gives_another_snapshot(bit: int, snapshot: Snapshot, saved: Path) -> None:
    """Nearly every flip is an error. The few without effect (white space of the JSON) give the same snapshot."""
    content = saved.read_bytes()
    refused = 0
    places = [*range(16), *range(16, header_length(content), 23)]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= bit
        saved.write_bytes(bytes(damaged))
        try:
            loaded = load_snapshot(saved)
        except DamagedFileError:
            refused += 1
        else:
            assert loaded.facts == json.loads(json.dumps(snapshot.facts))
            assert same_tensors(loaded.tensors, snapshot.tensors)
    assert refused > 0.95 * len(places)


def test_later_format_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "later", {"remem": '{"format": 3, "facts": "{}", "sha256": ""}'})
    with pytest.raises(DamagedFileError, match="format 3, expected at most 2"):
        load_snapshot(tmp_path / "later")


def write_format_1(path: Path, facts: dict[str, Any], *, inline: bool = False, checksum: bool = True) -> None:
    """Writes a file like older versions. Models (`inline`) kept facts beside the format, first without a checksum."""
    tensors, text = {"judged": torch.arange(3)}, json.dumps(facts)
    head = {"format": 1, **(facts if inline else {"facts": text})}
    if checksum:
        head["sha256"] = digest(text, tensors)
    save_file(tensors, path, {"remem": json.dumps(head)})


@pytest.mark.parametrize(("inline", "checksum"), [(False, True), (True, True), (True, False)])
def test_files_of_format_1_are_migrated(inline: bool, checksum: bool, tmp_path: Path) -> None:
    write_format_1(tmp_path / "old", {"rate": 3}, inline=inline, checksum=checksum)

    def migrate(old: Snapshot) -> Snapshot:
        return Snapshot({"lr": old.facts["rate"]}, {"evaluated": old.tensors["judged"]})

    loaded = load_snapshot(tmp_path / "old", migrate)
    assert loaded.facts == {"lr": 3}
    assert same_tensors(loaded.tensors, {"evaluated": torch.arange(3)})
    assert load_snapshot(tmp_path / "old").facts == {"rate": 3}


def test_snapshot_of_the_current_format_is_not_migrated(snapshot: Snapshot, saved: Path) -> None:
    def migrate(old: Snapshot) -> Snapshot:
        raise AssertionError("the format is current")

    assert same_tensors(load_snapshot(saved, migrate).tensors, snapshot.tensors)


def test_a_damaged_file_of_format_1_is_refused(tmp_path: Path) -> None:
    write_format_1(tmp_path / "old", {"rate": 3})
    content = bytearray((tmp_path / "old").read_bytes())
    content[-1] ^= 1
    (tmp_path / "old").write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match="checksum"):
        load_snapshot(tmp_path / "old")


def test_other_files_are_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "weights")
    (tmp_path / "text").write_text("not a checkpoint")
    for name in ("weights", "text"):
        with pytest.raises(DamagedFileError, match="not a whole checkpoint"):
            load_snapshot(tmp_path / name)
    for name in ("missing", "."):
        with pytest.raises(DamagedFileError, match="no such checkpoint"):
            load_snapshot(tmp_path / name)


class Trap:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.trace,)


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (tmp_path / "pickle").write_bytes(pickle.dumps(Trap(trace)))
    torch.save({"a": Trap(trace)}, tmp_path / "torch")
    for name in ("pickle", "torch"):
        with pytest.raises(DamagedFileError):
            load_snapshot(tmp_path / name)
    assert not trace.exists()
    pickle.loads((tmp_path / "pickle").read_bytes())
    assert trace.exists()  # the trap works


def test_only_files_of_format_1_may_lack_a_checksum(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "bare", {"remem": '{"format": 2, "facts": "{}"}'})
    with pytest.raises(DamagedFileError, match="checksum"):
        load_snapshot(tmp_path / "bare")
