"""A policy learned in a folder: Algorithm 1 over pseudo tasks, resumable after every node, at the end a policy."""

import json
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

import remem
from remem.errors import DamagedFileError, InputError
from remem.policies.files import load_policy, save_policy
from remem.policies.learned import Learned
from remem.rl.paths import TaskKey
from remem.runs.build import limit_threads, with_absolute_paths
from remem.runs.checkpoint import write_atomically
from remem.runs.config import beside_others, validate
from remem.runs.course import CHECKPOINT, LOG, Course, Report
from remem.runs.crew import Crew
from remem.runs.folder import alone_in, require_same
from remem.runs.learning import LearnConfig, LearnSettings, read_learn_settings
from remem.runs.ledger import REWARDS, Ledger
from remem.runs.nodes import CrewGrower
from remem.runs.shelf import DiskShelf
from remem.runs.tasks import Workplace

FORMAT = 1
SETTINGS, POLICY, SNAPSHOTS = "learning.json", "policy.json", "snapshots"
# Without settings of ours these are somebody else's.
OTHERS = (POLICY, CHECKPOINT, REWARDS, LOG, "config.json", "result.json", "study.json")
SUFFIX = {"phase0": "", "target": "-upper-bound", "dataset": "-transferred"}


def learn_in_folder(config: LearnConfig, out: Path, report: Report, crew: Crew | None = None) -> Learned:
    """Begins, goes on with, or where it is complete only reads this very learning; the policy is in `out`.

    Without a crew everything is trained in this process, one node after another.
    """
    config = settled(config)
    workplace = Workplace(config, DiskShelf(out / SNAPSHOTS, int(config.learn.disk_gigabytes * 1e9)))
    if not (out / SETTINGS).exists():
        _require_free(out)
        workplace.check()  # a mistake leaves nothing behind
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
    with alone_in(out):
        _begin_or_check(config, workplace, out)
        if (out / POLICY).exists():
            return load_policy(out)
        limit_threads(config.target.train.threads)  # the policy's own steps too are the same, whoever trains the nodes
        grower = None if crew is None else CrewGrower(crew, config, out / SNAPSHOTS)
        course = Course(config, workplace, Ledger(out), grower, report)
        course.resume(out)
        report(outline(config, workplace, done=len(course.means)))
        if config.learn.crossval_fixed:
            fixed, shares = course.compare()
            rewards = [share["reward"] for share in shares if share["old_share"] == fixed.old_tenths / 10]
            save_policy(out, fixed, {**provenance(config, workplace, rewards), "shares": shares})
        else:
            save_policy(out, course.run(out), provenance(config, workplace, course.means))
        rmtree(out / SNAPSHOTS, ignore_errors=True)
    return load_policy(out)


def settled(config: LearnConfig) -> LearnConfig:
    """Settings that mean the same from any folder; no policy plays a part where one is learned."""
    kind, learn = config.learn.source.partition(":")[0], config.learn
    if kind == "dataset":
        name = with_absolute_paths(config.on_source).data.name
        learn = learn.model_copy(update={"source": f"{kind}:{name}"})
    none = {"policy": "static", "policy_sha256": None, "sample_actions": False}
    target = beside_others(with_absolute_paths(config.target)).model_copy(update=none)
    return LearnConfig(target=target, learn=learn)


def read_learning(out: Path, root: Path | None = None) -> tuple[LearnConfig, str]:
    """The settings and the data fingerprint that a folder's learning began with; `root` is where the data lie now."""
    path = out / SETTINGS
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["format"] != FORMAT:
            raise DamagedFileError(f"{path}: format {tree['format']}, expected {FORMAT}")
        target, learned = validate(tree["target"]), read_learn_settings(tree["learn"])
        fingerprint = str(tree["data_fingerprint"])
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: no such file; expected the folder of a policy's learning") from error
    except DamagedFileError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFileError(f"{path}: not the settings of a policy's learning ({error})") from error
    if root is not None:
        target = target.model_copy(update={"data": target.data.model_copy(update={"root": root})})
    return LearnConfig(target=target, learn=learned), fingerprint


def outline(config: LearnConfig, workplace: Workplace, *, done: int) -> dict[str, Any]:
    """What is going to be learned, in plain numbers: the event `begin`."""
    learned = config.learn
    examples = [workplace.task(TaskKey(number, "full")) for number in range(len(learned.phases or (0,)))]
    return {
        "event": "begin",
        "name": policy_name(learned),
        "oracle": learned.source == "target",
        "source": learned.source.partition(":")[0],
        "data": config.on_source.public()["data"]["name"],
        "classes": len(workplace.classes),
        "tasks": [
            {
                "sizes": [len(phase.classes) for phase in task.scenario.phases],
                "kind": task.budget.kind,
                "budget": task.budget.amount,
                "exemplars": task.budget.exemplars,
            }
            for task in examples
        ],
        "epochs": learned.all_epochs,
        "done": done,
    }


def policy_name(learned: LearnSettings) -> str:
    """What a policy is called, by what it is (protocol 3)."""
    if learned.crossval_fixed:
        return "crossval-fixed"
    kind = learned.source.partition(":")[0]
    return ("rmm" if learned.levels == 2 else "rmm-one-level") + SUFFIX[kind]


def provenance(config: LearnConfig, workplace: Workplace, means: Sequence[float]) -> dict[str, Any]:
    """Where a policy comes from, for its file: no path of this machine."""
    target, learned = config.target.public(), config.learn.model_dump(mode="json")
    kind = config.learn.source.partition(":")[0]
    data = config.on_source.public()["data"]["name"]
    if kind == "dataset":
        learned["source"] = f"dataset:{data}"
    return {
        "name": policy_name(config.learn),
        "oracle": kind == "target",
        "source": {
            "kind": kind,
            "data": data,
            "classes": [workplace.dataset.class_names[label] for label in workplace.classes],
            "order": None if kind == "dataset" else target["scenario"]["order"],
            "phases": list(config.learn.phases or (config.target.scenario.phases,)),
            "budget": None if kind == "dataset" else target["memory"]["budget"],
        },
        "method": target["method"],
        "settings": {"learn": learned, "target": target},
        "seed": config.target.seed,
        "rewards": list(means),
    }


def _require_free(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: {out} is a file; expected a folder")
    for name in OTHERS:
        if (out / name).exists():
            raise InputError(f"--out: {out} holds a {name} of something else; expected a new folder")


def _begin_or_check(config: LearnConfig, workplace: Workplace, out: Path) -> None:
    now = config.model_dump(mode="json")
    if not (out / SETTINGS).exists():
        head = {"format": FORMAT, "remem": remem.__version__, "data_fingerprint": workplace.dataset.train.fingerprint}
        try:
            write_atomically(out / SETTINGS, json.dumps({**head, **now}, indent=1).encode())
        except OSError as error:
            raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
        return
    before, fingerprint = read_learning(out)
    require_same(out, before.model_dump(mode="json"), now)
    if not (out / POLICY).exists():
        workplace.check()
        if workplace.dataset.train.fingerprint != fingerprint:
            raise InputError(f"{out}: the data have changed since this learning began; going on needs the same data")
