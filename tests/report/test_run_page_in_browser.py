"""The page of a run folder in Chromium: losses, confusion, pictures, the choice of run and phase, and saved files."""

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import opened
from remem.cli.main import main
from remem.policies.table import resolve_policy
from remem.report.inputs import StoredRun, read_runs
from remem.report.page import Origin, write_page
from remem.report.policy_plot import draw_policy
from remem.runs.results import load_predictions, load_result
from report_factories import make_run

STUDY = """
[data]
name = "digits"
[scenario]
phases = 2
[memory]
budget = 100
[train]
epochs = 2
[finetune]
epochs = 1
[study]
policies = ["static", "fixed-0.7"]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on digits, and `report.html` beside them."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.toml").write_text(STUDY)
    for words in (
        ["study", str(folder / "study.toml"), "--workers", "1", "--quiet", "--out", str(folder / "out")],
        ["report", str(folder / "out"), "--out", str(folder / "report.html")],
    ):
        with pytest.raises(SystemExit, match="0"):
            main(words)
    return folder


def drawn(browser: Any, name: str, keys: str) -> list[Any]:
    browser.execute_script(f"rememReport.draw('{name}')")
    script = f"return document.getElementById('figure-{name}').data.map(t => [{keys}].map(v => v && [...v]))"
    return list(browser.execute_script(script))


def choose(browser: Any, name: str, word: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element(By.ID, name)).select_by_visible_text(word)


def test_losses_are_those_of_the_log(study: Path) -> None:
    folder = read_runs([study / "out"])[0].folder
    assert folder is not None
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line["event"] == "epoch"]
    assert {epoch["stage"] for epoch in epochs} == {"main", "balanced"}
    with opened(study / "report.html") as browser:
        main_stage, balanced = ([v for v in ys if v is not None] for [ys] in drawn(browser, "losses", "t.y"))
    for stage, values in (("main", main_stage), ("balanced", balanced)):
        logged = [sum(epoch["loss"].values()) for epoch in epochs if epoch["stage"] == stage]
        assert values == pytest.approx(logged, abs=1e-5)


def test_confusion_by_phase_and_by_class_of_the_chosen_run(study: Path) -> None:
    from selenium.webdriver.common.by import By

    run = next(run for run in read_runs([study / "out"]) if run.result.policy_name == "fixed-0.7")
    assert run.folder is not None
    arrays, result = load_predictions(run.folder / "predictions.npz"), run.result
    count = np.zeros((10, 10), int)
    np.add.at(count, (arrays["labels_2"].astype(int), arrays[f"{result.head}_2"].astype(int)), 1)
    cells = "return document.getElementById('figure-confusion').data[0].z.map(r => [...r])"
    with opened(study / "report.html") as browser:
        browser.execute_script("rememReport.draw('confusion')")
        choose(browser, "run-confusion", "icarl / fixed-0.7")
        last = np.array(browser.execute_script(cells))
        assert last.shape == (3, 3)
        seen = [0, *(phase.classes_seen for phase in result.phases)]
        for phase, (begin, end) in enumerate(pairwise(seen)):
            own = count[begin:end].sum(axis=0)
            parts = [own[low:high].sum() / own.sum() for low, high in pairwise(seen)]
            assert last[phase] == pytest.approx(100 * np.array(parts), abs=1e-3)
        choose(browser, "phase-confusion", "1")
        assert np.array(browser.execute_script(cells)).shape == (2, 2)
        browser.find_element(By.ID, "by-class").click()
        assert browser.execute_script(cells) == count.tolist()
        mistakes = browser.find_elements(By.CSS_SELECTOR, "#pairs tr")
        most = int(mistakes[0].find_elements(By.TAG_NAME, "td")[2].text)
        assert most == (count - np.diag(np.diag(count))).max()


def test_classes_of_the_chosen_run_and_phase(study: Path) -> None:
    result = next(r.result for r in read_runs([study / "out"]) if r.result.policy_name == "fixed-0.7")
    with opened(study / "report.html") as browser:
        browser.execute_script("rememReport.draw('classes')")
        choose(browser, "run-classes", "icarl / fixed-0.7")
        choose(browser, "phase-classes", "1")
        texts = drawn(browser, "classes", "t.text")[1][0]
    after = result.phases[1]
    expected = {
        f"<b>{result.class_names[int(label)]}</b>": (f"now {100 * share:.2f} %", after.held_per_class[label])
        for label, share in after.accuracy_per_class.items()
    }
    assert len(texts) == after.classes_seen == len(expected)
    for text in texts:
        name, _, now, held, _ = text.split("<br>")
        assert (now, held) == (expected[name][0], f"{expected[name][1]} samples held")


def test_memory_and_forgetting_are_those_of_the_results(study: Path) -> None:
    results = {run.result.label: run.result for run in read_runs([study / "out"])}
    with opened(study / "report.html") as browser:
        memory = drawn(browser, "memory", "[t.name], t.y")
        lost = dict((name, ys) for [name], ys in drawn(browser, "forgetting", "[t.name], t.y"))
    for name, result in results.items():
        old, new = [ys for [own], ys in memory if own == name][:2]
        steps = list(pairwise(result.phases))
        assert old == pytest.approx([now.held_old / prior.classes_seen for prior, now in steps], abs=1e-3)
        assert new == pytest.approx(
            [now.held_new / (now.classes_seen - prior.classes_seen) for prior, now in steps], abs=1e-3
        )
        best = [max(p.accuracy_by_phase[j] for p in result.phases[j:-1]) for j in range(len(result.phases) - 1)]
        last = result.phases[-1].accuracy_by_phase
        assert lost[name] == pytest.approx([100 * (b - last[j]) for j, b in enumerate(best)], abs=0.011)


def test_pictures_are_shown(study: Path) -> None:
    pictures = "return [...document.querySelectorAll('.pictures img')].map(i => [i.alt, i.naturalWidth])"
    with opened(study / "report.html") as browser:
        shown = browser.execute_script(pictures)
    assert len(shown) > 10
    assert all(width > 0 for _, width in shown)
    assert {alt.split()[0] for alt, _ in shown} == {"held", "dropped"}


def test_figures_and_tables_are_saved(study: Path, tmp_path: Path) -> None:
    result = load_result(read_runs([study / "out"])[0].path)
    with opened(study / "report.html") as browser:
        behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
        browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
        for selector in (
            "[data-figure=accuracy][data-save=svg]",
            "[data-figure=accuracy][data-save=png]",
            "[data-csv]",
        ):
            browser.execute_script(f"document.querySelector('{selector}').click()")
        names = {"remem-accuracy.svg", "remem-accuracy.png", "summary.csv"}
        until = time.monotonic() + 30
        while names - {path.name for path in tmp_path.iterdir()} and time.monotonic() < until:
            time.sleep(0.1)
        assert browser.get_log("browser") == []
    assert (tmp_path / "remem-accuracy.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (tmp_path / "remem-accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert f"{100 * result.average_accuracy:.2f}" in (tmp_path / "summary.csv").read_text(encoding="utf-8")


def test_a_policy_and_its_course_of_learning(tmp_path: Path) -> None:
    folder, path = tmp_path / "policy", tmp_path / "report.html"
    folder.mkdir()
    course = [{"event": "policy", "epoch": e, "reward": 0.5 + e / 10, "best": 0.9, "entropy": 2 - e / 2, "grad_norm": e}
              for e in (1, 2, 3)]  # fmt: skip
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in course))
    policy = resolve_policy("rmm", seed=0)
    run = StoredRun(make_run("icarl", "static", [0.8, 0.6]), tmp_path / "run.json")
    write_page([run], path, Origin("a", "remem report", {str(folder): policy}))
    with opened(path) as browser:
        reward, entropy, norm = drawn(browser, "course", "t.x, t.y")
        space = drawn(browser, "policy", "t.z.flatMap(r => [...r])")
        assert browser.get_log("browser") == []
    assert (reward, entropy) == ([[1, 2, 3], [0.6, 0.7, 0.8]], [[1, 2, 3], [1.5, 1, 0.5]])
    assert norm == [[1, 2, 3], [1, 2, 3]]
    assert all(0 <= chance <= 1 for [cells] in space for chance in cells if chance is not None)


@pytest.mark.parametrize("width", [1280, 400])
def test_where_a_policy_comes_from_is_not_cut_off(width: int, tmp_path: Path) -> None:
    """Its settings are one line of some 2000 characters, which wraps; the figure scrolls inside its own box."""
    path = tmp_path / "policy.html"
    draw_policy(resolve_policy("rmm", seed=0), path)
    with opened(path, width) as browser:
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        sizes = "const p = document.querySelector('pre'); return [p.scrollWidth, p.clientWidth]"
        needed, there = browser.execute_script(sizes)
    assert needed <= there
