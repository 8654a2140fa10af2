"""Policy training in a folder, resumable after every node. A complete folder is a policy folder."""

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from statistics import fmean

from remem.errors import DamagedFileError, InputError
from remem.events import Emit, Notice
from remem.parallel.pool import WorkerPool
from remem.policies.files import load_policy, save_policy
from remem.policies.fixed import Fixed
from remem.policies.learned import Core, Learned
from remem.policies.rmm_codec import ThreeLevelPolicy
from remem.rl.config import LearnConfig, normalized, read_stored_learn_settings, stored_form
from remem.rl.events import NodesTrained, PolicyUpdated
from remem.rl.oracles import compare_fixed, fixed_paths
from remem.rl.paths import TaskKey, sample_path
from remem.rl.pooled_training import PooledTraining
from remem.rl.prefix_tree import RewardCache
from remem.rl.provenance import provenance, provenance_settings, started
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.reward_log import RewardLog, logged
from remem.rl.search import PathSearch, Round
from remem.rl.settings import LearnSettings
from remem.rl.shared_phase0 import SharedPhase0
from remem.rl.snapshot_cache import DiskSnapshotCache
from remem.rl.trainer import Epoch, PolicyTrainer
from remem.runs.config import validate
from remem.runs.devices import limit_threads
from remem.runs.renamed import current_names
from remem.runs.versions import versions
from remem.storage.atomic import sweep
from remem.storage.event_log import LOG, EventLog
from remem.storage.generations import load_generation, previous, save_generation
from remem.storage.jsonfile import differences
from remem.storage.tensorfile import Snapshot
from remem.storage.workdir import WorkDir, WorkKind
from remem.types import Json

CHECKPOINT, POLICY, SNAPSHOTS = "checkpoint.safetensors", "policy.json", "snapshots"


def _migrate(document: Json) -> Json:
    """Migrates a `learning.json` of format 1."""
    settings = {"target": current_names(document["target"]), **current_names({"learn": document["learn"]})}
    return {"format": 2, "settings": settings, "fingerprints": {"data": str(document["data_fingerprint"])}}


LEARNING = WorkKind("learning", "learning.json", {1: _migrate})


def learn_in_folder(
    config: LearnConfig, out: Path, emit: Emit, pool: WorkerPool | None = None, phase0: Path | None = None
) -> Learned:
    """Starts or resumes this policy training or, if it is complete, loads its policy. Saves the policy to `out`.

    Without a pool, nodes are trained one by one in this process. Trainings with the same folder `phase0` share the
    phases 0 of their tasks there.
    """
    config = normalized(config)
    cache = DiskSnapshotCache(out / SNAPSHOTS, int(config.learn.disk_gigabytes * 1e9))
    tasks = PseudoTasks(config, cache, None if phase0 is None else SharedPhase0(phase0))
    folder = WorkDir(out, LEARNING)
    if not folder.exists:
        folder.require_free()
        check_learning(config, tasks)  # before anything is written
    with folder.claim():
        _begin_or_check(config, tasks, folder, emit)
        if (out / POLICY).exists():
            rmtree(out / SNAPSHOTS, ignore_errors=True)  # left by a kill after the policy was saved
            return require_own_policy(out, config)
        sweep(out / SNAPSHOTS)
        limit_threads(config.target.train.threads)  # policy updates must not depend on the pool
        session = Session(config, tasks, out, emit, pool, phase0)
        session.start()
        policy, facts = session.learn()
        session.reward_log.order(session.rewards.known)
        save_policy(out, policy, facts, codecs=codecs_of(policy, tasks.ladder))
        previous(out / CHECKPOINT).unlink(missing_ok=True)
        rmtree(out / SNAPSHOTS, ignore_errors=True)
    return load_policy(out)


def codecs_of(policy: Core, ladder: tuple[str, ...]) -> tuple[str, ...]:
    """The codecs that belong to a policy: the ladder of its rungs, or the codec that was chosen with its share."""
    if isinstance(policy, ThreeLevelPolicy):
        return ladder
    return ladder[policy.rung : policy.rung + 1] if isinstance(policy, Fixed) and len(ladder) > 1 else ()


def identity(config: LearnConfig, fingerprint: str) -> Json:
    """Returns what tells one policy training from another: its settings and its data, wherever these are stored."""
    settings = {"target": config.target.with_effect(), "learn": stored_form(config.learn)}
    return {"settings": settings, "data": fingerprint}


