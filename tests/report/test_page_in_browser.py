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
from report_factories import make_run, with_codecs

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


def test_accuracy_minus_static(tmp_path: Path) -> None:
    """Differences of 0.1, 0.1 and 0 in phase 1: 6.67 ± 14.34 points (4.303 * 5.774 / sqrt 3); none in phase 0."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    last = {"static": (0.5, 0.4, 0.4), "fixed-0.6": (0.6, 0.5, 0.4)}
    runs = [make_run("icarl", name, [0.8, own], seed=seed) for name in last for seed, own in enumerate(last[name])]
    path = tmp_path / "gain.html"
    stored = [StoredRun(run, tmp_path / f"{number}.json") for number, run in enumerate(runs)]
    write_page(stored, path, Origin("a", "remem report"))
    with opened(path) as browser:
        browser.execute_script("rememReport.draw('accuracy')")
        Select(browser.find_element(By.ID, "view-accuracy")).select_by_visible_text("accuracy minus static")
        band, line = browser.execute_script(
            "return document.getElementById('figure-accuracy').data.map(t => [t.name, [...t.y], t.customdata])"
        )
        title = browser.execute_script("return document.getElementById('figure-accuracy').layout.yaxis.title.text")
    assert line[0] == "icarl / fixed-0.6"
    assert line[1] == pytest.approx([0, 6.67], abs=0.01)
    assert line[2] == [" ± 0.00", " ± 14.34"]
    assert band[1] == pytest.approx([0, 21.01, -7.68, 0], abs=0.02)
    assert title == "accuracy minus static (points)"


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


@pytest.mark.parametrize("width", [1280, 400])
def test_legends_are_whole_and_nothing_covers_them(page: Path, width: int) -> None:
    boxes = (
        "const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };"
        "const figure = document.getElementById('figure-accuracy');"
        "return ['.legend .traces .legendtext', '.modebar', '.xtick text', '.xtitle'].map("
        "s => [...figure.querySelectorAll(s)].map(box))"
    )
    settings = len(read_runs([STORED]))
    with opened(page, width) as browser:
        browser.execute_script("rememReport.draw('accuracy')")
        names, buttons, ticks, titles = browser.execute_script(boxes)
        assert len(names) == settings
        for name in names:
            assert name[2] <= width
            assert not any(overlap(name, other) for other in [*buttons, *ticks, *titles])
        height = "return document.getElementById('figure-accuracy')._fullLayout._size.h"
        assert browser.execute_script(height) > 300  # legends do not squeeze the plot


def test_names_of_classes_do_not_cover_each_other(page: Path) -> None:
    """30 names fit into 1280 px and not into 400: there, hover has them."""
    labels = "return [...document.querySelectorAll('#figure-classes .xtick text')].length"
    for width, shown in ((1280, 30), (400, 0)):
        with opened(page, width) as browser:
            browser.execute_script("rememReport.draw('classes')")
            assert browser.execute_script(labels) == shown


@pytest.mark.parametrize("dark", [False, True])
def test_numbers_of_a_matrix_can_be_read(page: Path, dark: bool) -> None:
    """Contrast of 4.5 and more, as for any small text (WCAG 2, AA)."""
    drawn = (
        "const [cells, words] = document.getElementById('figure-matrix').data;"
        "const values = cells.z.flatMap(r => [...r]).filter(v => v !== null);"
        "return [cells.colorscale, values, words.text, words.textfont.color]"
    )
    with opened(page, dark=dark) as browser:
        browser.execute_script("rememReport.draw('matrix')")
        scale, values, words, inks = browser.execute_script(drawn)
    assert [f"{value:.1f}" for value in values] == words
    for value, ink in zip(values, inks, strict=True):
        assert contrast(colour_at(scale, value / 100), channels(ink)) >= 4.5, (value, ink)


def overlap(one: list[float], other: list[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def channels(colour: str) -> list[float]:
    return [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]


def colour_at(scale: list[list[Any]], place: float) -> list[float]:
    stops = [float(stop) for stop, _ in scale]
    return [
        float(np.interp(place, stops, values))
        for values in zip(*(channels(colour) for _, colour in scale), strict=True)
    ]


def contrast(one: list[float], other: list[float]) -> float:
    def luminance(colour: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_bytes_and_codecs(tmp_path: Path) -> None:
    """Samples or kB by choice; the panel of codecs has their names, and hover says how often each was taken."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    sizes = {"raw": 1000, "coarse": 250}
    runs = [with_codecs(make_run("icarl", "static", [0.8, 0.6, 0.5]), ["raw", "raw"], sizes)]
    chosen = (["raw", "coarse"], ["coarse", "coarse"])
    for seed, codecs in enumerate(chosen):
        runs.append(with_codecs(make_run("icarl", "rmm-codec", [0.8, 0.7, 0.6], seed=seed), codecs, sizes))
    path = tmp_path / "coded.html"
    write_page(
        [StoredRun(run, tmp_path / f"{n}.json") for n, run in enumerate(runs)], path, Origin("a", "remem report")
    )
    with opened(path) as browser:
        browser.execute_script(DRAW_ALL)
        traces = "return document.getElementById('figure-memory').data.map(t => [...t.y])"
        assert browser.execute_script(traces)[0] == pytest.approx([2.5, 10 / 6], abs=1e-4)
        Select(browser.find_element(By.ID, "unit-memory")).select_by_visible_text("kB")
        kilobytes = browser.execute_script(traces)
        assert kilobytes[4] == pytest.approx([(2.5 + 0.625) / 2, 10 / 6 / 4], abs=1e-4)
        decisions = browser.execute_script(
            "const p = document.getElementById('figure-decisions');"
            "return p.data.map(t => [t.name, [...t.y], t.text && [...t.text]])"
        )
        assert decisions[2] == ["icarl / rmm-codec", ["raw", "coarse"], ["raw, coarse", "coarse x 2"]]
        assert decisions[3][1] == [0.25, 0.25]
        names = browser.find_elements(By.CSS_SELECTOR, "#figure-decisions .ytick text")
        assert {"raw", "coarse"} <= {name.text for name in names}
        assert browser.get_log("browser") == []


