"""`remem plan`: its tables agree with the run that it speaks of."""

import json
import re
from pathlib import Path

import pytest

from cli.conftest import TINY, Command
from factories import pictures, write_folder
from remem.cli.console import size
from remem.cli.plan import old_quotas, spans
from remem.runs.cost import Machine
from remem.runs.dry_run import OldQuotas, PlannedPhase
from remem.runs.estimate import Trial

TRIAL = Trial({"main": 0.01}, {"main": 0.02}, 0.001, 1, 1, 1, 1, 8)
FLAGS = (*TINY, "--budget", 30, "--exemplars", 10, "--policy", "fixed-0.6")


def test_the_plan_agrees_with_the_run(remem: Command, vectors: str, tmp_path: Path) -> None:
    said = remem("plan", "--dataset", vectors, *FLAGS)
    assert (said.code, said.err) == (0, "")
    assert "6 classes: 3 in phase 0, then 2 phases of 2, 1" in said.out.splitlines()[0]
    remem("run", "--dataset", vectors, *FLAGS, "--out", tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    rows = [line.split() for line in said.out.splitlines() if re.match(r" +\d", line)]
    assert len(rows) == 3
    for row, phase in zip(rows, result["phases"], strict=True):
        budget, share = ("-", "-") if phase["budget"] is None else ("30", "0.60")
        arriving = (60, 40, 20)[phase["phase"]]
        cells = [phase["phase"], phase["classes_seen"], arriving, budget, share, phase["held_old"], phase["held_new"]]
        assert row[:-1] == [str(cell) for cell in cells]
        assert re.fullmatch(r"\d+:\d\d", row[-1])
    assert re.search(
        r"^time     [0-9.]+( to [0-9.]+)? (s|min) on cpu, estimated from a few batches$", said.out, re.MULTILINE
    )
    assert "memory   at most 720 bytes of samples held in phases 1 to 2" in said.out  # 30 vectors of 6 floats
    assert "peak about 48" in said.out
    assert not (tmp_path / "result.json").exists()


def test_shares_that_hold_the_same(remem: Command, vectors: str) -> None:
    """The 40 new samples of the larger phase fit beside 60 old ones of 100, but not beside 39 of 79."""
    note = "note     all new samples fit beside an old share of 0.6: lower shares hold the same"
    plans = {}
    for share in ("0.3", "0.6"):
        said = remem("plan", "--dataset", vectors, *TINY, "--budget", 100, "--policy", f"fixed-{share}").out
        assert note in said.splitlines()
        plans[share] = [line.split()[5:7] for line in said.splitlines() if re.match(r" +\d.* 0:", line)]
    assert len(plans["0.3"]) == 3
    assert plans["0.3"] == plans["0.6"]
    assert "lower shares" not in remem("plan", "--dataset", vectors, *TINY, "--budget", 79).out


def test_phases_in_a_row_are_written_as_one() -> None:
    assert [spans(numbers) for numbers in ([], [4], [1, 2, 3, 5, 7, 8])] == ["", "4", "1-3, 5, 7-8"]


def test_samples_per_class(remem: Command, vectors: str) -> None:
    said = remem("plan", "--dataset", vectors, *FLAGS, "--quiet")
    lines = said.out.splitlines()
    start = next(place for place, line in enumerate(lines) if "per new class" in line)
    assert [line.split(maxsplit=2) for line in lines[start + 2 : start + 5]] == [
        ["0", "20", "-"],
        ["1", "6", "0: 6 / 6"],  # 18 for three classes, 12 for two
        ["2", "12", "0: 3-4 / 4, 1: 4 / 3"],  # 10.8 of 18 for phase 0: 11, 7.3 of them for its harder half: 7
    ]
    assert lines[0].split()[0] == "phase"


def test_json(remem: Command, vectors: str, tmp_path: Path) -> None:
    tree = json.loads(remem("plan", "--dataset", vectors, *FLAGS, "--json").out)
    remem("run", "--dataset", vectors, *FLAGS, "--out", tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert tree["config"] == result["config"]
    assert tree["oracle"] is False
    for planned, phase in zip(tree["phases"], result["phases"], strict=True):
        for key in ("phase", "classes_seen", "budget", "action", "held_old", "held_new"):
            assert planned[key] == phase[key]
    for name in ("seconds", "seconds_low", "seconds_high"):
        assert tree[name] == pytest.approx(sum(phase[name] for phase in tree["phases"]))
    for part in (tree, *tree["phases"]):
        assert part["seconds_low"] <= 0.8 * part["seconds"] * 1.001
        assert part["seconds_high"] >= 1.3 * part["seconds"] * 0.999
    assert tree["bytes"]["held"] == 720
    parts = {name: count for name, count in tree["bytes"].items() if name not in ("held", "peak")}
    assert tree["bytes"]["peak"] == sum(parts.values())


@pytest.mark.parametrize(("load", "seconds", "busy"), [(0.0, "8 to 13 s", 0), (1.9, "8 to 19 s", 1)])
def test_a_busy_machine_is_named(
    remem: Command, vectors: str, monkeypatch: pytest.MonkeyPatch, load: float, seconds: str, busy: int
) -> None:
    """10 seconds in all on one of two cores, 0.8 to 1.3 times; with a load of 1.9, 1.45 times as long."""
    monkeypatch.setattr("remem.runs.estimate.try_out", lambda *given: TRIAL)
    monkeypatch.setattr("remem.runs.estimate.estimate_seconds", lambda *given: [4.0, 3.0, 3.0])
    monkeypatch.setattr("remem.runs.cost.machine_now", lambda: Machine(2, load))
    lines = remem("plan", "--dataset", vectors, *FLAGS).out.splitlines()
    assert f"time     {seconds} on cpu, estimated from a few batches" in lines
    line = "busy     other programs use about 1.9 of 2 cores: it will take longer than on a quiet machine"
    assert lines.count(line) == busy


@pytest.mark.parametrize(
    ("flags", "held"),
    [
        (("--method", "joint"), [(0, 60), (60, 40), (100, 20)]),
        (("--method", "lwf", "--set", "method.replay=false"), [(0, 60), (0, 30), (0, 20)]),
    ],
    ids=["all", "none"],
)
def test_methods_that_share_nothing(
    remem: Command, vectors: str, flags: tuple[str, ...], held: list[tuple[int, int]]
) -> None:
    tree = json.loads(remem("plan", "--dataset", vectors, *FLAGS, *flags, "--json").out)
    assert [(phase["held_old"], phase["held_new"]) for phase in tree["phases"]] == held
    assert [phase["action"] for phase in tree["phases"]] == [None] * 3
    assert tree["oracle"] == ("joint" in flags)


def test_notes_say_what_the_numbers_leave_out(remem: Command, vectors: str) -> None:
    said = remem("plan", "--dataset", vectors, *TINY, "--budget", 7, "--policy", "fixed-0.9", "--method", "mnemonics")
    assert "note     the time that mnemonics takes to refine exemplars is not in it" in said.out
    assert "note     phase 1: the policy's choice does not fit; the nearest that does is taken" in said.out


def test_mistakes_are_one_line(remem: Command, vectors: str) -> None:
    for flags, message in (
        (("--budget", 5), "budget: 5 samples"),
        (("--policy", "fixed-0.65"), "fixed-0.6"),
        (("--set", "train.epoch=1"), "did you mean"),
    ):
        said = remem("plan", "--dataset", vectors, *TINY, *flags)
        assert (said.code, said.err.count("\n"), said.out) == (2, 1, "")
        assert message in said.err
    assert remem("plan", "--out", "x").code == 2


def test_neighbouring_phases_with_equal_quotas_share_a_place() -> None:
    def planned(*old: OldQuotas) -> PlannedPhase:
        return PlannedPhase(len(old), 9, 9, 9, None, old, (1,))

    assert old_quotas(planned()) == "-"
    assert old_quotas(planned(OldQuotas(0, (4, 5), (2,)))) == "0: 4-5 / 2"
    phases = [OldQuotas(0, (9,), (3,)), OldQuotas(1, (7,), ()), OldQuotas(2, (7,), ()), OldQuotas(3, (7,), (7,))]
    assert old_quotas(planned(*phases)) == "0: 9 / 3, 1-2: 7, 3: 7 / 7"


def test_sizes_are_short() -> None:
    assert [size(count) for count in (0, 720, 19_200, 115_400, 12_600_000, 2_345_000_000)] == [
        "0 bytes",
        "720 bytes",
        "19.2 kB",
        "115 kB",
        "12.6 MB",
        "2.3 GB",
    ]


def test_bytes_are_shown_as_samples_of_every_codec(remem: Command, vectors: str) -> None:
    """Vectors of 6 floats: 24 bytes raw, 12 as float16, 10 as int8."""
    flags = (*TINY, "--budget", "1kB", "--exemplars", 10, "--policy", "fixed-0.6@int8")
    lines = [line.strip() for line in remem("plan", "--dataset", vectors, *flags).out.splitlines()]
    assert "1.0 kB = 100 samples of 6 numbers as int8 (10 bytes each)" in lines
    table = lines[lines.index("codec    samples") :]
    assert [line.split() for line in table[2:5]] == [["int8", "100"], ["raw", "41"], ["float16", "83"]]
    assert "memory   at most 1.0 kB of samples held in phases 1 to 2" in lines
    tree = json.loads(remem("plan", "--dataset", vectors, *flags, "--json").out)
    assert tree["stored_as"][0] == {"codec": "int8", "sample_bytes": 10, "samples": 100}
    assert [phase["budget"] for phase in tree["phases"]] == [None, 100, 100]


def test_bytes_are_shown_as_images_of_other_sizes(remem: Command, tmp_path: Path) -> None:
    """Images of 16 px: 768 bytes raw; a quarter of that at half the side, four times as much at twice the side."""
    write_folder(tmp_path, pictures(side=16))
    flags = ("--phases", 2, "--budget", "20kB", "--set", "net.width=4", "--set", "train.epochs=1")
    said = remem("plan", "--dataset", f"folder:{tmp_path}", *flags)
    lines = [line.strip() for line in said.out.splitlines()]
    assert "20.0 kB = 26 samples at 16 px as raw (768 bytes each)" in lines
    start = next(place for place, line in enumerate(lines) if line.startswith("codec"))
    assert lines[start].split() == ["codec", "8", "px", "16", "px", "32", "px"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[start + 2 :] if line}
    assert rows["raw"] == [str(20000 // size) for size in (192, 768, 3072)]
    assert rows["ycc420"] == [str(20000 // size) for size in (96, 384, 1536)]
    assert rows["half-ycc420"][0] == "-"  # not for 8 px
