"""Makes reported files again and compares every field but seconds: `python results/remake.py NAME...`.

NAME is a path below this folder, with or without .json; a folder stands for all files below it. `--sample 15` draws
files of every kind, `--list` prints the names and their commands. The exit code is 0 if all are equal, 1 if any
differs, 2 if nothing was compared because a name is unknown or data are missing.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from remem.cli.demo import POLICIES as DEMO_POLICIES
from remem.errors import InputError
from remem.events import ignore
from remem.parallel.pool import WorkerPool, open_pool
from remem.policies.files import WEIGHTS
from remem.rl.config import LearnConfig, read_stored_learn_settings
from remem.rl.learn import learn_in_folder
from remem.runs.build import prepare
from remem.runs.config import RunConfig, compose, validate
from remem.runs.devices import resolve_devices
from remem.runs.presets import shipped_configs
from remem.runs.run import RUN
from remem.runs.trees import Tree, value_at
from remem.storage.jsonfile import read_json
from remem.studies.grid import StudyRun, plan_study
from remem.studies.run import RUNS, check_learnings, check_runs, make_jobs
from remem.types import Json

HERE = Path(__file__).parent
ABSENT = object()  # stands for a field that one of two files lacks


@dataclass(frozen=True)
class Stored:
    """A reported file, and the settings that make it."""

    name: str  # path below results/, without .json
    kind: str  # a sample has files of every kind
    command: str
    config: RunConfig | LearnConfig
    run: str  # reported run that names the precision: the file itself, or a run with this policy

    @property
    def target(self) -> RunConfig:
        """The settings of the run, or of the run that the policy is learned for."""
        return self.config.target if isinstance(self.config, LearnConfig) else self.config


def catalogue(results: Path = HERE) -> dict[str, Stored]:
    """Returns all files that can be made again, by name."""
    files = [*demo_files(), *two_device_files(results)]
    for kind in ("studies", "tuning", "unfinished"):
        for folder in sorted(path for path in (results / kind).glob("*") if path.is_dir()):
            files += study_files(folder, f"{kind}/{folder.name}")
    there = (file for file in files if (results / f"{file.name}.json").is_file())
    return {file.name: file for file in sorted(there, key=lambda file: file.name)}


def demo_files() -> Iterator[Stored]:
    for policy in DEMO_POLICIES:
        config, name = compose(shipped("demo"), {"policy": policy}), f"demo/{policy}"
        yield Stored(name, "demo", "remem demo --out DIR", config, name)


def two_device_files(results: Path) -> Iterator[Stored]:
    for path in sorted((results / "two-devices").glob("*-*.json")):
        name, _, seed = f"two-devices/{path.stem}".rpartition("-")
        if seed.isdecimal():
            config, command = compose(shipped(name), {"seed": int(seed)}), f"remem run {name} --seed {seed} --out DIR"
            yield Stored(f"{name}-{seed}", "two-devices", command, config, f"{name}-{seed}")


def study_files(folder: Path, base: str) -> Iterator[Stored]:
    """Runs and learned policies of a study. A run with a learned policy uses the reported one."""
    study = plan_study(shipped(f"studies/{folder.name}"))
    command = f"remem study {folder.name} --out DIR"
    for run in study.runs:
        name, config = f"{base}/runs/{run.name}", run.config
        if run.learning is not None:
            policy = f"policies/{run.learning}"
            config = config.model_copy(update={"policy": str((folder / policy).absolute())})
            learning = study.learnings[run.learning]
            yield Stored(f"{base}/{policy}/policy", f"policies/{run.policy}", command, learning, name)
        yield Stored(name, base, command, config, name)


def shipped(name: str) -> Tree:
    """Reads a config that comes with remem, whatever the working directory holds."""
    texts = shipped_configs()
    if name not in texts:
        raise InputError(f"{name}: reported, but no config of that name comes with remem")
    return tomllib.loads(texts[name])


def named(names: Sequence[str], files: Mapping[str, Stored]) -> list[Stored]:
    """Returns the files with these names, or below them, each once."""
    found: dict[str, Stored] = {}
    for name in names:
        path = name.removesuffix(".json").removesuffix(".safetensors").removeprefix("results/").rstrip("/")
        below = {key: file for key, file in files.items() if key == path or key.startswith(f"{path}/")}
        if not below:
            raise InputError(f"{name}: no reported file that can be made again; expected one of those in --list")
        found |= below
    return list(found.values())


def sample(count: int, seed: int, files: Mapping[str, Stored]) -> list[Stored]:
    """Draws files of every kind in turn: one of each before a second of any."""
    if count < 1:
        raise InputError(f"--sample: {count} given; expected at least 1")
    rng, kinds = Random(seed), sorted({file.kind for file in files.values()})
    left = {kind: [file for file in files.values() if file.kind == kind] for kind in kinds}
    drawn: list[Stored] = []
    while len(drawn) < min(count, len(files)):
        for kind in rng.sample(kinds, len(kinds)):
            if left[kind] and len(drawn) < count:
                drawn.append(left[kind].pop(rng.randrange(len(left[kind]))))
    return sorted(drawn, key=lambda file: file.name)


def remake(chosen: Sequence[Stored], results: Path, out: Path, pool: WorkerPool) -> Iterator[tuple[Stored, str]]:
    """Yields every file with `equal` or what differs, as soon as it is made. Checks all before the first."""
    other = {file.name: reason for file in chosen if (reason := precision_differs(file, results))}
    todo = {file.name: file for file in chosen if file.name not in other}
    learnings = {name: file.config for name, file in todo.items() if isinstance(file.config, LearnConfig)}
    runs = [file for name, file in todo.items() if name not in learnings]
    alone = [file for file in runs if file.target.train.devices > 1]
    planned = [StudyRun(file.name, {}, file.target, file.target.policy) for file in runs if file not in alone]
    checks = check_runs(planned, out)
    check_learnings(learnings)
    for file in alone:
        prepare(file.target)
    yield from ((file, other[file.name]) for file in chosen if file.name in other)
    for name, learning in learnings.items():
        learn_in_folder(learning, (out / name).parent, ignore, pool)
        yield todo[name], verdict(facts_of(results / f"{name}.json"), facts_of(out / f"{name}.json"))
    for job, _ in pool.run(make_jobs(planned, checks, out)):
        if job.name in todo:  # not a shared phase 0
            yield todo[job.name], compare_run(job.name, results, out)
    for file in alone:
        run_command(file, out / RUNS / file.name)
        yield file, compare_run(file.name, results, out)


def run_command(file: Stored, out: Path) -> None:
    """Makes a run on several devices by its command: Fabric starts copies of the whole process."""
    words = [str(out) if word == "DIR" else word for word in file.command.split()[1:]]
    if (out / RUN.settings_file).exists():
        words = ["resume", str(out)]
    done = subprocess.run([sys.executable, "-m", "remem", *words, "--quiet"], stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise InputError(f"{file.name}: `remem {' '.join(words)}` ended with code {done.returncode}")


def compare_run(name: str, results: Path, out: Path) -> str:
    return verdict(facts_of(results / f"{name}.json"), facts_of(out / RUNS / name / "result.json"))


def facts_of(path: Path) -> Json:
    """Reads the fields of a result or of a policy. The weights beside a policy are a digest of their bytes."""
    facts, weights = read_json(path, "result of a run or facts of a policy", format=1), path.with_name(WEIGHTS)
    # settings that did not exist when the file was written have their defaults
    if "config" in facts:
        facts["config"] = validate(facts["config"]).public()
    if "learn" in facts.get("settings", {}):
        facts["settings"]["learn"] = read_stored_learn_settings(facts["settings"]["learn"]).model_dump(mode="json")
        facts["settings"]["target"] = validate(facts["settings"]["target"]).public()
    return facts | ({WEIGHTS: hashlib.sha256(weights.read_bytes()).hexdigest()} if weights.exists() else {})


def precision_differs(file: Stored, results: Path) -> str | None:
    """Says that this machine computes in another precision: nothing could be equal, so nothing is run."""
    path = results / f"{file.run}.json"
    stored = precision(facts_of(path)) if path.is_file() else None
    here = resolve_devices(file.target.train).precision
    return None if stored in (None, here) else other_precision(stored, here)


def precision(result: Json) -> Any:
    return value_at(result, "config.train.precision", None)


def other_precision(stored: Any, here: Any) -> str:
    return f"differs: computed in {stored}, here in {here}; numbers in another precision are not compared"


def verdict(stored: Json, remade: Json) -> str:
    """`equal`, or the first field that differs and how many more there are."""
    if precision(stored) != precision(remade):
        return other_precision(precision(stored), precision(remade))
    found = list(differences(stored, remade))
    if not found:
        return "equal"
    field, old, new = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"differs: {field} stored {shown(old)}, remade {shown(new)}{more}"


def differences(stored: Any, remade: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields every field that is not exactly equal, with both values. Seconds are left out."""
    if isinstance(stored, dict) and isinstance(remade, dict):
        for key in stored | remade:
            if key != "seconds":
                inner = f"{field}.{key}" if field else key
                yield from differences(stored.get(key, ABSENT), remade.get(key, ABSENT), inner)
    elif isinstance(stored, list) and isinstance(remade, list) and len(stored) == len(remade):
        for place, (old, new) in enumerate(zip(stored, remade, strict=True)):
            yield from differences(old, new, f"{field}[{place}]")
    elif type(stored) is not type(remade) or stored != remade:
        yield field, stored, remade


