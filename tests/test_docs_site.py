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


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_tutorial_in_a_browser(site: Path, width: int, dark: bool) -> None:
    with opened(site / "tutorial.html", width, dark=dark) as browser:
        assert browser.execute_script("return document.querySelector('h1').textContent").startswith("Ten minutes")
        assert browser.execute_script("return document.querySelector('article img').naturalWidth") > 0
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        scheme = browser.execute_script("return document.body.getAttribute('data-md-color-scheme')")
        assert scheme == ("slate" if dark else "default")
        loaded = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        assert [name for name in loaded if name.startswith("http")] == []


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
