"""`remem learn-policy` and what `remem resume` makes of its folder: words, mistakes, Ctrl-C, and a policy to use."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Command
from cli.processes import Interrupt, alive, run_command
from remem.cli.displays.learning import path_text

SETTINGS = ("train.epochs=1", "finetune.epochs=0", "net.hidden=[8]", "train.batch_size=16")
TINY = (
    *(word for pair in SETTINGS for word in ("--set", pair)),
    *("--phases", "2", "--base-classes", "4", "--budget", "40", "--fidelity", "full", "--workers", "1"),
)
LEARN = ("--epochs", "2", "--tasks", "1", "--runs", "2", "--pool", "1")


def policy_of(out: Path) -> Any:
    return json.loads((out / "policy.json").read_text())


def test_it_says_what_it_learns_and_how_it_goes(remem: Command, vectors: str, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    flags = ("--dataset", vectors, *TINY, *LEARN, "--set", "learn.lr_eta=0.5", "--baseline", "leave-one-out")
    said = remem("learn-policy", *flags, "--out", out)
    assert (said.code, said.err) == (0, "")
    lines = [line for line in said.out.splitlines() if not line.startswith("busy")]
    assert lines[:4] == [
        "data     phase 0 of npz:vectors.npz, order seed:0: 4 classes; evaluated on a tenth of their training data, "
        "no test set",
        "tasks    2 classes in phase 0, then 2 phases of 1; M = 24, E = 72",  # 40 and 20 x 6, each x 72 / 120
        "learning rmm; two levels, 2 epochs of 1 tasks (from a pool of 1) x 2 runs, baseline leave-one-out",
        "runs     icarl, fidelity full; seed 0, 1 process",
    ]
    assert lines[4].startswith("cost     ")
    assert lines[5].startswith("epoch 1 of 2, reward ")
    assert lines[6].startswith("epoch 2 of 2, reward ")
    assert re.search(r" phases trained, \d+:\d\d so far$", lines[6])
    path = path_text(json.loads((out / "log.jsonl").read_text().splitlines()[-1])["path"])
    assert f", path {path}, " in lines[6]
    assert lines[-3].startswith("reward   average accuracy ")
    assert lines[-2] == f"path     old shares | harder halves, most probable: {path}"
    assert lines[-1] == f"policy   rmm; use it with `--policy {out}`"
    learn = policy_of(out)["settings"]["learn"]
    assert [learn[key] for key in ("epochs", "tasks", "runs", "pool", "lr_eta")] == [2, 1, 2, 1, 0.5]

    used = remem("run", "--dataset", vectors, *TINY[:-4], "--policy", out, "--quiet", "--out", tmp_path / "run")
    assert used.code == 0, used.err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["policy"]["name"], result["oracle"], result["policy_saw_classes"]) == ("rmm", False, False)

    again = remem("resume", out)
    assert (again.code, again.out.splitlines()[0]) == (
        0,
        f"{out}: this learning is complete; there is nothing left to do",
    )
    assert again.out.splitlines()[-1] == lines[-1]
    assert remem("resume", out, "--quiet", "--workers", 1).out == f"{out}\n"
    changed = remem("learn-policy", *flags, "--runs", 3, "--out", out)
    assert (changed.code, changed.err) == (
        2,
        f"error: {out}: learn.runs is 3, but this learning began with 2; settings cannot change\n",
    )


def test_a_file_has_a_section_for_learning(remem: Command, vectors: str, tmp_path: Path) -> None:
    toml = tmp_path / "mine.toml"
    toml.write_text(f'seed = 4\n[data]\nname = "{vectors}"\n[learn]\nepochs = 1\ntasks = 1\nruns = 9\nlevels = 1\n')
    out = tmp_path / "mine"
    said = remem("learn-policy", toml, *TINY, "--runs", 1, "--quiet", "--out", out)
    assert (said.code, said.out, said.err) == (0, f"{out}\n", "")
    tree = policy_of(out)
    assert (tree["name"], tree["seed"], tree["levels"]) == ("rmm-one-level", 4, 1)
    assert [tree["settings"]["learn"][key] for key in ("epochs", "runs")] == [1, 1]


def test_an_oracle_is_called_an_oracle(remem: Command, vectors: str, tmp_path: Path) -> None:
    out = tmp_path / "best"
    flags = ("--crossval-fixed", "--source", "target", "--pool", 1)
    said = remem("learn-policy", "--dataset", vectors, *TINY, *flags, "--out", out)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    oracle = "(oracle: it sees all classes of the target before they arrive)"
    assert lines[2] == f"learning crossval-fixed {oracle}; compares every fixed share on 1 tasks and keeps the best"
    assert lines[-1] == f"policy   crossval-fixed {oracle}; use it with `--policy {out}`"
    tree = policy_of(out)
    assert (tree["name"], tree["oracle"], tree["kind"]) == ("crossval-fixed", True, "fixed")
    best = tree["old_tenths"] / 10
    assert f"best     {best} of the memory for old classes in every phase" in lines
    table = [line.split() for line in lines[lines.index("") + 3 :]][: len(tree["shares"])]
    assert table == [
        [str(share["old_share"]), f"{100 * share['accuracy']:.2f}", f"{share['reward']:.4f}"]
        for share in tree["shares"]
    ]
    run = remem("run", "--dataset", vectors, *TINY[:-4], "--policy", out, "--out", tmp_path / "run")
    assert run.code == 0, run.err
    assert "policy crossval-fixed (oracle)" in run.out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["oracle"], result["policy_saw_classes"]) == (True, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--levels", "4"], "learn.levels: 4 given; input should be 1, 2 or 3"),
        (["--fidelity", "fast"], "learn.fidelity: 'fast' given; "),
        (["--source", "phase1"], "source: 'phase1' given; expected phase0, target or dataset:NAME"),
        (["--source", "dataset:cifar10"], "no data set named 'cifar10'; did you mean 'cifar100'?"),
        (["--epochs", "0"], "learn.epochs: 0 given; "),
        (["--baseline", "mean"], "learn.baseline: 'mean' given; "),
        (["--set", "learn.lr=1"], "learn.lr: no such setting; there are lr_eta"),
        (["--set", "lern.runs=1"], "lern: no such setting"),
        (["--crossval-fixed", "--pool", "0"], "learn.pool: 0 given; expected at least 1"),
        (["--method", "joint"], "method: joint given, but it shares no memory between old and new"),
        (["--budget", "3"], "budget: 3 samples are less than one for each of the 6 classes"),
        (["--base-classes", "1"], "1 class to make pseudo tasks of; expected at least 2 in phase 0"),
        (["--phases", "9"], "phases: 9 given; expected at most 2"),
        (["--order", "podnet-4"], "podnet-4"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(
    flags: list[str], message: str, remem: Command, vectors: str, tmp_path: Path
) -> None:
    said = remem("learn-policy", "--dataset", vectors, *TINY, *flags, "--out", tmp_path / "out")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.startswith("error: ")
    assert message in said.err
    assert list(tmp_path.iterdir()) == []


def test_runs_and_learnings_are_told_apart(remem: Command, vectors: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    said = remem("resume", tmp_path, "--workers", 2)
    assert (said.code, said.err) == (
        2,
        f"error: --workers: 2 given, but {tmp_path} holds a run; expected a learning or a study\n",
    )
    assert f"--ray: auto given, but {tmp_path} holds a run" in remem("resume", tmp_path, "--ray", "auto").err
    (tmp_path / "config.json").rename(tmp_path / "learning.json")
    said = remem("resume", tmp_path)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "learning.json: not the settings of a learning" in said.err
    said = remem("run", "--dataset", vectors, *TINY[:-4], "--out", tmp_path)
    assert (said.code, said.err) == (
        2,
        f"error: --out: {tmp_path} holds a learning.json of something else; expected a new folder\n",
    )


def test_ctrl_c_stops_the_workers_and_says_how_to_go_on(remem: Command, vectors: str, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    flags = ("--dataset", vectors, *TINY[:-2], *LEARN)
    interrupt = Interrupt(signal.SIGINT, "NodesTrained")
    ended = run_command(tmp_path / "mark", interrupt, "learn-policy", *flags, "--workers", "2", "--out", out)
    assert (ended.code, ended.err) == (
        130,
        f"stopped in the first epoch; every reward so far is kept, go on with `remem resume {out}`\n",
    )
    assert ended.children
    assert not alive(ended.children)
    assert (out / "rewards.jsonl").exists()
    assert not (out / "policy.json").exists()
    assert remem("resume", out, "--quiet", "--workers", 1).out == f"{out}\n"
    assert remem("learn-policy", *flags, "--workers", 1, "--quiet", "--out", whole).code == 0
    assert policy_of(out) == policy_of(whole)


def test_killed_workers_cost_nothing_but_time(remem: Command, vectors: str, tmp_path: Path) -> None:
    """Once: the job is done again. Three times the same job: it is named, and the rest is for `resume`."""
    flags = ("learn-policy", "--dataset", vectors, *TINY[:-2], *LEARN, "--quiet", "--workers")
    assert remem(*flags, 1, "--out", tmp_path / "whole").code == 0
    for times in (1, 3):
        out, interrupt = tmp_path / str(times), Interrupt(signal.SIGKILL, "JobDone", role="worker", times=times)
        ended = run_command(tmp_path / f"mark {times}", interrupt, *flags, 2, "--out", out)
        if times == 3:
            assert (ended.code, ended.err) == (
                1,
                "error: task 0 full, path []: its worker was killed by SIGKILL, 3 times; what is done is kept, "
                "and it can be resumed\n",
            )
            assert remem("resume", out, "--quiet", "--workers", 1).out == f"{out}\n"
        else:
            assert (ended.code, ended.err) == (0, "")
        assert policy_of(out) == policy_of(tmp_path / "whole")
