"""Episodes whose samples are stored by codecs: the bill, the bound, what learners see, snapshots, and files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import UNEVEN, blobs, facts_of, opened, pictures, play, ready, same_tensors, write_folder
from remem.codecs.codec import LENGTH_BYTES
from remem.codecs.table import CODECS
from remem.data.datasets import load_dataset
from remem.data.settings import DataSettings
from remem.errors import BudgetError, InputError
from remem.memory.store import Memory
from remem.methods.events import EpochEnded
from remem.methods.mnemonics import Mnemonics
from remem.runs.build import open_episode
from remem.runs.devices import open_fabric
from remem.runs.phase0_cache import phase0_key
from remem.runs.prepared import Prepared
from remem.runs.results import PhaseRecord
from remem.storage.tensorfile import Snapshot
from remem.types import IntArray

SHORT = {"train": {"epochs": 1}, "finetune": {"epochs": 0}}
# codec, side of the pictures (0: vectors), bytes; with codes of variable size, the bytes hold 20 to 30 pictures
CASES: dict[str, tuple[int, str]] = {
    "raw": (8, "6kB"),
    "ycc420-5": (8, "1kB"),
    "half": (8, "1001B"),
    "webp-75": (32, "20kB"),
    "webp-90": (32, "32kB"),
    "int8": (0, "200B"),
    "float16": (0, "301B"),
}


def coded(codec: str, *layers: dict[str, Any]) -> Prepared:
    side, budget = CASES[codec]
    dataset = pictures(side=side) if side else blobs()
    memory = {"memory": {"budget": budget, "codec": codec, "exemplars": 6}}
    return ready(dataset, UNEVEN, SHORT, {"policy": "fixed-0.5"}, memory, *layers)


@pytest.mark.parametrize("codec", CASES)
def test_the_bytes_that_are_stored_never_exceed_the_budget(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the bytes after every load, from the codes themselves."""
    prepared = coded(codec)
    episode, most, real = opened(prepared), [0], Memory.load
    limit, shape = prepared.budget.amount, prepared.scenario.bank.shape

    def stored() -> int:
        codes = episode.bank.codes().get(codec, {})
        raw = episode._memory.total - len(codes)
        extra = LENGTH_BYTES if CODECS[codec].size(shape) is None else 0
        return sum(len(code) + extra for code in codes.values()) + raw * prepared.scenario.bank.row_bytes

    def counting(self: Memory, label: int, rows: IntArray, sizes: IntArray | None) -> None:
        real(self, label, rows, sizes)
        if self.bound is not None:
            most[0] = max(most[0], stored())

    monkeypatch.setattr(Memory, "load", counting)
    results = play(episode, prepared)
    assert most[0] == episode.bytes_peak
    for result in results[1:]:
        assert result.codec == codec
        assert result.budget_bytes == limit
        assert result.held_bytes is not None
        assert 0.85 * limit < result.held_bytes <= limit  # and little of it stays empty
        assert result.held_old + result.held_new <= (result.budget or 0)
    assert most[0] <= limit


@pytest.mark.parametrize("codec", ["ycc420-5", "webp-75", "int8"])
def test_learners_see_what_was_decoded_and_nothing_else_is_kept(codec: str) -> None:
    prepared = coded(codec)
    episode, source = opened(prepared), prepared.scenario.bank
    play(episode, prepared)
    rows = episode._memory.samples().rows
    expected = CODECS[codec].decode(CODECS[codec].encode(source.read(rows)), source.shape)
    assert np.array_equal(episode._held.read(rows), expected)
    assert not np.array_equal(expected, source.read(rows))
    assert sorted(episode.bank.codes()[codec]) == sorted(rows.tolist())
    assert not episode.bank.owned()


@pytest.mark.parametrize("codec", ["ycc420-5", "webp-75", "int8"])
def test_a_stream_keeps_codes_only(codec: str) -> None:
    """Rows of a user's stream are owned. Once they are stored by a codec, their values are gone."""
    prepared = coded(codec)
    episode = opened(prepared)
    streamed = [facts_of(result) for result in play(episode, prepared, owned=True)]
    assert not episode.bank.owned()
    assert sorted(episode.bank.codes()[codec]) == sorted(episode._memory.samples().rows.tolist())
    assert streamed == [facts_of(result) for result in play(opened(prepared), prepared)]