def shown(value: Any) -> str:
    text = "nothing" if value is ABSENT else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."


def main(arguments: Sequence[str] | None = None, results: Path = HERE) -> int:
    parser = argparse.ArgumentParser(description="Makes reported files again and compares every field but seconds.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a path below results/, or a folder")
    parser.add_argument("--sample", type=int, metavar="N", help="N files of every kind instead of names")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--list", action="store_true", help="print what can be made again, and the commands")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the runs here; the same command resumes them")
    parser.add_argument("--workers", type=int, default=1, metavar="K", help="processes")
    options = parser.parse_args(arguments)
    try:
        return run(options, results)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def run(options: argparse.Namespace, results: Path) -> int:
    """Lists or compares what the options choose. Returns the exit code."""
    files = catalogue(results)
    if options.sample is not None and not options.names:
        chosen = sample(options.sample, options.seed, files)
    elif options.names or options.list:
        chosen = named(options.names, files) if options.names else list(files.values())
    else:
        raise InputError("NAME: none given; expected names, folders or --sample N")
    if options.list:
        print("\n".join(f"{file.name}: {file.command}" for file in chosen))
        return 0
    equal = 0
    with (
        TemporaryDirectory() if options.out is None else nullcontext(str(options.out)) as out,
        open_pool(max(1, options.workers), None) as pool,
    ):
        for file, found in remake(chosen, results, Path(out).absolute(), pool):
            equal += found == "equal"
            print(f"{file.name}: {found}", flush=True)
    print(f"{equal} of {len(chosen)} equal")
    return 0 if equal == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
