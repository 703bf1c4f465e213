"""The screenshots of the documentation, from real runs: ``python tests/support/screenshots.py``.

Needs the extras dev and tau2, Chromium and chromedriver, and a minute. What is in them differs a little each time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).parent))

from browser import Browser, chromium
from harness import wait_for

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
RUN = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "airline", "--a2a-concurrency=5"]
SIZE = (1280, 800)


def run(folder: Path, agent: str, *more: str) -> list[str]:
    """Return the command of a run."""
    return [sys.executable, *RUN, f"--a2a-endpoint=builtin:{agent}", f"--a2a-results={folder / agent}", *more]


def main() -> None:
    """Write them."""
    with tempfile.TemporaryDirectory() as name, chromium(Path(name) / "profile") as browser:
        folder = Path(name)
        subprocess.run(run(folder, "oracle"), cwd=folder, check=True, stdout=subprocess.DEVNULL)
        live = run(folder, "readonly", "--a2a-live", "--a2a-rate=8/s", "--a2a-min-pass=0.4")
        with subprocess.Popen(live, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = next(line for line in process.stdout if " shows this run" in line).split()[1]
            watch(browser, url)
            process.stdout.read()
        page = folder / "page.html"
        report = ["export", "html", str(folder / "readonly"), "--baseline", "oracle", "-o", str(page)]
        subprocess.run([sys.executable, "-m", "pytest_a2a_bench.cli", *report], cwd=folder, check=True)
        beside(browser, page)
        browser.open(page, width=960, height=600)
        browser.driver.save_screenshot(str(GUIDES.parent / "page.png"))


def watch(browser: Browser, url: str) -> None:
    """Look at a run when some of its trials have ended."""

    def enough() -> bool:
        with urlopen(f"{url}status") as answer:
            message = json.load(answer)
        return int(message["done"]) >= 14 and any(now["messages"] > 5 for now in message["now"])

    wait_for(enough)
    browser.visit(url, width=SIZE[0], height=SIZE[1])
    browser.wait("document.querySelectorAll('#talk .turn').length > 4", 60)
    browser.driver.save_screenshot(str(GUIDES / "live.png"))


def beside(browser: Browser, page: Path) -> None:
    """Look at a trial beside the same one of the run before."""
    browser.open(page, width=SIZE[0], height=SIZE[1], after="#trial=tau2%2Fairline%2F12%230")
    browser.wait("document.querySelector('.golds')")
    browser.driver.save_screenshot(str(GUIDES / "beside.png"))


if __name__ == "__main__":
    main()
