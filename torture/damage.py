"""Damages every state file: bits flipped, ends cut, parts zeroed, doubled and exchanged, whole files of another run."""

from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

from remem.cli.main import main
from remem.cli.verify import problems
from remem.errors import InputError
from remem.estimator.deletion import read_receipts
from remem.estimator.saved import digest_of, load_stream
from remem.policies.files import load_policy
from remem.rl.learn import identity, read_learning
from remem.rl.reward_log import RewardLog
from remem.runs.model import load_model
from remem.runs.results import load_predictions, load_result
from remem.runs.run import read_config
from remem.storage.pointer import read_pointer
from remem.storage.tensorfile import load_snapshot
from remem.studies.run import read_study
from torture.workloads import QUICK, workloads


@dataclass
class Damage:
    cases: int = 0
    noticed: int = 0
    exchanged: int = 0  # files of other work, which `remem check` must notice
    harmless: int = 0  # the same content is read, such as after a change of white space
    by_file: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def _tensors(path: Path) -> Any:
    snapshot = load_snapshot(path)
    return snapshot.facts, {name: value.numpy().tobytes() for name, value in snapshot.tensors.items()}


def _rewards(path: Path) -> Any:
    return RewardLog(path.parent, identity(*read_learning(path.parent))).read(repair=False)


def _policy(path: Path) -> Any:
    policy = load_policy(path.parent)
    return dict(policy.facts), policy.digest


def _model(path: Path) -> Any:
    model = load_model(path.parent)
    return {name: value.numpy().tobytes() for name, value in model.network.state_dict().items()}


def _stream(path: Path) -> Any:
    return digest_of(load_stream(path.parent))


READERS: dict[str, Callable[[Path], Any]] = {
    "run/config.json": lambda path: read_config(path.parent),
    "run/result.json": lambda path: load_result(path).to_json(),
    "run/checkpoint.safetensors": _tensors,
    "run/model.safetensors": _model,
    "run/predictions.npz": lambda path: {name: array.tolist() for name, array in load_predictions(path).items()},
    "learning/learning.json": lambda path: read_learning(path.parent),
    "learning/rewards.jsonl": _rewards,
    "learning/checkpoint.safetensors": _tensors,
    "learning/policy.json": _policy,
    "learning/policy.safetensors": _policy,
    "study/study.json": lambda path: read_study(path.parent).tree,
    "model/model.json": lambda path: read_pointer(path.parent),
    "model/receipts.jsonl": lambda path: [receipt.to_json() for receipt in read_receipts(path.parent)],
    "model/versions/0002/model.safetensors": _stream,
    "model/versions/0002/exemplars.safetensors": _stream,
}


OF_ONE_OWNER = tuple(  # the pointers of two models may be equal, and receipts name their models by digests
    name for name in READERS if name not in ("model/model.json", "model/receipts.jsonl")
)


def damaged(content: bytes, rng: Random) -> bytes:
    """One of many kinds of damage, anywhere."""
    place, length = rng.randrange(len(content)), rng.choice((1, 2, 16, 512))
    part = content[place : place + length]
    other = rng.randrange(len(content))
    kinds = (
        lambda: content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :],
        lambda: content[:place],
        lambda: content[:place] + bytes(len(part)) + content[place + len(part) :],
        lambda: content[:place] + part + content[place:],
        lambda: content[:place] + content[place + len(part) :],
        lambda: content[:other] + part + content[other + len(part) :],
        lambda: content[:place] + rng.randbytes(len(part)) + content[place + len(part) :],
    )
    return rng.choice(kinds)()


def torture(cases: int, rng: Random, folder: Path) -> Damage:
    """So many cases, in turn over all files; first, each is exchanged for that of other work."""
    tally = Damage()
    _work(folder, seed=0)
    _work(folder / "other", seed=1)
    for name in OF_ONE_OWNER:
        _exchange(name, folder, tally)
    wholes = {name: (folder / name).read_bytes() for name in READERS}
    expected = {name: read(folder / name) for name, read in READERS.items()}
    while tally.cases < cases:
        for name, read in READERS.items():
            path, content = folder / name, damaged(wholes[name], rng)
            if content == wholes[name]:
                continue
            path.write_bytes(content)
            tally.cases += 1
            tally.by_file[name] += 1
            try:
                same = read(path) == expected[name]
            except InputError:
                tally.noticed += 1
            except Exception as error:  # whatever it is, it is a failure
                tally.failures.append(f"{name}: {type(error).__name__}: {error}")
            else:
                tally.harmless += same
                if not same and not _lost_lines(name, path, expected[name]):
                    tally.failures.append(f"{name}: other content was read in silence")
            path.write_bytes(wholes[name])
    return tally


def _work(folder: Path, seed: int) -> None:
    """Makes the folders that are damaged, unless they are there."""
    folder.mkdir(exist_ok=True)
    works, model = workloads(folder, seed), str(folder / "model")
    kinds = dict.fromkeys(name.partition("/")[0] for name in READERS)
    commands = [[*works[kind].start(folder / kind), "--quiet"] for kind in kinds if kind in works]
    if not Path(model).exists():
        commands.append(["update", model, str(folder / "data.npz"), "--budget", "30", *QUICK, "--quiet"])
        commands.append(["forget", model, "--class", str(5 - seed), "--json"])
    for words in commands:
        with suppress(SystemExit), redirect_stdout(StringIO()):
            main(words)


def _exchange(name: str, folder: Path, tally: Damage) -> None:
    kind, path = name.partition("/")[0], folder / name
    own = path.read_bytes()
    path.write_bytes((folder / "other" / name).read_bytes())
    tally.cases += 1
    tally.exchanged += 1
    if problems(kind, folder / kind):
        tally.noticed += 1
    else:
        tally.failures.append(f"{name}: that of other work was not noticed")
    path.write_bytes(own)


def _lost_lines(name: str, path: Path, expected: Any) -> bool:
    """Rewards that are missing are trained again: no wrong one is believed."""
    if name != "learning/rewards.jsonl":
        return False
    found = _rewards(path)
    return all(expected.get(node) == reward for node, reward in found.items())
