"""One learning, epoch after epoch or share after share: draws paths, has them run, keeps what it must not lose."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from remem.episode import Snapshot
from remem.errors import DamagedFileError
from remem.policies.fixed import Fixed
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.rl.oracles import best_fixed, fixed_paths
from remem.rl.paths import Node, TaskKey, drawn
from remem.rl.reinforce import Ascent, Run, learn
from remem.rl.tree import Forest, serial
from remem.runs.checkpoint import load_snapshot, save_snapshot, write_atomically
from remem.runs.learning import LearnConfig
from remem.runs.ledger import Ledger, recorded
from remem.runs.nodes import CrewGrower
from remem.runs.tasks import Workplace
from remem.seeding import Streams

CHECKPOINT, LOG = "checkpoint.safetensors", "log.jsonl"
Report = Callable[[dict[str, Any]], None]


def read_log(out: Path) -> list[dict[str, Any]]:
    """What `log.jsonl` says of every epoch; lines that were cut off or damaged are left out."""
    events: list[dict[str, Any]] = []
    if (out / LOG).exists():
        for line in (out / LOG).read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and "epoch" in event:
                    events.append(event)
    return events


class Course:
    """One learning: the epochs of Algorithm 1, or the comparison of all fixed shares."""

    def __init__(
        self, config: LearnConfig, workplace: Workplace, ledger: Ledger, grower: CrewGrower | None, report: Report
    ) -> None:
        self._learn, self._seed = config.learn, config.target.seed
        self._workplace, self._grower, self._report = workplace, grower, report
        grow = serial(workplace.grow) if grower is None else grower.grow
        self._forest = Forest(recorded(grow, ledger, self._tell_node), ledger.read())
        policy = TwoLevelPolicy(PolicySettings(hidden=config.learn.hidden, levels=config.learn.levels), seed=self._seed)
        self.ascent = Ascent(policy, config.learn)
        self.means: list[float] = []
        self._clock = Clock(config.learn.all_epochs)

    def resume(self, out: Path) -> None:
        """Takes over the epochs that are behind it."""
        path = out / CHECKPOINT
        if path.exists():
            snapshot = load_snapshot(path)
            try:
                self.means = [float(value) for value in snapshot.facts["means"]]
                self.ascent.load(snapshot.tensors)
            except (KeyError, ValueError, RuntimeError, TypeError) as error:
                raise DamagedFileError(f"{path}: not the checkpoint of this learning ({error})") from error
        # An epoch that was logged just before a stop, and not yet kept, is told again.
        kept = [json.dumps(event) + "\n" for event in read_log(out) if event["epoch"] <= len(self.means)]
        write_atomically(out / LOG, "".join(kept).encode())

    def run(self, out: Path) -> TwoLevelPolicy:
        """All epochs that are left."""
        self._clock.begin(len(self.means))

        def after(epoch: int, runs: Sequence[Run]) -> None:
            self.means.append(fmean(run.total for run in runs))
            event = self._epoch_event(epoch, runs)
            with open(out / LOG, "a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")
            save_snapshot(out / CHECKPOINT, Snapshot({"means": self.means}, self.ascent.state()))
            self._report(event)

        learn(self.ascent, self.play, range(len(self.means), self._learn.all_epochs), after)
        return self.ascent.policy

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

    def compare(self) -> tuple[Fixed, list[dict[str, float]]]:
        """Every fixed share on every task of the pool: the best one, and what each of them got."""
        self._clock.begin(0)
        numbers = range(self._learn.pool)
        paths = fixed_paths([self._workplace.outline(self._key(number, 0, "")) for number in numbers])
        runs = [
            (self._key(number, 0, f"fixed.{tenths}"), path)
            for tenths, ways in paths.items()
            for number, path in zip(numbers, ways, strict=True)
        ]
        rewards = iter(self._forest.rewards(runs))
        by_share = {tenths: [next(rewards) for _ in numbers] for tenths in paths}
        shares = [
            {
                "old_share": tenths / 10,
                "reward": fmean(map(sum, tasks)),
                "accuracy": fmean(map(fmean, tasks)),
            }
            for tenths, tasks in by_share.items()
        ]
        return Fixed(best_fixed({t: [sum(task) for task in tasks] for t, tasks in by_share.items()})), shares

    def _key(self, number: int, epoch: int, run: str) -> TaskKey:
        alone = self._learn.fresh_init or not self._learn.share
        return TaskKey(number, self._learn.fidelity_of(epoch), run if alone else "", self._learn.fresh_init)

    @property
    def trained(self) -> int:
        """Phases trained in this session."""
        return (self._workplace if self._grower is None else self._grower).trained

    def _tell_node(self, share: float) -> None:
        epoch = len(self.means)
        left = self._clock.left(epoch + share)
        self._report({"event": "node", "epoch": epoch, "share": share, "left": left, "trained": self.trained})

    def _epoch_event(self, epoch: int, runs: Sequence[Run]) -> dict[str, Any]:
        key = TaskKey(self._learn.tasks_of(0)[0], self._learn.fidelity_of(epoch))
        path, _ = drawn(self._workplace.outline(key), self.ascent.policy, None)
        accuracies = [run.total / len(run.rewards) for run in runs]
        return {
            "event": "epoch",
            "epoch": epoch + 1,
            "epochs": self._learn.all_epochs,
            "fidelity": key.fidelity,
            "reward": fmean(accuracies),  # as an average accuracy
            "best": max(accuracies),
            "path": path,
            "trained": self.trained,
            "left": self._clock.left(epoch + 1),
        }


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
