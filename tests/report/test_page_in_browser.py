"""The page in Chromium: values, hover, filters, sorting, both colour schemes, 1280 and 400 px, 1000 classes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import opened
from remem.report.inputs import StoredRun, read_runs
from remem.report.page import Origin, write_page
from remem.runs.results import RunResult
from report_factories import make_run

STORED = Path(__file__).parents[2] / "results" / "studies" / "cifar100-methods"
DRAW_ALL = "document.querySelectorAll('.plot').forEach(e => rememReport.draw(e.id.replace('figure-', '')))"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a real CIFAR-100 study."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(read_runs([STORED]), path, Origin("methods", "remem report"))
    return path


def requests_of(browser: Any) -> list[str]:
    """Addresses that the page asked for, beyond itself and what it makes."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith(("file:", "data:", "blob:"))]


def test_values_filters_and_tables(page: Path) -> None:
    results = {f"{run.result.label}": run.result for run in read_runs([STORED])}
    with opened(page) as browser:
        browser.execute_script(DRAW_ALL)
        lines = browser.execute_script(
            "return document.getElementById('figure-accuracy').data.map(t => [t.name, [...t.y]])"
        )
        assert {name for name, _ in lines} == set(results)
        for name, values in lines:  # the page has four digits of every fraction
            assert values == pytest.approx([100 * phase.accuracy for phase in results[name].phases], abs=0.0051)
        first = next(iter(results.values()))
        matrix = browser.execute_script("return document.getElementById('figure-matrix').data[0].z.map(r => [...r])")
        assert matrix[-1] == pytest.approx([100 * v for v in first.phases[-1].accuracy_by_phase], abs=0.0051)

        browser.execute_script("document.querySelector('[data-group=\"0\"]').click()")  # hides one setting everywhere
        left = browser.execute_script("return document.getElementById('figure-accuracy').data.length")
        rows = browser.execute_script("return [...document.querySelectorAll('#summary tbody tr')].map(r => r.hidden)")
        assert (left, rows) == (len(results) - 1, [True, *[False] * (len(results) - 1)])
        saved = browser.execute_script("return rememReport.csv(document.getElementById('summary'))").splitlines()
        assert len(saved) == len(results)
        assert saved[0].startswith("method,policy,runs,average %")

        browser.execute_script("document.querySelectorAll('#summary th button')[3].click()")  # by average
        column = "return [...document.querySelectorAll('#summary tbody tr')].map(r => r.cells[3].textContent)"
        averages = [float(text) for text in browser.execute_script(column)]
        assert averages == sorted(averages)
        browser.execute_script(
            "const s = document.getElementById('search'); s.value = 'whale'; s.dispatchEvent(new Event('input'))"
        )
        texts = browser.execute_script("return [...document.getElementById('figure-classes').data[1].text]")
        assert len(texts) == 1
        position = first.class_names.index("whale")
        assert f"now {100 * first.phases[-1].accuracy_per_class[str(position)]:.2f} %" in texts[0]
        buttons = "return [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)"
        assert set(browser.execute_script(buttons)) == {"Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}
        assert requests_of(browser) == []
        assert browser.get_log("browser") == []


def test_hover_shows_the_value(page: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    joint = next(run.result for run in read_runs([STORED]) if run.result.oracle)
    with opened(page) as browser:
        browser.execute_script("rememReport.draw('accuracy')")
        place = browser.execute_script(
            "const p = document.getElementById('figure-accuracy'); p.scrollIntoView({block: 'center'});"
            "return p.data.findIndex(t => t.name.includes('oracle'))"
        )
        traces = browser.find_elements(By.CSS_SELECTOR, "#figure-accuracy .scatterlayer .trace")
        points = traces[place].find_elements(By.CSS_SELECTOR, ".point")
        ActionChains(browser).move_to_element(points[-1]).perform()
        label = WebDriverWait(browser, 20).until(
            lambda b: b.find_elements(By.CSS_SELECTOR, "#figure-accuracy .hoverlayer .hovertext")
        )
        assert f"phase 3: {100 * joint.last_accuracy:.2f} %" in label[0].text


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_schemes_and_widths(page: Path, width: int, dark: bool) -> None:
    with opened(page, width, dark=dark) as browser:
        browser.execute_script(DRAW_ALL)
        background = "return getComputedStyle(document.body).backgroundColor"
        light, darker = "rgb(255, 255, 255)", "rgb(25, 28, 33)"
        assert browser.execute_script(background) == (darker if dark else light)
        ink = browser.execute_script("return document.getElementById('figure-accuracy').layout.font.color")
        assert ink == ("#e6e8ec" if dark else "#1d2129")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width  # nothing is cut off
        wide = (
            "return [...document.querySelectorAll('.plot')].every(p => p.getBoundingClientRect().width <= innerWidth)"
        )
        assert browser.execute_script(wide)
        browser.execute_script("document.getElementById('scheme').click()")
        assert browser.execute_script(background) == (light if dark else darker)


def large_run() -> RunResult:
    """1000 classes in 11 phases."""
    run, stream = make_run("icarl", "static", [0.5] * 11), np.random.default_rng(0)
    sizes = [500 + 50 * phase for phase in range(11)]
    phases = [
        phase.model_copy(update={"classes_seen": size, "held_per_class": {str(c): 20 for c in range(size)},
                                 "accuracy_per_class": {str(c): float(v) for c, v in enumerate(stream.random(size))}})
        for phase, size in zip(run.phases, sizes, strict=True)
    ]  # fmt: skip
    names = tuple(f"class {number}" for number in range(1000))
    return run.model_copy(update={"phases": tuple(phases), "class_names": names})


def test_a_thousand_classes_stay_quick(tmp_path: Path) -> None:
    """By the elements that a browser has to lay out; a clock would make the test depend on spare cores."""
    path = tmp_path / "large.html"
    write_page([StoredRun(large_run(), tmp_path / "large.json")], path, Origin("large", "remem report"))
    count = "return document.getElementsByTagName('*').length"
    with opened(path) as browser:
        loaded = browser.execute_script(count)
        browser.execute_script("rememReport.draw('classes')")
        assert browser.execute_script("return document.getElementById('figure-classes').data[1].x.length") == 1000
        drawn = browser.execute_script(count)
    print(f"{loaded} elements when loaded, {drawn} with all classes drawn")
    assert loaded < 1000
    assert drawn < 4000
