"""files.py, learned.py and table.py: policies are saved and loaded whole, and damage is reported in one line."""

import hashlib
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

from remem import __version__
from remem.action import Action, State
from remem.errors import DamagedFileError, InputError
from remem.policies.files import load_policy, save_policy
from remem.policies.fixed import Fixed, fixed_meant
from remem.policies.learned import Learned, untrained
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.policies.table import FOLDERS, POLICIES, ZOO, policy_folder, require_policy, resolve_policy
from remem.rl.config import compose_learning, normalized, read_stored_learn_settings
from remem.runs.config import validate
from remem.runs.presets import read_toml, shipped_configs
from remem.seeding import Streams
from remem.storage.jsonfile import unseal, write_json

SOURCE = {"kind": "phase0", "data": "cifar100", "classes": ["bear", "apple"], "order": "lucir", "phases": [5]}
PROVENANCE: dict[str, Any] = {
    "name": "learned",
    "oracle": False,
    "source": {**SOURCE, "budget": 7000},
    "method": {"name": "lucir", "scale": 8.0},
    "settings": {"epochs": 2, "entropy": 0.0},
    "seed": 3,
    "rewards": [3.25, 3.5],
}
STATES = [
    State(phase, new, 50, tenths, 7000, 2000, 500 * new, tuple(range(2, 10)), splits)
    for phase, tenths in ((1, 0), (2, 2), (3, 5), (4, 9), (5, 1))
    for new in (2, 10)
    for splits in (True, False)
]


def perturbed(levels: int = 2, hidden: int = 8, seed: int = 0) -> TwoLevelPolicy:
    """A policy that is not uniform any more."""
    policy = TwoLevelPolicy(PolicySettings(hidden=hidden, levels=levels))
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws))
    return policy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_policy(tmp_path / "saved", perturbed(), PROVENANCE)
    return tmp_path / "saved"


@pytest.mark.parametrize("levels", [1, 2])
def test_a_saved_policy_acts_as_before_and_knows_where_it_comes_from(levels: int, tmp_path: Path) -> None:
    policy = perturbed(levels)
    save_policy(tmp_path / "deep" / "down", policy, {**PROVENANCE, "minutes": 7})
    loaded = load_policy(tmp_path / "deep" / "down")
    assert [loaded.act(state) for state in STATES] == [policy.choose(state)[0] for state in STATES]
    assert (loaded.name, loaded.oracle) == ("learned", False)
    content = (tmp_path / "deep" / "down" / "policy.safetensors").read_bytes()
    own = {"format": 1, "remem": __version__, "kind": "two-level", "levels": levels, "hidden": 8}
    own["sha256"] = hashlib.sha256(content).hexdigest()
    assert loaded.provenance() == {**PROVENANCE, **own, "minutes": 7}
    assert loaded.provenance() == plain(tmp_path / "deep" / "down" / "policy.json")


def test_a_fixed_policy_has_no_weights_file(tmp_path: Path) -> None:
    source = {**PROVENANCE["source"], "kind": "target"}
    save_policy(tmp_path, Fixed(7), {**PROVENANCE, "name": "crossval-fixed", "oracle": True, "source": source})
    assert [file.name for file in tmp_path.iterdir()] == ["policy.json"]
    loaded = load_policy(tmp_path)
    assert (loaded.name, loaded.oracle) == ("crossval-fixed", True)
    assert {loaded.act(state) for state in STATES} == {Action(old_tenths=7)}
    assert (loaded.provenance()["kind"], loaded.provenance()["old_tenths"]) == ("fixed", 7)
    assert "levels" not in loaded.provenance()
    with pytest.raises(InputError, match=r"^sample_actions: true given, but policy 'crossval-fixed' has no"):
        loaded.sampling(0)


@pytest.mark.parametrize("tenths", [1, 9])
def test_the_longest_name_and_the_outermost_shares_are_accepted(tenths: int, tmp_path: Path) -> None:
    save_policy(tmp_path, Fixed(tenths), {**PROVENANCE, "name": "x" * 100})
    loaded = load_policy(tmp_path)
    assert (loaded.name, loaded.act(STATES[0])) == ("x" * 100, Action(old_tenths=tenths))
    save_policy(tmp_path, TwoLevelPolicy(PolicySettings(hidden=1)), {**PROVENANCE, "name": "x"})
    assert load_policy(tmp_path).name == "x"


