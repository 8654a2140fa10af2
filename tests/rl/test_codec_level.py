"""The codec level: states and actions with rungs, the three-level policy, and learning it on pseudo tasks."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import MultiDiscrete

from factories import IMAGES, UNEVEN, facts_of, opened, pictures, play, ready, write_npz
from remem.action import Action, State
from remem.codecs.table import CODECS
from remem.errors import InputError
from remem.events import ignore
from remem.memory.allocation import decide
from remem.memory.allocator import Allocator, canonical, follow
from remem.memory.budget import Budget, PhaseFacts
from remem.policies.files import load_policy, save_policy
from remem.policies.path import FixedPath
from remem.policies.rmm_codec import ThreeLevelPolicy
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.env import make_pseudo_cil
from remem.rl.learn import learn_in_folder
from remem.rl.paths import Task, TaskKey, follow_path, sample_path
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.runs.build import prepare
from remem.runs.run import run
from rl_factories import make_path, make_task

# 1200 bytes: 12, 20 and 60 samples
LADDER = Budget("bytes", 1200, 8, ((100,), (60,), (20,)))
PHASES = [PhaseFacts(4, 40), PhaseFacts(2, 20), PhaseFacts(2, 20), PhaseFacts(2, 20)]
CODECS_USED = ("raw", "ycc420-5", "half-ycc420")


def state_after(*actions: Action) -> State:
    """The state before the next phase."""
    steps = list(follow(LADDER, PHASES[: len(actions) + 2], FixedPath((*actions, Action())).act))
    return steps[-1].state


def ladder_task(number: int = 0) -> Task:
    """Four classes in phase 0, then two phases of two."""
    return replace(make_task(number), budget=LADDER)


def test_every_rung_has_its_own_budget_and_feasible_shares() -> None:
    state = state_after()
    assert [rung.budget for rung in state.rungs] == [12, 20, 60]
    assert (state.budget, state.rung, state.reachable_rungs) == (12, 0, (0, 1, 2))
    assert [state.at(rung).budget for rung in range(3)] == [12, 20, 60]
    # 40 of 60 samples are old at 0.7 or more: a tenth more than the 20 new ones need would stay empty below 0.6
    assert state.at(2).feasible == (6, 7, 8, 9)
    assert state.at(0).feasible == (3, 4, 5, 6, 7, 8)


def test_later_phases_stay_or_go_one_rung_down() -> None:
    first = Action(6, 5, 1)
    state = state_after(first)
    assert (state.rung, state.budget, state.reachable_rungs) == (1, 20, (1, 2))
    assert state.depth == 0.5
    assert decide(state, Action(6, 5, 0)).rung == 1  # what is coarse cannot become exact again
    assert decide(state, Action(6, 5, 0)).clamped
    assert decide(state, Action(6, 5, 2)) == replace(decide(state, Action(6, 5, 2)), rung=2, old_total=36)
    assert state_after(Action(6, 5, 2)).reachable_rungs == (2,)
    assert state_after(Action(6, 5, 0)).reachable_rungs == (0, 1)


def test_rungs_too_small_for_every_class_cannot_be_chosen() -> None:
    state = replace(state_after(), old_classes=11, new_classes=2)
    assert state.reachable_rungs == (1, 2)
    assert decide(state, Action(5)).rung == 1
    later = replace(state, phase=2, rung=0, old_classes=30)
    assert later.reachable_rungs == (2,)  # two rungs at once, since no other holds enough
    with pytest.raises(InputError, match="60 samples are less than one for each of the 72 classes"):
        decide(replace(state, old_classes=70), Action(5))


def test_keys_of_the_paper_s_actions_stay_as_they_are() -> None:
    assert Action(6, 4).key() == (6, 4)
    assert Action(6, 4, 2).key() == (6, 4, 2)
    assert Action.from_key((6, 4, 2)) == Action(6, 4, 2)
    assert Action.from_indices((5, 3, 2)) == Action(6, 4, 2)
    assert canonical(state_after(Action(6, 5, 1)), Action(7, 5, 0)) == Action(7, 5, 1)
    assert Action(9, 9, 0).nearest(state_after(Action(6, 5, 1))) == Action(7, 9, 1)


def test_the_untrained_policy_is_uniform_over_rungs() -> None:
    policy = ThreeLevelPolicy(3)
    action, choice = policy.choose(state_after())
    assert action.rung == 0  # ties go to the exact one
    chances = [policy.log_prob([choice._replace(codec=rung)]).item() for rung in range(3)]
    assert chances[0] == chances[1] == chances[2]
    levels = policy.levels.log_prob([choice.levels]).item()
    assert chances[0] - levels == pytest.approx(np.log(1 / 3), abs=1e-6)
    later = policy.choose(state_after(Action(6, 5, 2)))[1]
    assert later.feasible == (True, False)
    assert policy.log_prob([later]).item() == pytest.approx(policy.levels.log_prob([later.levels]).item(), abs=1e-6)


def test_sampled_paths_keep_the_rules_and_have_the_probability_that_they_are_sampled_with() -> None:
    torch.manual_seed(0)
    policy, rng = ThreeLevelPolicy(3), np.random.default_rng(0)
    for parameter in policy.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    seen: dict[int, int] = {}
    for _ in range(400):
        path, choices = sample_path(ladder_task(), policy, rng)
        assert all(after.rung - before.rung in (0, 1) for before, after in pairwise(path))
        assert torch.isfinite(policy.log_prob(choices)).all()
        seen[path[0].rung] = seen.get(path[0].rung, 0) + 1
    first = policy.choose(state_after())[1]
    inner = policy.levels.log_prob([first.levels]).item()
    expected = [np.exp(policy.log_prob([first._replace(codec=rung)]).item() - inner) for rung in range(3)]
    found = [seen.get(rung, 0) / 400 for rung in range(3)]
    assert np.abs(np.array(found) - expected).max() < 0.1  # four standard deviations of 400 draws


def test_gradients_reach_all_three_levels() -> None:
    policy = ThreeLevelPolicy(3, seed=1)
    _, choices = sample_path(ladder_task(), policy, np.random.default_rng(1))
    policy.log_prob(choices).sum().backward()
    heads = (policy.kappa_first, policy.kappa_change, policy.levels.eta_first, policy.levels.eta_change)
    assert all(head.bias.grad is not None and head.bias.grad.abs().sum() > 0 for head in heads)
    assert policy.entropy(choices).shape == (len(choices),)


PROVENANCE: dict[str, Any] = {
    **{"name": "rmm-codec", "oracle": False, "source": None, "method": {}, "settings": {}, "seed": 0, "rewards": []},
}


def test_a_three_level_policy_is_saved_with_its_ladder(tmp_path: Path) -> None:
    policy = ThreeLevelPolicy(3, seed=2)
    torch.nn.init.normal_(policy.kappa_first.weight)
    save_policy(tmp_path, policy, PROVENANCE, codecs=CODECS_USED)
    loaded = load_policy(tmp_path)
    assert loaded.codecs == CODECS_USED
    assert loaded.act(state_after()) == policy.choose(state_after())[0]
    facts = json.loads((tmp_path / "policy.json").read_text())
    assert (facts["kind"], facts["levels"], facts["codecs"]) == ("three-level", 3, list(CODECS_USED))
    save_policy(tmp_path / "copy", loaded.core, loaded.provenance())
    assert (tmp_path / "copy" / "policy.json").read_bytes() == (tmp_path / "policy.json").read_bytes()
    with pytest.raises(InputError, match="'codecs'"):
        save_policy(tmp_path, policy, PROVENANCE)


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "pictures.npz"
    write_npz(path, pictures(classes=8, per_class=12, side=16))
    return path


def config(npz: Path, layer: dict[str, Any] | None = None, **learn: Any) -> LearnConfig:
    quick = {
        "data": {"name": f"npz:{npz}"},
        "scenario": {"phases": 2, "base_classes": 6, "order": "natural"},
        "memory": {"budget": "20kB", "exemplars": 16, "codec": ",".join(CODECS_USED)},
        "train": {"epochs": 1, "batch_size": 16},
        "finetune": {"epochs": 1},
    }
    whole = {"epochs": 2, "tasks": 1, "runs": 4, "pool": 1, "levels": 3, "fidelity": "features", **learn}
    return compose_learning(IMAGES, quick, layer or {}, {"learn": whole})


def test_batched_runs_equal_episodes_on_features_of_every_rung(npz: Path) -> None:
    """All heads of a level together, against one episode after another."""
    together, alone = (
        PseudoTasks(config(npz, batched=batched), MemorySnapshotCache(10**9)) for batched in (True, False)
    )
    key = TaskKey(0, "features")
    paths = [
        make_path((6, 5), (6, 5)),
        tuple(map(Action.from_key, [(6, 5, 1), (6, 5, 1)])),
        tuple(map(Action.from_key, [(6, 7, 1), (7, 5, 2)])),
        tuple(map(Action.from_key, [(8, 5, 2), (8, 5, 2)])),
    ]
    paths = [follow_path(together.task(key), FixedPath(path).act) for path in paths]
    assert {action.rung for path in paths for action in path} == {0, 1, 2}
    nodes = [(key, path[:depth]) for path in paths for depth in range(3)]
    assert together.batches(key)
    assert not alone.batches(key)
    assert dict(together.train_nodes(nodes)) == pytest.approx(dict(alone.train_nodes(nodes)), abs=1e-9)


def test_batched_runs_equal_episodes_where_phase_0_is_stored_by_the_codec(npz: Path) -> None:
    layer = {"memory": {"codec": "half-ycc420", "codec_phase0": True}}
    together, alone = (
        PseudoTasks(config(npz, layer, batched=batched, levels=2), MemorySnapshotCache(10**9))
        for batched in (True, False)
    )
    key = TaskKey(0, "features")
    path = follow_path(together.task(key), FixedPath((Action(6),)).act)
    nodes = [(key, path[:depth]) for depth in range(3)]
    assert dict(together.train_nodes(nodes)) == pytest.approx(dict(alone.train_nodes(nodes)), abs=1e-9)


def test_features_of_a_rung_are_those_of_decoded_samples(npz: Path) -> None:
    tasks = PseudoTasks(config(npz), MemorySnapshotCache(10**9))
    assert tasks.ladder == CODECS_USED
    bank = tasks.task(TaskKey(0, "features")).scenario.bank
    rows = np.arange(bank.next_row)
    exact = bank.read(rows)
    for codec in CODECS_USED[1:]:
        coded = bank.fresh_copy()
        assert coded.keep(rows, codec).tolist() == [CODECS[codec].size((16, 16, 3))] * len(rows)
        assert not np.array_equal(coded.read(rows), exact)
        coded.drop(rows)
        assert np.array_equal(coded.read(rows), exact)


def test_learning_resumes_and_its_policy_runs(npz: Path, tmp_path: Path) -> None:
    learned = learn_in_folder(config(npz), tmp_path / "policy", ignore)
    assert (learned.name, learned.codecs) == ("rmm-codec", CODECS_USED)
    target = config(npz).target.model_copy(update={"policy": str(tmp_path / "policy")})
    prepared = prepare(target)
    assert prepared.ladder == CODECS_USED
    result = run(prepared)
    assert all(phase.codec in CODECS_USED for phase in result.phases)
    assert all((phase.held_bytes or 0) <= 20_000 for phase in result.phases[1:])
    raw = target.model_copy(update={"memory": target.memory.model_copy(update={"codec": "ycc420-4"})})
    with pytest.raises(InputError, match="codec: ycc420-4 given, but policy 'rmm-codec' stores samples as raw,"):
        prepare(raw)


def test_crossval_compares_pairs_of_share_and_codec(npz: Path, tmp_path: Path) -> None:
    chosen = learn_in_folder(config(npz, crossval_fixed=True), tmp_path / "pairs", ignore)
    facts: Any = chosen.provenance()
    shares = facts["shares"]
    assert {entry["rung"] for entry in shares} == {0, 1, 2}
    best = max(shares, key=lambda entry: entry["reward"])
    assert facts["kind"] == "fixed-codec"
    assert chosen.codecs == (CODECS_USED[best["rung"]],) or best["reward"] == facts["rewards"][0]
    target = config(npz).target.model_copy(update={"policy": str(tmp_path / "pairs")})
    single = target.model_copy(update={"memory": target.memory.model_copy(update={"codec": "raw"})})
    assert prepare(single).ladder == chosen.codecs


def test_one_codec_is_nothing_to_choose_from(npz: Path, tmp_path: Path) -> None:
    single = config(npz)
    memory = single.target.memory.model_copy(update={"codec": "ycc420"})
    single = single.model_copy(update={"target": single.target.model_copy(update={"memory": memory})})
    with pytest.raises(InputError, match=r"learn.levels: 3 given, but memory.codec has one codec, ycc420"):
        learn_in_folder(single, tmp_path / "policy", ignore)


def test_leaving_a_rung_encodes_what_was_decoded() -> None:
    """Rung 1 in phase 1, rung 2 in phase 2: exemplars of phase 0 go through both codecs."""
    memory = {"memory": {"budget": "6kB", "exemplars": 6, "codec": "raw,ycc420-5,half-ycc420"}}
    prepared = ready(pictures(side=16), UNEVEN, memory, {"train": {"epochs": 1}, "finetune": {"epochs": 0}})
    episode, phases = opened(prepared), prepared.scenario.phases
    source = prepared.scenario.bank
    play(episode, prepared, stop=1)
    one = episode.advance(phases[1], Action(5, 5, 1))
    assert (one.codec, one.budget) == ("ycc420-5", 25)
    snapshot = episode.snapshot()
    two = episode.advance(phases[2], Action(5, 5, 2))
    assert (two.codec, two.budget) == ("half-ycc420", 62)
    rows = episode._memory.rows(0)
    fine, coarse = CODECS["ycc420-5"], CODECS["half-ycc420"]
    once = fine.decode(fine.encode(source.read(rows)), source.shape)
    assert np.array_equal(episode.bank.read(rows), coarse.decode(coarse.encode(once), source.shape))
    three = episode.advance(phases[3], Action(5, 5, 0))
    assert three.codec == "half-ycc420"
    again = opened(prepared)
    again.restore(snapshot)
    assert facts_of(again.advance(phases[2], Action(5, 5, 2))) == facts_of(two)


def test_the_environment_has_a_third_number_and_a_third_component(npz: Path) -> None:
    settings = {
        "scenario.base_classes": 6,
        "memory.budget": "20kB",
        "memory.codec": ",".join(CODECS_USED),
        "train.epochs": 1,
        "finetune.epochs": 0,
        "net": IMAGES["net"],
    }
    env = make_pseudo_cil(dataset=f"npz:{npz}", phases=2, pool=1, fidelity="features", settings=settings)
    assert env.action_space == MultiDiscrete([9, 9, 3])
    observation, info = env.reset(options={"task": 0})
    assert observation.shape == (3,)
    assert info["action_mask"].tolist()[18:] == [True, True, True]
    observation, _, _, _, info = env.step(np.array([5, 4, 1]))
    assert observation[2] == 0.5
    assert info["carried_out"].tolist()[2] == 1
    assert info["action_mask"].tolist()[18:] == [False, True, True]
    _, _, done, _, info = env.step(np.array([5, 4, 0]))
    assert done
    assert info["carried_out"].tolist()[2] == 1
    assert info["clamped"]


def test_budgets_in_samples_have_one_rung() -> None:
    assert Allocator(Budget("fixed", 40, 16), [4]).observe(PhaseFacts(2, 18)).rungs == ()