def require_own_policy(out: Path, config: LearnConfig) -> Learned:
    """Returns the policy of a complete training. Raises if it is another training's; settings added later are new."""
    policy = load_policy(out)
    expected = {"settings": provenance_settings(config), "seed": config.target.seed}
    for key, now, then in differences(expected, {name: policy.facts.get(name) for name in expected}):
        if None not in (now, then):
            raise DamagedFileError(
                f"{out / POLICY}: the policy of another learning ({key} is {then!r}, expected {now!r}); "
                "put the right files back, or remove them and resume"
            )
    return policy


def require_own_checkpoint(path: Path, facts: Json, own: Json) -> None:
    """Raises if a checkpoint is of another training. Those of earlier versions do not say."""
    found = next(differences(own, facts.get("identity", own)), None)
    if found is not None:
        raise DamagedFileError(
            f"{path}: the checkpoint of another learning ({found[0]} is {found[2]!r}, expected {found[1]!r}); "
            f"put the right file back, or remove this one and `remem resume {path.parent}` goes on from the rewards"
        )


class Session:
    """Policy training in this process: the trainer, its checkpoint after every epoch, and progress events."""

    def __init__(
        self,
        config: LearnConfig,
        tasks: PseudoTasks,
        out: Path,
        emit: Emit,
        pool: WorkerPool | None,
        phase0: Path | None,
    ) -> None:
        self._config, self._tasks, self._out = config, tasks, out
        self._pooled = None if pool is None else PooledTraining(pool, config, out / SNAPSHOTS, tasks.batches, phase0)
        self._log = EventLog(out / LOG, (PolicyUpdated,))
        self._emit = emit
        train_nodes = tasks.train_nodes if self._pooled is None else self._pooled.train_nodes
        self._identity = identity(config, tasks.dataset.train.fingerprint)
        self.reward_log = RewardLog(out, self._identity)
        known = self.reward_log.read()
        self.rewards = RewardCache(logged(train_nodes, self.reward_log, self._report_nodes), known)
        self.trainer = PolicyTrainer(config, tasks, self.rewards)
        self._time = TimeLeft(config.learn.all_epochs, first_uses(config.learn))
        self._done = 0  # rounds of a search

    def start(self) -> None:
        """Restores the completed epochs and emits the size of the training."""
        path, trainer = self._out / CHECKPOINT, self.trainer
        snapshot = load_generation(path, lambda text: self._emit(Notice(text)))
        if snapshot is not None:
            require_own_checkpoint(path, snapshot.facts, self._identity)
            try:
                trainer.mean_rewards = [float(value) for value in snapshot.facts["means"]]
                trainer.reinforce.load(snapshot.tensors)
            except (KeyError, ValueError, RuntimeError, TypeError) as error:
                raise DamagedFileError(f"{path}: not the checkpoint of this learning ({error})") from error
        done = len(trainer.mean_rewards)
        # An epoch that was logged but not saved before a stop is logged again.
        self._log.trim(lambda entry: isinstance(entry.get("epoch"), int) and entry["epoch"] <= done)
        self._emit(started(self._config, self._tasks, done=done))
        self._time.begin(done)

    def learn(self) -> tuple[Core, Json]:
        """Returns the policy, and where it comes from."""
        config, tasks = self._config, self._tasks
        if config.learn.crossval_fixed:
            fixed, shares = compare_fixed(config.learn, tasks, self.rewards)
            chosen = fixed.old_tenths / 10, fixed.rung
            rewards = [share["reward"] for share in shares if (share["old_share"], share.get("rung", 0)) == chosen]
            return fixed, {**provenance(config, tasks, rewards), "shares": shares}
        if config.learn.search != "reinforce":
            search = self.search()
            return search.policy, provenance(config, tasks, search.mean_rewards)
        self.train()
        return self.trainer.policy, provenance(config, tasks, self.trainer.mean_rewards)

    def train(self) -> None:
        """Trains the remaining epochs."""
        for epoch in self.trainer.train():
            event = self._event(epoch)
            self._log(event)
            facts = {"means": self.trainer.mean_rewards, "identity": self._identity}
            save_generation(self._out / CHECKPOINT, Snapshot(facts, self.trainer.reinforce.state()))
            self._emit(event)

    def search(self) -> PathSearch:
        """Runs all rounds of a search for one path. Those of an earlier session find their rewards in the log."""
        search = PathSearch(self._config, self._tasks, self.rewards)
        for done in search.rounds():
            self._done = done.index + 1
            event = self._round_event(done, search.length)
            self._log(event)
            self._emit(event)
        return search

    def _round_event(self, done: Round, rewards: int) -> PolicyUpdated:
        return PolicyUpdated(
            epoch=done.index + 1,
            epochs=self._config.learn.all_epochs,
            fidelity=self._config.learn.fidelity,
            reward=fmean(done.values) / rewards,
            best=max(done.values) / rewards,
            path=tuple(action.key() for action in done.best),
            loss=None,
            entropy=None,
            grad_norm=None,
            trained=self._trained,
            left=self._time.left(done.index + 1),
        )

    def _event(self, epoch: Epoch) -> PolicyUpdated:
        learn = self._config.learn
        key = TaskKey(learn.tasks_of(0)[0], learn.fidelity_of(epoch.index))
        path, _ = sample_path(self._tasks.path_task(key), self.trainer.policy, None)
        accuracies = [run.total / len(run.rewards) for run in epoch.runs]
        return PolicyUpdated(
            epoch=epoch.index + 1,
            epochs=learn.all_epochs,
            fidelity=key.fidelity,
            reward=fmean(accuracies),
            best=max(accuracies),
            path=tuple(action.key() for action in path),
            **epoch.update._asdict(),
            trained=self._trained,
            left=self._time.left(epoch.index + 1),
        )

    def _report_nodes(self, share: float) -> None:
        epoch = max(self._done, len(self.trainer.mean_rewards))
        self._emit(NodesTrained(epoch, share, self._time.left(epoch + share), self._trained))

    @property
    def _trained(self) -> int:
        """Phases trained in this session."""
        return (self._tasks if self._pooled is None else self._pooled).trained


