"""provenance.py: what a learned policy is called and where it says it comes from."""

import json
from pathlib import Path
from typing import Any

import pytest

from factories import blobs, write_npz
from remem.events import ignore
from remem.rl.learn import learn_in_folder
from remem.rl.provenance import policy_name, provenance, started
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.settings import LearnSettings
from remem.rl.snapshot_cache import MemorySnapshotCache
from rl_factories import learn_config, reward_lines


@pytest.mark.parametrize(
    ("learn", "name", "oracle"),
    [
        ({"levels": 1}, "rmm-one-level", False),
        ({"source": "target"}, "rmm-upper-bound", True),
        ({"source": "dataset:npz:{}"}, "rmm-transferred", False),
        ({"source": "target", "levels": 1}, "rmm-one-level-upper-bound", True),
    ],
)
def test_a_policy_is_named_after_its_source_and_its_levels(
    learn: dict[str, Any], name: str, oracle: bool, npz: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.npz"
    write_npz(other, blobs(classes=6, per_class=10, spread=2.0))
    given: dict[str, Any] = {k: v.format(other) if isinstance(v, str) else v for k, v in learn.items()}
    out = tmp_path / "out"
    policy = learn_in_folder(learn_config(npz, None, **given, epochs=1, tasks=1, runs=1), out, ignore)
    assert (policy.name, policy.oracle) == (name, oracle)
    source = policy.facts["source"]
    transferred = name == "rmm-transferred"
    assert source["data"] == ("npz:other.npz" if transferred else "npz:blobs.npz")
    assert len(source["classes"]) == (8 if oracle else 6)
    assert (source["order"], source["budget"]) == ((None, None) if transferred else ("natural", 40))
    assert str(tmp_path) not in (out / "policy.json").read_text()
    if "levels" in learn:
        assert all(split == 5 for line in reward_lines(out) for _, split in line["path"])


@pytest.mark.parametrize(
    ("learn", "name"),
    [
        ({}, "rmm"),
        ({"levels": 1, "source": "dataset:digits"}, "rmm-one-level-transferred"),
        ({"crossval_fixed": True}, "crossval-fixed"),
        ({"crossval_fixed": True, "source": "target", "levels": 1}, "crossval-fixed"),
    ],
)
def test_names(learn: dict[str, Any], name: str) -> None:
    assert policy_name(LearnSettings.model_validate(learn)) == name


def test_provenance_has_all_settings_and_no_path(npz: Path) -> None:
    config = learn_config(npz, source=f"dataset:npz:{npz}", epochs=7)
    tasks = PseudoTasks(config, MemorySnapshotCache(0))
    facts = provenance(config, tasks, [1.5, 2.0])
    assert facts["rewards"] == [1.5, 2.0]
    assert facts["seed"] == config.target.seed
    assert facts["settings"]["learn"] == {**config.learn.model_dump(mode="json"), "source": "dataset:npz:blobs.npz"}
    assert facts["settings"]["target"]["data"]["name"] == "npz:blobs.npz"
    assert facts["method"] == facts["settings"]["target"]["method"]
    assert str(npz.parent) not in json.dumps(facts)
    assert str(npz.parent) not in json.dumps(started(config, tasks, done=0).to_json())