def test_equal_policies_are_equal_files(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    loaded = load_policy(folder)
    backwards = {key: value for key, value in reversed(list(loaded.provenance().items()))}
    assert isinstance(loaded.core, TwoLevelPolicy)
    save_policy(other, loaded.core, backwards)  # what a policy says of itself can be handed over as it is
    for name in ("policy.json", "policy.safetensors"):
        assert (other / name).read_bytes() == (folder / name).read_bytes()
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4000  # a few hundred numbers and some words
    assert load_policy(other).digest == loaded.digest


@pytest.mark.parametrize("change", [{"seed": 4}, {"name": "x"}, {"oracle": True}, {"rewards": [3.25]}])
def test_the_digest_covers_all_facts_and_the_weights(change: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    save_policy(tmp_path / "changed", perturbed(), PROVENANCE | change)
    save_policy(tmp_path / "weights", perturbed(seed=1), PROVENANCE)
    digests = {load_policy(path).digest for path in (folder, tmp_path / "changed", tmp_path / "weights")}
    assert len(digests) == 3
    assert untrained("x").digest is None
    one, other = (Learned(Fixed(3), dict(facts)) for facts in ([("format", 1), ("a", 2)], [("a", 2), ("format", 1)]))
    assert one.digest == other.digest == hashlib.sha256(b'{"a": 2, "format": 1}').hexdigest()


def test_the_facts_are_one_line_of_plain_json(folder: Path, tmp_path: Path) -> None:
    """Sorted and without spaces. NaN, which is no JSON, becomes null wherever it is allowed at all."""
    text = (folder / "policy.json").read_text()
    assert text.startswith('{"format":1,"hidden":8,"kind":"two-level","levels":2,"method":{"name":"lucir",')
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    nan = float("nan")
    given = {"settings": {"deep": [nan]}, "method": {"scale": nan}, "minutes": nan, "shares": [{"reward": nan}]}
    save_policy(tmp_path / "new", Fixed(3), {**PROVENANCE, **given, "source": {**PROVENANCE["source"], "budget": nan}})
    assert "NaN" not in (tmp_path / "new" / "policy.json").read_text()
    assert load_policy(tmp_path / "new").facts["minutes"] is None


def test_a_loaded_policy_cannot_be_trained_by_accident(folder: Path) -> None:
    core = load_policy(folder).core
    assert isinstance(core, TwoLevelPolicy)
    assert not any(parameter.requires_grad for parameter in core.parameters())


def test_sampling_draws_from_the_stream_of_the_runs_seed(folder: Path) -> None:
    policy = load_policy(folder)
    assert isinstance(policy.core, TwoLevelPolicy)
    for seed in (0, 7):
        sampled = policy.sampling(seed)
        for state in STATES:
            rng = Streams(seed, "policy").numpy(state.phase, "act")
            assert sampled.act(state) == policy.core.choose(state, rng)[0]
        assert sampled.provenance() == {**policy.provenance(), "sampled": True}
    assert "sampled" not in policy.provenance()
    drawn = {policy.sampling(seed).act(STATES[0]) for seed in range(20)}
    assert len(drawn) > 3


def test_loading_touches_no_global_randomness(folder: Path) -> None:
    before = torch.random.get_rng_state()
    load_policy(folder).sampling(1).act(STATES[0])
    assert torch.equal(torch.random.get_rng_state(), before)


class PowerCut(OSError):
    """The process ends at this moment."""


@pytest.mark.parametrize("moment", range(4))
def test_a_stop_at_any_moment_leaves_a_whole_policy_or_none(
    moment: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files are fsynced, then two are put in place; one of these four steps fails."""
    steps = iter(range(4))
    sync, replace = os.fsync, Path.replace

    def counted(do: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            if next(steps) == moment:
                raise PowerCut(5, "power cut")
            return do(*arguments)

        return step

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", counted(sync))
        patched.setattr(Path, "replace", counted(replace))
        with pytest.raises(InputError, match=r"the policy cannot be written \(power cut\)"):
            save_policy(folder, perturbed(seed=5), {**PROVENANCE, "name": "second"})
    assert not list(folder.glob("*.part"))
    if moment < 2:
        assert load_policy(folder).name == "learned"
    else:
        with pytest.raises(DamagedFileError, match=r"no policy\.json in it; expected the folder of a policy"):
            load_policy(folder)
    save_policy(folder, perturbed(seed=5), {**PROVENANCE, "name": "second"})
    assert load_policy(folder).name == "second"


def test_a_policy_replaces_another_and_nothing_else(folder: Path) -> None:
    (folder / "log.jsonl").write_text("mine")
    save_policy(folder, Fixed(3), PROVENANCE)
    assert {file.name for file in folder.iterdir()} == {"policy.json", "log.jsonl"}
    assert load_policy(folder).act(STATES[0]) == Action(old_tenths=3)


def plain(path: Path) -> dict[str, Any]:
    """The facts of a policy without their checksum."""
    return unseal(json.loads(path.read_text()), path)


def facts_with(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        tree = plain(folder / "policy.json")
        tree |= changes
        write_json(folder / "policy.json", {k: v for k, v in tree.items() if v != "absent"})

    return change


def facts_are(text: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / "policy.json").write_bytes(text)


def weights_are(content: bytes) -> Callable[[Path], None]:
    """Other weights under a checksum that fits them."""

    def change(folder: Path) -> None:
        (folder / "policy.safetensors").write_bytes(content)
        facts_with(sha256=hashlib.sha256(content).hexdigest())(folder)

    return change


def tensors_with(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        tensors = load_file(folder / "policy.safetensors")
        change(tensors)
        weights_are(save(tensors))(folder)

    return write


def cut_short(folder: Path) -> None:
    path = folder / "policy.safetensors"
    path.write_bytes(path.read_bytes()[:-7])


class Trap:
    """What a pickle could do."""

    def __reduce__(self) -> Any:
        return (os.mkdir, ("trapped",))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no facts": (lambda folder: (folder / "policy.json").unlink(), "no policy.json in it; expected the folder"),
    "no weights": (lambda folder: (folder / "policy.safetensors").unlink(), "policy.safetensors: cannot be read"),
    "cut short": (cut_short, "policy.safetensors: does not match its checksum in policy.json"),
    "no json": (facts_are(b"{..."), "policy.json: not the facts of a policy (Expecting property name"),
    "no text": (facts_are(b"\xff\xfe\x00"), "policy.json: not the facts of a policy ('utf-8' codec"),
    "deep": (facts_are(b"[" * 100_000), "policy.json: not the facts of a policy (nested more than 100 deep"),
    "a list": (facts_are(b"[1]"), "policy.json: not the facts of a policy"),
    "other format": (facts_with(format=2), "policy.json: format 2, expected 1"),
    "no format": (facts_with(format="absent"), "policy.json: not the facts of a policy ('format')"),
    "no name": (facts_with(name="absent"), "policy.json: 'name': Field required"),
    "bad name": (facts_with(name="a\u001b[2J"), "policy.json: 'name': Value error, must be printable"),
    "empty name": (facts_with(name=""), "policy.json: 'name': String should have at least 1 character"),
    "long name": (facts_with(name="x" * 101), "policy.json: 'name': String should have at most 100 characters"),
    "no source": (facts_with(source={"kind": "phase0"}), "policy.json: 'source.data': Field required"),
    "other kind": (facts_with(kind="four-level"), "policy.json: 'kind': Input should be 'two-level'"),
    "levels": (facts_with(levels=3), "policy.json: 'levels': Input should be 1 or 2"),
    "too wide": (facts_with(hidden=10**12), "policy.json: 'hidden': Input should be less than or equal to 4096"),
    "no units": (facts_with(hidden=0), "policy.json: 'hidden': Input should be greater than or equal to 1"),
    "rewards": (facts_with(rewards=["nan"]), "policy.json: 'rewards.0': Input should be a finite number"),
    "no share": (facts_with(kind="fixed", old_tenths=10), "policy.json: 'old_tenths': Input should be less than"),
    "share of 0": (facts_with(kind="fixed", old_tenths=0), "policy.json: 'old_tenths': Input should be greater than"),
    "denies": (facts_with(source={**SOURCE, "kind": "target", "budget": 1}), "learned on the target itself"),
    "other width": (facts_with(hidden=9), "not the weights of a two-level policy with 9 hidden units"),
    "one less": (tensors_with(lambda t: t.pop("eta.0.bias")), "not the weights of a two-level policy"),
    "other type": (tensors_with(lambda t: t.update({"eta.0.bias": t["eta.0.bias"].double()})), "not the weights"),
    "not finite": (tensors_with(lambda t: t["eta.0.bias"].fill_(np.nan)), "holds weights that are not finite"),
    "no safetensors": (weights_are(b"nothing"), "policy.safetensors: not a safetensors file"),
    "a pickle": (weights_are(pickle.dumps(Trap())), "policy.safetensors: not a safetensors file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported_in_one_line(damage: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    change, message = DAMAGES[damage]
    change(folder)
    with pytest.raises(DamagedFileError) as caught:
        load_policy(folder)
    assert message in str(caught.value)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("trapped").exists()


def test_a_missing_policy_folder_is_reported(folder: Path) -> None:
    for path in (folder / "below", folder / "policy.json"):
        with pytest.raises(DamagedFileError, match="no such folder; expected the folder of a policy"):
            load_policy(path)


def test_a_policy_that_cannot_be_saved_is_reported(tmp_path: Path) -> None:
    lacking = {key: value for key, value in PROVENANCE.items() if key != "seed"}
    with pytest.raises(InputError, match=r"^policy: 'seed': Field required$"):
        save_policy(tmp_path / "x", perturbed(), lacking)
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: the policy cannot be written"):
        save_policy(tmp_path / "file", perturbed(), PROVENANCE)


def test_policies_are_found_by_name_or_by_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    for text in (str(folder), "saved", "saved/", "./saved", "~/saved"):
        assert resolve_policy(text, 0).name == "learned"
    assert resolve_policy("fixed-0.6", 0) == Fixed(6)
    folder.rename(folder.with_name("rmm"))
    assert policy_folder("rmm") is None  # a registered name stays what it is
    assert resolve_policy("rmm", 0).name == "rmm"
    assert resolve_policy("./rmm", 0).name == "learned"


def test_unknown_policies_name_both_possibilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        resolve_policy("rrm", 0)
    assert str(caught.value) == "policy: no folder 'rrm', and no policy named 'rrm'; did you mean 'rmm'?"
    with pytest.raises(InputError, match=r"^policy: no folder '', and no policy named ''; known: auto, fixed-0\.1, "):
        resolve_policy("", 0)
    with pytest.raises(DamagedFileError, match=r"^runs/rmm: no such folder; expected the folder of a policy"):
        resolve_policy("runs/rmm", 0)


MEANT = {
    "fixed-60": 6,
    "fixed-60%": 6,
    "fixed-6": 6,
    "fixed-.6": 6,
    "fixed-0.60": 6,
    "fixed-0,6": 6,
    "fixed0.6": 6,
    "fixed-0.65": 6,
    "fixed-5%": 1,
    "fixed-1%": 1,
    "fixed-1.0": 9,
    "fixed-100": 9,
    "fixed-0": 1,
    "fixed-1": 1,
}


@pytest.mark.parametrize("text", MEANT)
def test_other_spellings_of_a_fixed_share_are_understood(text: str) -> None:
    meant = f"fixed-0.{MEANT[text]}"
    for asked in (text, f"{text}@ycc420"):
        with pytest.raises(InputError, match=f"no policy named '{re.escape(text)}'; did you mean '{meant}'"):
            require_policy(asked)
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        resolve_policy(text, 0)


def test_checking_a_name_reads_no_policy(folder: Path) -> None:
    for known in (str(folder), f"{folder}@raw", "fixed-0.6", "rmm", "auto", "static@ladder"):
        require_policy(known)
    with pytest.raises(InputError, match="codec: no codec named 'rw'; did you mean 'raw'"):
        require_policy("fixed-0.6@rw")
    with pytest.raises(DamagedFileError, match=r"^runs/rmm: no such folder; expected the folder of a policy"):
        require_policy("runs/rmm")
    assert fixed_meant("fixd-60") is fixed_meant("fixed-much") is fixed_meant("fixed-" + 30 * "9") is None


def test_actions_are_sampled_on_request(folder: Path) -> None:
    sampled = resolve_policy(str(folder), 7, sample=True)
    assert [sampled.act(state) for state in STATES] == [load_policy(folder).sampling(7).act(s) for s in STATES]
    for name in ("static", "fixed-0.6"):
        with pytest.raises(InputError, match=rf"^sample_actions: true given, but policy '{name}' has no probab"):
            resolve_policy(name, 0, sample=True)


def test_the_random_policy_samples_feasible_actions_by_the_runs_seed() -> None:
    state = State(2, 10, 60, 5, 7000, 2000, 5000, (2, 3, 4, 5, 6), splits=True)
    one, same, other = (resolve_policy("random", seed) for seed in (4, 4, 5))
    assert [one.act(s) for s in STATES] == [same.act(s) for s in STATES]
    assert [one.act(s) for s in STATES] != [other.act(s) for s in STATES]
    drawn = [resolve_policy("random", seed).act(state) for seed in range(300)]
    assert {action.old_tenths for action in drawn} == {4, 5, 6}
    assert {action.level2_tenths for action in drawn} == set(range(1, 10))
    assert resolve_policy("random", 4, sample=True).provenance() == one.provenance()
    assert one.provenance()["sampled"] is True


def test_the_untrained_policy_takes_half_and_never_changes_it() -> None:
    policy = resolve_policy("rmm-untrained", 9)
    assert policy.act(STATES[0]) == Action(old_tenths=5, level2_tenths=5)
    assert policy.act(State(2, 10, 60, 7, 7000, 2000, 5000, (5, 6, 7, 8), splits=True)) == Action(old_tenths=7)
    assert policy.provenance()["source"] is None


LEVELS = {
    "rmm-cifar100": 2,
    "rmm-mini-imagenet": 2,
    "rmm-one-level-cifar100": 1,
    "rmm-without-finetuning": 2,
    "rmm-codec": 3,
    "rmm-glyphs": 2,
    "rmm-one-level-glyphs": 1,
}


@pytest.mark.parametrize("name", ["rmm", "rmm-one-level"])
def test_the_policy_that_is_recommended_is_one_of_the_zoo(name: str) -> None:
    rmm, same = POLICIES[name].build(), POLICIES[FOLDERS[name]].build()
    assert rmm.provenance() == same.provenance() | {"name": name}
    assert [rmm.act(state) for state in STATES] == [same.act(state) for state in STATES]


def test_every_folder_of_the_zoo_is_a_policy() -> None:
    assert {folder.name for folder in ZOO.iterdir()} == LEVELS.keys()


@pytest.mark.parametrize(("name", "levels"), LEVELS.items())
def test_learned_policies_ship(name: str, levels: int) -> None:
    policy = POLICIES[name].build()
    assert isinstance(policy, Learned)
    assert (policy.name, policy.provenance()["levels"], policy.oracle) == (name, levels, False)
    assert sum(file.stat().st_size for file in (ZOO / name).iterdir()) < 20_000


@pytest.mark.parametrize("name", [name for name in shipped_configs() if name.startswith("policies/")])
def test_a_config_makes_every_policy_that_was_learned_on_photographs(name: str) -> None:
    """`remem learn-policy policies/NAME` has the settings that the policy states."""
    tree = read_toml(Path(name))
    config = normalized(compose_learning(tree))
    policy = POLICIES[name.removeprefix("policies/")].build()
    assert isinstance(policy, Learned)
    stated = policy.facts["settings"]
    assert read_stored_learn_settings(stated["learn"]) == config.learn
    assert validate(stated["target"]).public() == config.target.public()
