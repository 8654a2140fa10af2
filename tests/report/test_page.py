"""page.py, headline.py, page_data.py: every number is on the page, nothing is fetched, everything is escaped."""

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem.policies.table import resolve_policy
from remem.report.details import arrival, confusions, course, losses
from remem.report.headline import headline
from remem.report.inputs import StoredRun
from remem.report.page import Origin, page, write_page
from remem.report.page_data import page_data
from remem.runs.results import RunResult, save_predictions
from report_factories import THREE_SEEDS, make_run, with_codecs

VOID = {"meta", "br", "path", "use", "input", "img"}
RUNS = [make_run("icarl", "static", [0.81, 0.62, 0.43]), make_run("icarl", "fixed-0.6", [0.81, 0.67, 0.55])]
LIMIT = 6_000_000


class Outline(HTMLParser):
    """Every element must be closed in order; text of scripts is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def stored(results: Sequence[RunResult]) -> list[StoredRun]:
    return [StoredRun(result, Path(f"{place}.json")) for place, result in enumerate(results)]


def made(results: Sequence[RunResult], title: str = "title") -> str:
    return page(stored(results), Origin(title, "remem report <here>"))


def without_scripts(text: str) -> str:
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def embedded(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def seeded(accuracies: dict[str, list[float]]) -> list[RunResult]:
    return [
        make_run("icarl", name.partition("_")[0], values, seed=seed, scenario={"order": f"seed:{seed}"})
        for (name, values), seed in ((item, int(item[0].rpartition("-")[2])) for item in accuracies.items())
    ]


def test_the_page_has_every_number_of_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    write_page(stored(RUNS), path, Origin("One against the other", "remem report a b --out report.html"))
    text = path.read_text(encoding="utf-8")
    assert "<h1>One against the other</h1>" in text
    assert "<code>remem report a b --out report.html</code>" in text
    for run in RUNS:
        for share in (run.average_accuracy, run.last_accuracy, *(phase.accuracy for phase in run.phases)):
            assert f">{100 * share:.2f}</td>" in text
    groups = embedded(text)["groups"]
    assert [group["accuracy"]["y"] for group in groups] == [[0.81, 0.62, 0.43], [0.81, 0.67, 0.55]]
    assert groups[0]["old"]["y"] == [2.5, 1.6667]
    assert groups[0]["matrix"][2] == [0.43, 0.43, 0.43]
    assert groups[0]["forgetting"] == [pytest.approx(0.38), pytest.approx(0.19)]
    assert "M = 40 samples, not the paper&#x27;s 92" in text


def test_the_page_is_self_contained_well_formed_and_small() -> None:
    text = made(RUNS)
    outline = Outline()
    outline.feed(without_scripts(text))
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids)), "two elements have one id"
    assert outline.links == []
    assert "default-src 'none'" in text
    assert text.count("plotly.js v") == 1
    assert len(text.encode()) < LIMIT


def test_text_from_results_is_escaped() -> None:
    run = make_run("icarl", "<script>alert(1)</script>", [0.5, 0.4], data={"name": "folder:<b>&"})
    run = run.model_copy(update={"class_names": ("</script><i>", *run.class_names[1:])})
    text = made([run], "<i>title</i>")
    assert "<script>alert" not in text
    assert not {"<b>", "<i>"} & set(re.findall(r"<\w>", without_scripts(text)))
    assert "</script><i>" not in text
    assert embedded(text)["runs"][0]["classes"][0] == "</script><i>"
    assert "remem report &lt;here&gt;" in text


def test_oracles_and_unfinished_runs_are_marked() -> None:
    upper = make_run("joint", "static", [0.9, 0.9, 0.9], oracle=True, decides=False)
    text = without_scripts(made([*RUNS, upper]))
    assert "joint / - (oracle)" in text
    assert "oracle: it saw what no honest run may keep or see" in text
    assert "not complete" not in text
    unfinished = make_run("icarl", "static", [0.99], complete=False, seed=4)
    assert "not complete, numbers so far" in made([*RUNS, unfinished])


def test_a_winner_needs_paired_intervals_above_zero() -> None:
    # Differences 0.05, 0.05, 0.08: 6.00 ± 4.30 points.
    assert headline(seeded(THREE_SEEDS)) == [
        "Best average accuracy: icarl / fixed-0.6 with 68.00 %, +6.00 ± 4.30 points above icarl / static "
        "(paired by seed).",
        "Above static, by points of average accuracy: icarl / fixed-0.6 +6.00 ± 4.30.",
    ]


def test_no_winner_is_named_without_one() -> None:
    close = {**THREE_SEEDS, "fixed-0.6_seed-2": [0.8, 0.48]}  # differences 0.05, 0.05, 0.00: 3.33 ± 7.17
    assert headline(seeded(close)) == [
        "No winner: icarl / fixed-0.6 has the highest mean, but intervals do not separate it from icarl / static "
        "(+3.33 ± 7.17 points, paired by seed).",
        "Not separated from static, or below it: icarl / fixed-0.6 +3.33 ± 7.17.",
    ]
    assert headline(RUNS) == [
        "No winner: fewer than two seeds are common to these settings, so no interval supports a difference."
    ]


def test_twelve_runs_of_different_class_orders_are_not_ranked_against_each_other() -> None:
    """Six orders under one policy and six others under another: the seeds of the better one may have been easier."""
    better = {f"fixed-0.6_seed-{seed}": [0.8, 0.9] for seed in range(6)}
    worse = {f"static_seed-{seed}": [0.8, 0.6] for seed in range(6, 12)}
    assert headline(seeded(better | worse)) == [
        "No winner: fewer than two seeds are common to these settings, so no interval supports a difference."
    ]


def test_where_budgets_differ_every_sentence_says_for_which_it_holds() -> None:
    runs = [
        make_run("icarl", policy, [0.8, 0.6], memory={"budget": budget})
        for policy in ("static", "fixed-0.6")
        for budget in (40, 80)
    ]
    assert [line.partition(": ")[0] for line in headline(runs)] == [
        f"glyphs, 6 classes, N = 1, memory.budget {budget}" for budget in (40, 80)
    ]


def test_oracles_unfinished_runs_and_other_settings_do_not_compete() -> None:
    upper = [make_run("joint", "static", [0.9, 0.9], oracle=True, seed=seed) for seed in range(3)]
    best = headline(seeded(THREE_SEEDS))
    orders = [run.model_copy(update={"config": {**run.config, "scenario": {**run.config["scenario"],
              "order": f"seed:{run.config['seed']}"}}}) for run in upper]  # fmt: skip
    assert headline([*seeded(THREE_SEEDS), *orders]) == best
    assert headline(upper) == ["No run here is both complete and free of oracles."]
    longer = make_run("icarl", "rmm", [0.9, 0.9], train={"epochs": 99})
    assert headline([RUNS[0], longer])[0].startswith("No two settings here are comparable")
    assert headline([RUNS[0]]) == ["One setting: there is nothing to compare it with."]


def test_details_of_a_run_folder(tmp_path: Path) -> None:
    run = make_run("icarl", "static", [0.5, 0.5])  # four classes, then two
    assert arrival(run).tolist() == [0, 0, 0, 0, 1, 1]
    labels = {0: np.array([0, 1, 2, 3]), 1: np.array([0, 0, 1, 4, 5, 5])}
    predicted = {0: np.array([0, 1, 2, 0]), 1: np.array([4, 4, 1, 4, 0, 5])}
    arrays = {f"labels_{p}": labels[p] for p in labels} | {f"cnn_{p}": predicted[p] for p in predicted}
    save_predictions(tmp_path / "predictions.npz", arrays, 6)
    assert confusions(tmp_path, run) is None  # these predictions give other accuracies: they are another run's
    rates = ({"0": 1.0, "1": 1.0, "2": 1.0, "3": 0.0}, {"0": 0.0, "1": 1.0, "4": 1.0, "5": 0.5})
    numbers = [
        {"accuracy_cnn": cnn, "accuracy_nme": None, "accuracy_per_class": own}
        for cnn, own in zip((0.75, 0.5), rates, strict=True)
    ]
    phases = tuple(phase.model_copy(update=own) for phase, own in zip(run.phases, numbers, strict=True))
    run = run.model_copy(update={"phases": phases})
    found = confusions(tmp_path, run)
    assert found is not None
    assert found["phases"] == [[[4]], [[1, 2], [1, 2]]]
    assert found["pairs"] == [["class 0", "class 4", 2, "100.0"], ["class 5", "class 0", 1, "50.0"]]
    assert confusions(tmp_path / "none", run) is None
    assert confusions(None, run) is None
    lines = [
        {"event": "epoch", "phase": 0, "stage": "main", "epoch": 1, "loss": {"a": 1.5, "b": 0.25}},
        {"event": "evaluated", "phase": 0, "accuracy": 0.5},
        {"event": "policy", "epoch": 1, "reward": 0.5, "best": 0.6, "entropy": 2.0, "grad_norm": 0.1},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert losses(tmp_path) == [{"phase": 0, "stage": "main", "epoch": 1, "loss": 1.75}]
    assert course(tmp_path)["grad_norm"] == [0.1]


def test_bytes_codecs_and_decisions_are_in_the_data() -> None:
    """4 old classes hold 10 samples and 2 new ones 30, of 250 bytes; the seeds differ in their codec."""
    runs = [make_run("icarl", "rmm-codec", [0.8, 0.6], seed=seed) for seed in (0, 1)]
    coded = [with_codecs(run, [codec], {"a": 250, "b": 250}) for run, codec in zip(runs, "ab", strict=True)]
    data = page_data(stored([*coded, RUNS[0]]))
    first, second = data["groups"]
    assert [series["y"] for series in first["bytes"]] == [[0.625], [3.75]]
    assert first["codecs"] == {"1": ["a", "b"]}
    assert first["share"] == {"x": [1], "y": [0.25], "half": [0.0]}
    assert first["split"]["x"] == []
    assert (second["bytes"], second["codecs"]) == (None, {})
    assert data["codecs"] == ["a", "b"]


def test_policies_are_on_the_page_with_their_paths() -> None:
    """`rmm-codec` has no picture of its state space, but what it decides is there."""
    policies = {name: resolve_policy(name, seed=0) for name in ("rmm", "rmm-codec")}
    plain, coded = page_data(stored(RUNS), policies)["policies"]
    assert "level1_first" in plain
    assert plain["codecs"] == []
    assert [path["phases"] for path in coded["paths"]] == [5, 10, 25]
    assert {step["codec"] for path in coded["paths"] for step in path["steps"]} <= set(coded["codecs"])
    text = page(stored(RUNS), Origin("title", "remem report", policies))
    assert 'id="figure-path"' in text


def test_policies_have_the_shortest_names_that_tell_them_apart() -> None:
    def names(*paths: str) -> list[str]:
        policies = {path: resolve_policy("rmm", seed=0) for path in paths}
        return [policy["name"] for policy in page_data(stored(RUNS), policies)["policies"]]

    assert names("a/study/policies/seed-0/rmm", "a/study/policies/seed-1/rmm") == ["seed-0/rmm", "seed-1/rmm"]
    assert names("a/study/policies/seed-0") == ["seed-0"]
    assert names("rmm", "a/b") == ["rmm", "a/b"]


def test_several_comparisons_are_pointed_out() -> None:
    """Three settings with intervals; with two settings there is one comparison, with one seed there is no interval."""
    third = {key.replace("fixed-0.6", "fixed-0.7"): values for key, values in THREE_SEEDS.items() if "fixed" in key}
    words = "they are not widened for the number of settings compared"
    assert words in made(seeded(THREE_SEEDS | third))
    assert words not in made(seeded(THREE_SEEDS))
    assert words not in made([*RUNS, make_run("icarl", "fixed-0.7", [0.81, 0.67, 0.55])])


def test_bands_are_mentioned_where_there_are_some() -> None:
    assert "Bands are 95 % intervals" in made(seeded(THREE_SEEDS))
    assert "Bands are" not in without_scripts(made(RUNS))


def test_differences_to_static_are_paired_by_seed() -> None:
    static, fixed = page_data(stored(seeded(THREE_SEEDS)))["groups"]
    assert static["gain"] is None
    assert fixed["gain"]["x"] == [0, 1]
    alone = page_data(stored(seeded({"fixed-0.6_seed-0": [0.8, 0.7], "static_seed-1": [0.8, 0.6]})))["groups"]
    assert [group["gain"] for group in alone] == [None, None]
    assert 'id="view-accuracy"' not in made([RUNS[0]])


def test_the_footer_says_when_and_on_what() -> None:
    run = make_run("icarl", "static", [0.5, 0.4], train={"device": "cpu", "precision": "bf16", "threads": 1})
    footer = without_scripts(made([run])).partition("<footer>")[2]
    assert re.search(r"on \d{4}-\d\d-\d\d \d\d:\d\d UTC, .+, \d+ cores; remem ", footer)
    assert "minutes in all, on CPU in bf16, 1 thread." in footer


def test_runs_with_too_many_numbers_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remem.report.page_data.MOST_CELLS", 3 * 8)  # the phases and classes of one run
    data = page_data(stored(RUNS))
    assert data["left_out"] == 1
    assert [bool(run["classes"]) for run in data["runs"]] == [True, False]
    assert "1 runs are left out here" in made(RUNS)


def test_blocks_of_runs_have_different_names() -> None:
    seeds = [make_run("icarl", "static", [0.8, 0.6], seed=seed) for seed in (4, 7)]
    named = re.findall(r"<summary>(icarl.*?)</summary>", made(seeds))
    assert named == ["icarl / static, seed 4", "icarl / static, seed 7"] * 2
