"""snapshot_cache.py: both caches stay within their limit and drop what was not used for longest."""

import os
from pathlib import Path

from factories import same_tensors
from remem.rl.paths import Node
from remem.rl.snapshot_cache import DiskSnapshotCache, MemorySnapshotCache, size_of
from rl_factories import SNAPSHOT_BYTES, FakeEpisode, make_path, make_task

NODES: list[Node] = [(make_task().key, path) for path in ((), make_path((6, 5)), make_path((8, 2)))]


def test_memory_drops_the_least_recently_used_snapshot() -> None:
    cache = MemorySnapshotCache(2 * SNAPSHOT_BYTES)
    cache.put(NODES[0], FakeEpisode().snapshot())
    cache.put(NODES[1], FakeEpisode().snapshot())
    assert cache.find(NODES[0]) is not None
    cache.put(NODES[2], FakeEpisode().snapshot())
    assert [cache.find(node) is not None for node in NODES] == [True, False, True]
    assert cache.held_bytes == 2 * SNAPSHOT_BYTES
    cache.put(NODES[2], FakeEpisode().snapshot())
    assert cache.held_bytes == 2 * SNAPSHOT_BYTES
    assert size_of(FakeEpisode().snapshot()) == SNAPSHOT_BYTES


def test_disk_drops_the_file_that_was_used_least_recently(tmp_path: Path) -> None:
    """Modification times are set by hand, so that nothing depends on how fast files are written."""
    cache = DiskSnapshotCache(tmp_path, 10**9)
    for age, node in enumerate(NODES[:2]):
        cache.put(node, FakeEpisode().snapshot())
        newest = max(tmp_path.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        os.utime(newest, (age, age))
    assert cache.find(NODES[0]) is not None  # from now on the more recent one
    room = sum(file.stat().st_size for file in tmp_path.iterdir())
    DiskSnapshotCache(tmp_path, room).put(NODES[2], FakeEpisode().snapshot())
    assert [cache.find(node) is not None for node in NODES] == [True, False, True]


def test_every_node_has_a_snapshot_of_its_own(tmp_path: Path) -> None:
    """Paths, tasks, fidelities and runs tell nodes apart; another cache on the same folder finds them."""
    key, path = NODES[1]
    others: list[Node] = [*NODES, (make_task(1).key, path), (make_task(run="x").key, path)]
    for number, node in enumerate(others):
        episode = FakeEpisode()
        episode.actions = [[number, number]]
        DiskSnapshotCache(tmp_path, 10**9).put(node, episode.snapshot())
    for number, node in enumerate(others):
        found = DiskSnapshotCache(tmp_path, 10**9).find(node)
        assert found is not None
        assert found.facts == {"actions": [[number, number]]}
        assert same_tensors(found.tensors, FakeEpisode().snapshot().tensors)
    assert DiskSnapshotCache(tmp_path, 10**9).find((key, make_path((9, 9)))) is None