def large_run(policy: str = "static", seed: int = 0) -> RunResult:
    """1000 classes in 11 phases."""
    run, stream = make_run("icarl", policy, [0.5] * 11, seed=seed), np.random.default_rng(seed)
    sizes = [500 + 50 * phase for phase in range(11)]
    phases = [
        phase.model_copy(update={"classes_seen": size, "held_per_class": {str(c): 20 for c in range(size)},
                                 "accuracy_per_class": {str(c): float(v) for c, v in enumerate(stream.random(size))}})
        for phase, size in zip(run.phases, sizes, strict=True)
    ]  # fmt: skip
    names = tuple(f"class {number}" for number in range(1000))
    return run.model_copy(update={"phases": tuple(phases), "class_names": names})


def test_a_study_of_a_thousand_classes_stays_quick(tmp_path: Path) -> None:
    """By the processor time of the page's main thread, which other programs do not change; and by its size."""
    path = tmp_path / "large.html"
    runs = [large_run(policy, seed) for policy in ("static", "fixed-0.6", "rmm") for seed in (0, 1)]
    write_page(
        [StoredRun(run, tmp_path / f"{n}.json") for n, run in enumerate(runs)], path, Origin("a", "remem report")
    )
    assert path.stat().st_size < 6_000_000
    with opened("about:blank") as browser:
        browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        browser.get(path.as_uri())
        loaded = task_seconds(browser)
        browser.execute_script("rememReport.draw('classes')")
        assert browser.execute_script("return document.getElementById('figure-classes').data[1].x.length") == 1000
        drawn = task_seconds(browser)
    print(f"{loaded:.2f} s of processor time until loaded, {drawn:.2f} s with all classes drawn")
    assert 0 < loaded < 3
    assert loaded < drawn


def task_seconds(browser: Any) -> float:
    """What the main thread of the page has worked so far."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))
