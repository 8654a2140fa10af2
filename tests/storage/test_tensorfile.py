"""checkpoint.py: what is saved comes back; whatever is damaged is said to be so, and no file ever runs code."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from remem.storage.tensorfile import Snapshot
from remem.errors import DamagedFileError
from remem.storage.tensorfile import load_snapshot, save_snapshot
from remem.storage.atomic import write_atomically
from factories import blobs, opened, pictures, play, ready, same_tensors


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
    """Of a safetensors file: eight bytes of length, then JSON."""
    return 8 + int.from_bytes(content[:8], "little")


def test_what_is_saved_comes_back(snapshot: Snapshot, saved: Path) -> None:
    loaded = load_snapshot(saved)
    assert loaded.facts == json.loads(json.dumps(snapshot.facts))
    assert same_tensors(loaded.tensors, snapshot.tensors)
    assert {name.partition("/")[0] for name in loaded.tensors} == {"network", "memory", "evaluated", "owned"}


def test_exemplars_take_their_raw_bytes_and_a_hundredth_more_at_most(tmp_path: Path) -> None:
    """Owned rows of 32 x 32 x 3 bytes: what the file grows by when there are more of them."""
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


def test_empty_and_scalar_tensors_come_back(tmp_path: Path) -> None:
    tensors = {"none": torch.empty(0, 7), "one": torch.tensor(3.5), "whole": torch.arange(3)}
    save_snapshot(tmp_path / "small", Snapshot({"a": [1, None]}, tensors))
    loaded = load_snapshot(tmp_path / "small")
    assert same_tensors(loaded.tensors, tensors)
    assert loaded.facts == {"a": [1, None]}


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short(share: float, saved: Path) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamagedFileError, match="not a whole checkpoint"):
        load_snapshot(saved)


def test_a_byte_too_many_or_too_few(saved: Path) -> None:
    content = saved.read_bytes()
    for damaged in (content + b"x", content[:-1]):
        saved.write_bytes(damaged)
        with pytest.raises(DamagedFileError):
            load_snapshot(saved)


def test_every_flipped_byte_of_the_body(saved: Path) -> None:
    content = saved.read_bytes()
    start = header_length(content)
    for place in range(start, len(content), max(1, (len(content) - start) // 60)):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        saved.write_bytes(bytes(damaged))
        with pytest.raises(DamagedFileError, match="checksum"):
            load_snapshot(saved)


@pytest.mark.parametrize("bit", [0x01, 0x20, 0x80])
def test_a_flipped_byte_of_the_header_is_never_taken_for_another_snapshot(
    bit: int, snapshot: Snapshot, saved: Path
) -> None:
    """Nearly every flip is an error; the few that mean nothing (white space of the JSON) give the same snapshot."""
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


def test_another_format(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "later", {"remem": '{"format": 2, "facts": "{}", "sha256": ""}'})
    with pytest.raises(DamagedFileError, match="format 2, expected 1"):
        load_snapshot(tmp_path / "later")


def test_other_files(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "weights")
    (tmp_path / "text").write_text("not a checkpoint")
    for name in ("weights", "text"):
        with pytest.raises(DamagedFileError, match="not a whole checkpoint"):
            load_snapshot(tmp_path / name)
    for name in ("missing", "."):
        with pytest.raises(DamagedFileError, match="no such checkpoint"):
            load_snapshot(tmp_path / name)


class Trap:
    """Unpickling it leaves a trace."""

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


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def broken(self: Path, target: Path) -> Path:
        raise OSError("the power failed")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        with pytest.raises(OSError, match="power"):
            write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old"
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
