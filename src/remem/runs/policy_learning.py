"""A policy learned in a folder: Algorithm 1 over pseudo tasks, resumable after every node, at the end a policy."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import remem
from remem.episode import Snapshot
from remem.errors import DamagedFileError, InputError
from remem.policies.files import load_policy, save_policy
from remem.policies.learned import Learned
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.rl.paths import Node, TaskKey, drawn
from remem.rl.reinforce import Ascent, Run, learn
from remem.rl.tree import Forest, Grow, serial
from remem.runs.build import with_absolute_paths
from remem.runs.checkpoint import load_snapshot, save_snapshot, write_atomically
from remem.runs.config import validate
from remem.runs.folder import alone_in, require_same
from remem.runs.learning import LearnConfig, read_learn_settings
from remem.runs.nursery import Nursery
from remem.runs.shelf import DiskShelf
from remem.runs.tasks import Workplace
from remem.seeding import Streams

FORMAT = 1
SETTINGS, CHECKPOINT, REWARDS, LOG, SNAPSHOTS = (
    "learning.json",
    "checkpoint.safetensors",
    "rewards.jsonl",
    "log.jsonl",
    "snapshots",
)
Report = Callable[[dict[str, Any]], None]


def learn_in_folder(config: LearnConfig, out: Path, report: Report, *, workers: int = 1) -> Learned:
    """Begins, goes on with, or where it is complete only reads this very learning; the policy is in `out`."""
    config = config.model_copy(update={"target": with_absolute_paths(config.target)})
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
    with alone_in(out):
        _begin_or_check(config, out)
        if (out / "policy.json").exists():
            return load_policy(out)
        with ExitStack() as stack:
            shelf = DiskShelf(out / SNAPSHOTS, int(config.learn.disk_gigabytes * 1e9))
            workplace = Workplace(config, shelf)
            workplace.check()
            nursery = stack.enter_context(Nursery(config, out / SNAPSHOTS, workers)) if workers > 1 else None
            course = Course(config, workplace, Ledger(out), nursery, report)
            course.run(out)
            save_policy(out, course.ascent.policy, provenance(config, workplace, course.means))
        rmtree(out / SNAPSHOTS, ignore_errors=True)
    return load_policy(out)


def read_learning(out: Path, root: Path | None = None) -> LearnConfig:
    """The settings that a folder's learning began with; `root` is where the data lie now."""
    path = out / SETTINGS
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["format"] != FORMAT:
            raise DamagedFileError(f"{path}: format {tree['format']}, expected {FORMAT}")
        target, learn_tree = validate(tree["target"]), read_learn_settings(tree["learn"])
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: no such file; expected the folder of a policy's learning") from error
    except DamagedFileError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(f"{path}: not the settings of a policy's learning ({error})") from error
    if root is not None:
        target = target.model_copy(update={"data": target.data.model_copy(update={"root": root})})
    return LearnConfig(target=target, learn=learn_tree)