@pytest.mark.parametrize("codec", CASES)
def test_restored_episodes_continue_exactly(codec: str) -> None:
    prepared = coded(codec)
    episode = opened(prepared)
    play(episode, prepared, stop=2)
    snapshot = episode.snapshot()
    rest = [facts_of(result) for result in play(episode, prepared)]
    again = opened(prepared)
    again.restore(snapshot)
    assert again.bytes_peak is not None
    assert [facts_of(result) for result in play(again, prepared)] == rest
    assert same_tensors(again.snapshot().tensors, episode.snapshot().tensors)
    assert again.bytes_peak == episode.bytes_peak


@pytest.mark.parametrize("codec", ["ycc420-5", "half", "webp-75", "int8", "float16"])
def test_a_snapshot_has_as_many_bytes_of_exemplars_as_are_billed(codec: str) -> None:
    prepared = coded(codec)
    episode = opened(prepared)
    *_, last = play(episode, prepared)
    tensors = episode.snapshot().tensors
    stored = sum(value.nbytes for name, value in tensors.items() if name.startswith("codes/"))
    assert stored == last.held_bytes
    assert not any(name.startswith("owned/") for name in tensors)


def test_a_damaged_snapshot_is_refused() -> None:
    prepared = coded("ycc420-5")
    episode = opened(prepared)
    play(episode, prepared)
    snapshot = episode.snapshot()
    damaged = Snapshot(snapshot.facts, {**snapshot.tensors, "codes/data": snapshot.tensors["codes/data"][:-1]})
    with pytest.raises(InputError, match="ycc420-5: codes that do not fit"):
        opened(prepared).restore(damaged)


def test_bytes_of_raw_samples_are_samples() -> None:
    """The same M, counted in bytes: equal numbers in every field that both have."""
    in_samples = ready(pictures(), UNEVEN, SHORT, {"memory": {"budget": 31, "exemplars": 6}})
    in_bytes = ready(pictures(), UNEVEN, SHORT, {"memory": {"budget": f"{31 * 192 + 191}B", "exemplars": 6}})
    plain = [facts_of(result) for result in play(opened(in_samples), in_samples)]
    billed = [facts_of(result) for result in play(opened(in_bytes), in_bytes)]
    new = ("codec", "budget_bytes", "held_bytes")
    assert [{**facts, **dict.fromkeys(new)} for facts in billed] == plain
    assert [facts["held_bytes"] for facts in billed][1:] == [31 * 192] * 3


def test_the_paper_s_setting_records_no_bytes() -> None:
    prepared = ready(pictures(), UNEVEN, SHORT)
    episode = opened(prepared)
    record = PhaseRecord.of(play(episode, prepared, stop=1)[0])
    assert (record.codec, record.budget_bytes, record.held_bytes) == (None, None, None)
    assert "codec" not in prepared.config.public()["memory"]
    assert episode.bytes_peak is None
    assert "codec" not in episode.snapshot().facts


def test_refined_exemplars_are_stored_by_the_codec() -> None:
    refined = {"method": {"name": "mnemonics", "refine_steps": 2}, "finetune": {"epochs": 1}}
    prepared = coded("ycc420-5", refined)
    episode = opened(prepared)
    *_, last = play(episode, prepared)
    assert max(episode._memory.samples().rows) >= len(pictures().train.labels)
    assert not episode.bank.owned()
    assert last.held_bytes == sum(map(len, episode.bank.codes()["ycc420-5"].values()))


