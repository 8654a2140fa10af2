"""page.py and plots.py: every number is on the page, nothing is fetched, everything is escaped."""

import re
from html.parser import HTMLParser
from pathlib import Path

from remem.report.page import answer, introduction, page, write_page
from report_factories import make_run

VOID = {"meta", "br", "path", "use"}


class Outline(HTMLParser):
    """Every element must be closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


RUNS = [make_run("icarl", "static", [0.81, 0.62, 0.43]), make_run("icarl", "fixed-0.6", [0.81, 0.67, 0.55])]


def test_the_page_has_every_number_of_both_runs(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    write_page(RUNS, path, "One against the other")
    text = path.read_text(encoding="utf-8")
    assert "<h1>One against the other</h1>" in text
    for run in RUNS:
        for share in (run.average_accuracy, run.last_accuracy, *(phase.accuracy for phase in run.phases)):
            assert f">{100 * share:.2f}</td>" in text
    assert "icarl / static; icarl / fixed-0.6" in text
    assert "Memory from phase 1 on: M = 40 samples, not the paper&#x27;s 92." in text


def test_the_page_is_self_contained_and_well_formed() -> None:
    text = page(RUNS, "title")
    for word in ("http", "<script", "<link", "<img", "@import", "src=", "file:"):
        assert word not in text
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert outline.seen.count("svg") == 2
    assert outline.seen.count("details") == 4
    assert len(outline.ids) == len(set(outline.ids)), "two elements have one id"
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert used <= set(outline.ids)


def test_text_from_results_is_escaped() -> None:
    run = make_run("icarl", "<script>alert(1)</script>", [0.5, 0.4], data={"name": "folder:<b>&"})
    text = page([run], "<i>title</i>")
    for bad in ("<script>", "<b>", "<i>"):
        assert bad not in text
    assert "&lt;script&gt;" in text


def test_oracles_and_unfinished_runs_are_marked() -> None:
    upper = make_run("joint", "static", [0.9, 0.9], oracle=True, decides=False)
    text = page([*RUNS, upper], "title")
    assert "joint / - (oracle)" in text
    assert "joint / static" not in text
    assert "Runs marked (oracle)" in text
    assert "not complete" not in text
    unfinished = make_run("icarl", "static", [0.99], complete=False)
    assert "Some runs are not complete; their numbers are those so far." in page([*RUNS, unfinished], "title")


def test_oracles_and_unfinished_runs_are_not_the_best_one() -> None:
    upper = make_run("joint", "static", [0.9, 0.9, 0.9], oracle=True)
    words = "Highest average accuracy: icarl / fixed-0.6 with 67.67 %, 5.67 points above icarl / static."
    unfinished = make_run(
        "icarl", "fixed-0.9", [0.99], complete=False, scenario={"phases": 2}
    )  # the average of phase 0 alone
    assert answer([*RUNS, upper]) == answer([*RUNS, unfinished]) == words
    assert answer([upper, unfinished]) == "No run here is both complete and free of oracles."


def test_runs_that_are_not_evaluated_on_test_data_are_marked() -> None:
    tuned = make_run("icarl", "static", [0.8, 0.6], scenario={"validation": 0.1})
    words = "evaluated on a share of the training data"
    assert words not in page(RUNS, "title")
    assert "All runs are evaluated on a share of the training data, not on test data." in introduction([tuned])
    names = [line for line in introduction([tuned, RUNS[0]]) if words in line]
    assert len(names) == 1
    assert names[0].endswith(f"{words}: icarl / static, scenario.phases 1, scenario.validation 0.1.")
    assert words in page([tuned], "title")


def test_blocks_of_runs_have_different_names() -> None:
    runs = [make_run("finetune", "static", [0.8, 0.6], method={"replay": replay}) for replay in (True, False)]
    named = re.findall(r"<summary>(.*?)</summary>", page(runs, "title"))
    assert named == ["finetune (replay=true) / static", "finetune (replay=false) / static"] * 2
    seeds = [make_run("icarl", "static", [0.8, 0.6], seed=seed) for seed in (4, 7)]
    named = re.findall(r"<summary>(.*?)</summary>", page(seeds, "title"))
    assert named == ["icarl / static, seed 4", "icarl / static, seed 7"] * 2