class Course:
    """The epochs of one learning: draws paths, has them run, takes a step."""

    def __init__(
        self, config: LearnConfig, workplace: Workplace, ledger: "Ledger", nursery: Nursery | None, report: Report
    ) -> None:
        self._learn, self._seed = config.learn, config.target.seed
        self._workplace, self._ledger, self._nursery, self._report = workplace, ledger, nursery, report
        grow = serial(workplace.grow) if nursery is None else nursery.grow
        self._forest = Forest(self._told(grow), ledger.read())
        policy = TwoLevelPolicy(PolicySettings(hidden=config.learn.hidden, levels=config.learn.levels), seed=self._seed)
        self.ascent = Ascent(policy, config.learn)
        self.means: list[float] = []
        self._clock = Clock(config.learn.all_epochs)

    def run(self, out: Path) -> None:
        """All epochs that are left."""
        self._resume(out / CHECKPOINT)
        self._clock.begin(len(self.means))

        def after(epoch: int, runs: Sequence[Run]) -> None:
            self.means.append(sum(run.total for run in runs) / len(runs))
            facts = {"means": self.means}
            save_snapshot(out / CHECKPOINT, Snapshot(facts, self.ascent.state()))
            self._tell_epoch(epoch, runs, out)

        learn(self.ascent, self.play, range(len(self.means), self._learn.all_epochs), after)

    def play(self, epoch: int) -> list[Run]:
        """K x Z runs with the policy as it is (lines 5-19); equal seeds draw equal paths, whoever trains them."""
        nodes, choices = list[Node](), []
        for place, number in enumerate(self._learn.tasks_of(epoch)):
            for run in range(self._learn.runs):
                key = self._key(number, epoch, f"{epoch}.{place}.{run}")
                rng = Streams(self._seed, "policy").numpy(epoch, f"task {place} run {run}")
                path, chosen = drawn(self._workplace.outline(key), self.ascent.policy, rng)
                nodes.append((key, path))
                choices.append(chosen)
        rewards = self._forest.rewards(nodes)
        numbers = (str(key.number) for key, _ in nodes)
        return [Run(*parts) for parts in zip(numbers, choices, rewards, strict=True)]

    def _key(self, number: int, epoch: int, run: str) -> TaskKey:
        alone = self._learn.fresh_init or not self._learn.share
        return TaskKey(number, self._learn.fidelity_of(epoch), run if alone else "", self._learn.fresh_init)

    def _told(self, grow: Grow) -> Grow:
        """Every reward is written down as it comes, so that nothing is trained twice after a stop."""

        def grow_and_tell(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
            for done, (node, reward) in enumerate(grow(nodes), start=1):
                self._ledger.write(node, reward)
                epoch = len(self.means)
                share = min(1.0, done / len(nodes))
                left = self._clock.left(epoch + share)
                self._report({"event": "node", "epoch": epoch, "share": share, "left": left, "trained": self.trained})
                yield node, reward

        return grow_and_tell

    @property
    def trained(self) -> int:
        """Phases trained in this session."""
        return self._workplace.trained if self._nursery is None else self._nursery.trained

    def _resume(self, path: Path) -> None:
        if path.exists():
            snapshot = load_snapshot(path)
            try:
                self.means = [float(value) for value in snapshot.facts["means"]]
                self.ascent.load(snapshot.tensors)
            except (KeyError, ValueError, RuntimeError, TypeError) as error:
                raise DamagedFileError(f"{path}: not the checkpoint of this learning ({error})") from error

    def _tell_epoch(self, epoch: int, runs: Sequence[Run], out: Path) -> None:
        key = TaskKey(self._learn.tasks_of(0)[0], self._learn.fidelity_of(epoch))
        path, _ = drawn(self._workplace.outline(key), self.ascent.policy, None)
        length = len(runs[0].rewards)
        event = {
            "event": "epoch",
            "epoch": epoch + 1,
            "epochs": self._learn.all_epochs,
            "fidelity": key.fidelity,
            "reward": self.means[-1] / length,  # as an average accuracy
            "best": max(run.total for run in runs) / length,
            "path": path,
            "trained": self.trained,
            "left": self._clock.left(epoch + 1),
        }
        with open(out / LOG, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
        self._report(event)


@dataclass
class Clock:
    """Time left, from the epochs of this session: later ones find more of their prefixes known, so it errs upwards."""

    epochs: int
    began: float = 0.0
    first: int = 0

    def begin(self, done: int) -> None:
        self.began, self.first = time.perf_counter(), done

    def left(self, done: float) -> float | None:
        fresh = done - self.first
        return None if fresh <= 0 else (time.perf_counter() - self.began) * (self.epochs - done) / fresh


class Ledger:
    """Rewards by node, a line each; a line that was cut off by a stop is trained again."""

    def __init__(self, out: Path) -> None:
        self._path = out / REWARDS

    def read(self) -> dict[Node, float]:
        known: dict[Node, float] = {}
        text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        whole = [line + "\n" for line in text.split("\n")[:-1]]
        for number, line in enumerate(whole, start=1):
            try:
                entry = json.loads(line)
                path = tuple((int(share), int(split)) for share, split in entry["path"])
                known[TaskKey(**entry["task"]), path] = float(entry["reward"])
            except (ValueError, KeyError, TypeError) as error:
                raise DamagedFileError(f"{self._path}: line {number} is not a reward ({error})") from error
        if "".join(whole) != text:
            write_atomically(self._path, "".join(whole).encode())
        return known

    def write(self, node: Node, reward: float) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"task": asdict(node[0]), "path": node[1], "reward": reward}) + "\n")


def provenance(config: LearnConfig, workplace: Workplace, means: Sequence[float]) -> dict[str, Any]:
    """Where a policy comes from, for its file: no path of this machine."""
    target, learned = config.target.public(), config.learn
    kind = learned.source.partition(":")[0]
    data = workplace.dataset
    return {
        "name": "rmm" if learned.levels == 2 else "rmm-one-level",
        "oracle": kind == "target",
        "source": {
            "kind": kind,
            "data": target["data"]["name"] if kind != "dataset" else data.name,
            "classes": [data.class_names[label] for label in workplace.classes],
            "order": None if kind == "dataset" else target["scenario"]["order"],
            "phases": list(learned.phases or (config.target.scenario.phases,)),
            "budget": None if kind == "dataset" else target["memory"]["budget"],
        },
        "method": target["method"],
        "settings": {"learn": learned.model_dump(mode="json"), "target": target},
        "seed": config.target.seed,
        "rewards": list(means),
    }


def _begin_or_check(config: LearnConfig, out: Path) -> None:
    now = {"target": config.target.model_dump(mode="json"), "learn": config.learn.model_dump(mode="json")}
    if (out / SETTINGS).exists():
        before = read_learning(out)
        require_same(out, before.model_dump(mode="json"), now)
        return
    for name in ("policy.json", CHECKPOINT, "config.json", "result.json"):
        if (out / name).exists():
            raise InputError(f"--out: {out} holds a {name} of something else; expected a new folder")
    head = {"format": FORMAT, "remem": remem.__version__}
    write_atomically(out / SETTINGS, json.dumps({**head, **now}, indent=1).encode())