@dataclass
class TimeLeft:
    """Extrapolates the remaining seconds from the latest half of the epochs.

    Later epochs are faster, since they find more rewards in the cache. The first ones, `slow` in number, take many
    times as long and say nothing about the others.
    """

    epochs: int
    slow: int = 0
    ends: dict[int, float] = field(default_factory=dict)  # when every epoch of this session ended

    def begin(self, done: int) -> None:
        self.ends = {done: time.perf_counter()}

    def left(self, done: float) -> float | None:
        """Seconds after `done` epochs; None in the slow ones."""
        now, first = time.perf_counter(), min(self.ends)
        if done == int(done):
            self.ends.setdefault(int(done), now)
        settled = first + self.slow
        if done <= settled:
            return None
        since = max(epoch for epoch in self.ends if epoch <= max(settled, (first + done) / 2))
        return (now - self.ends[since]) * (self.epochs - done) / (done - since)


def first_uses(learn: LearnSettings) -> int:
    """Epochs that train phases 0, where these take much longer than the rest of an epoch."""
    if learn.fidelity != "features" or not learn.pool or learn.all_epochs == 1:
        return 0
    return math.ceil(learn.pool / learn.tasks) if learn.search == "reinforce" else 1


def check_learning(config: LearnConfig, tasks: PseudoTasks) -> None:
    """Raises if settings or data are invalid, before anything is trained."""
    tasks.check()
    if config.learn.levels == 3 and len(tasks.ladder) < 2:
        raise InputError(f"learn.levels: 3 given, but memory.codec has one codec, {tasks.ladder[0]}; expected several")
    full = (tasks.task(TaskKey(number, "full")) for number in range(config.learn.pool))
    if config.learn.crossval_fixed and not fixed_paths(list(full)):
        raise InputError("budget: it leaves no fixed share feasible in any phase of any task; expected a larger one")


def read_learning(out: Path, root: Path | None = None) -> tuple[LearnConfig, str]:
    """Returns the settings and the data fingerprint of a training folder. `root` replaces the stored data root."""
    begun = WorkDir(out, LEARNING).read()
    try:
        target = validate(begun.settings["target"])
        learn = read_stored_learn_settings(begun.settings["learn"])
    except (InputError, KeyError, TypeError) as error:
        raise DamagedFileError(f"{out / LEARNING.settings_file}: not the settings of a learning ({error})") from error
    if root is not None:
        target = target.model_copy(update={"data": target.data.model_copy(update={"root": root})})
    return LearnConfig(target=target, learn=learn), begun.fingerprints.get("data", "")


def _begin_or_check(config: LearnConfig, tasks: PseudoTasks, folder: WorkDir, emit: Emit) -> None:
    now = config.model_dump(mode="json")
    if not folder.exists:
        folder.begin(now, {"data": tasks.dataset.train.fingerprint}, versions())
        return
    before, fingerprint = read_learning(folder.path)
    folder.require_same_settings(before.model_dump(mode="json"), now)
    if not (folder.path / POLICY).exists():
        if (changed := folder.changed_versions(folder.read().versions, versions())) is not None:
            emit(Notice(changed))
        check_learning(config, tasks)
        folder.require_same_data({"data": fingerprint}, {"data": tasks.dataset.train.fingerprint})
