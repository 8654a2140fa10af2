"""The documentation site: builds without a warning, asks for nothing from elsewhere, and fits into 400 px."""

import os
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from browser import opened

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    out = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return out


def test_pages_of_every_part_are_built(site: Path) -> None:
    for page in ("index", "tutorial", "guides/reports", "reference/python", "reference/settings", "reports/results"):
        assert (site / f"{page}.html").is_file()
    python = (site / "reference/python.html").read_text(encoding="utf-8")
    assert "A data set cut into phases" in python  # from the docstring


PAGES = {
    "index": "Documentation",
    "tutorial": "Ten minutes",
    "reference/settings": "Settings",
    "reports/evidence": "Evidence",
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False), (400, True)])
def test_pages_in_a_browser(site: Path, page: str, width: int, dark: bool) -> None:
    with opened(site / f"{page}.html", width, dark=dark) as browser:
        assert browser.execute_script("return document.querySelector('h1').textContent").startswith(PAGES[page])
        pictures = "return [...document.querySelectorAll('article img')].map(i => i.naturalWidth)"
        assert all(wide > 0 for wide in browser.execute_script(pictures))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        scheme = browser.execute_script("return document.body.getAttribute('data-md-color-scheme')")
        assert scheme == ("slate" if dark else "default")
        loaded = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        assert [name for name in loaded if name.startswith("http")] == []


def test_names_of_settings_stay_in_one_piece(site: Path) -> None:
    """On a phone, tables scroll sideways instead of breaking words; a shadow says so."""
    lines = "return [...document.querySelectorAll('td:first-child code')].map(c => c.getClientRects().length)"
    with opened(site / "reference/settings.html", 400) as browser:
        assert set(browser.execute_script(lines)) == {1}
        shadow = "return getComputedStyle(document.querySelector('.md-typeset__scrollwrap')).backgroundAttachment"
        assert browser.execute_script(shadow) == "local, local, scroll, scroll"


def test_pictures_are_on_the_front_page_and_in_the_tutorial(site: Path) -> None:
    for page in ("index", "tutorial"):
        assert "<img" in (site / f"{page}.html").read_text(encoding="utf-8")


class Silent(SimpleHTTPRequestHandler):
    """A server without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_the_search_finds_pages(site: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            with opened(f"http://127.0.0.1:{server.server_port}/index.html") as browser:
                browser.find_element(By.CSS_SELECTOR, ".md-search__input").send_keys("herding")
                found = WebDriverWait(browser, 30).until(
                    lambda b: b.find_elements(By.CSS_SELECTOR, ".md-search-result__item a")
                )
                assert any("protocol" in (link.get_attribute("href") or "") for link in found)
        finally:
            server.shutdown()