def test_refined_exemplars_never_exceed_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise makes refined pictures larger than their originals: those that do not fit stay as they were."""
    held, real = list[int](), Memory.replace
    refined = {"method": {"name": "mnemonics", "refine_steps": 2, "refine_lr": 0.3}, "finetune": {"epochs": 0}}
    prepared = coded("webp-75", refined)
    source = prepared.scenario.bank.next_row

    def noting(self: Memory, label: int, old_row: int, new_row: int, size: int | None = None) -> None:
        real(self, label, old_row, new_row, size)
        if self._byte_bound is not None:
            held.append(self.total_bytes)

    monkeypatch.setattr(Memory, "replace", noting)
    monkeypatch.setattr(Mnemonics, "_move", lambda self, network, stored, *rest: np.roll(stored, 1, axis=0) ^ 85)
    episode = opened(prepared)
    play(episode, prepared)
    assert held
    assert max(held) <= episode.bytes_peak <= prepared.budget.amount  # type: ignore[operator]
    old = episode._memory.samples().of(range(5))
    assert 0 < (old.rows < source).sum() < len(old)  # some stayed, some did not
    codes = episode.bank.codes()["webp-75"]
    assert sorted(codes) == sorted(episode._memory.samples().rows.tolist())  # nothing else is left
    assert not episode.bank.owned()


def test_files_are_kept_as_they_came(tmp_path: Path) -> None:
    write_folder(tmp_path, pictures(side=16, per_class=8))
    sizes = {path.read_bytes(): path.stat().st_size for path in tmp_path.glob("train/*/*.png")}
    dataset = load_dataset(DataSettings(name=f"folder:{tmp_path}", cache=False))
    budget = f"{12 * max(sizes.values())}B"
    layers = UNEVEN, SHORT, {"memory": {"budget": budget, "codec": "file", "exemplars": 6}, "policy": "fixed-0.5"}
    prepared = ready(dataset, *layers)
    episode = opened(prepared)
    *_, last = play(episode, prepared)
    codes = episode.bank.codes()["file"]
    assert set(codes.values()) <= sizes.keys()
    assert last.held_bytes == sum(sizes[code] + LENGTH_BYTES for code in codes.values())
    rows = np.array(sorted(codes))
    assert np.array_equal(episode.bank.read(rows), dataset.train.read(rows))
    with pytest.raises(InputError, match=r"image files as data \(folder:PATH\)"):
        ready(pictures(side=16), *layers)


def test_too_few_bytes_for_every_class_are_refused() -> None:
    with pytest.raises(InputError, match=r"budget: 5 samples \(999 bytes of 192 a sample\) are less than one for each"):
        ready(pictures(), UNEVEN, {"memory": {"budget": "999B"}})


def test_the_check_of_the_store_needs_no_allocation() -> None:
    memory = Memory()
    memory.load(0, np.array([1, 2]), np.array([10, 20]))
    memory.open(5, 40)
    with pytest.raises(BudgetError, match="loading 1 samples of class 1 would hold 41 bytes at the same time"):
        memory.load(1, np.array([3]), np.array([11]))
    memory.load(1, np.array([3]), np.array([10]))
    assert (memory.total_bytes, memory.byte_peak) == (40, 40)
    with pytest.raises(BudgetError, match="41 bytes would be held"):
        memory.resize(np.array([1]), np.array([11]))
    memory.resize(np.array([1]), np.array([5]))
    assert (memory.total_bytes, memory.sizes(np.array([1])).tolist()) == (35, [5])
    with pytest.raises(BudgetError, match="the budget of 40 bytes cannot be lifted"):
        memory.open(5)


def test_equal_steps_trains_as_long_as_raw_samples_of_the_same_bytes() -> None:
    """A quarter of the bytes per sample: four times the samples, and a quarter of the epochs."""
    seen: dict[str, list[int]] = {}
    for codec, equal in (("raw", True), ("ycc420-4", True), ("ycc420-4", False)):
        memory = {"memory": {"budget": "4608B", "codec": codec, "exemplars": 6, "equal_steps": equal}}
        long = {"train": {"epochs": 8, "batch_size": 4}, "finetune": {"epochs": 4}, "policy": "fixed-0.5"}
        prepared = ready(pictures(per_class=40), memory, long)
        events: list[Any] = []
        episode = open_episode(prepared, open_fabric(prepared.config.train), events.append)
        play(episode, prepared, stop=2)
        last = [event for event in events if isinstance(event, EpochEnded) and event.phase == 1]
        epochs = [sum(event.stage == stage for event in last) for stage in ("main", "balanced")]
        seen[f"{codec} {equal}"] = [episode.samples_peak, *epochs]
    assert seen == {"raw True": [24, 8, 4], "ycc420-4 True": [96, 2, 1], "ycc420-4 False": [96, 8, 4]}


def test_phase_0_is_stored_by_the_codec_on_request() -> None:
    prepared = coded("ycc420-5", {"memory": {"codec_phase0": True}})
    episode = opened(prepared)
    [first] = play(episode, prepared, stop=1)
    rows, source = episode._memory.samples().rows, prepared.scenario.bank
    codec = CODECS["ycc420-5"]
    assert (first.codec, first.held_bytes) == ("ycc420-5", len(rows) * (codec.size(source.shape) or 0))
    assert np.array_equal(episode._held.read(rows), codec.decode(codec.encode(source.read(rows)), source.shape))
    assert phase0_key(prepared) != phase0_key(coded("ycc420-5"))
    assert phase0_key(coded("ycc420-5")) == phase0_key(coded("raw"))
    ladder = {"memory": {"codec_phase0": True, "codec": "raw,ycc420-5"}}
    with pytest.raises(InputError, match=r"memory.codec_phase0: true given, but the policy chooses the codec"):
        coded("ycc420-5", ladder)
