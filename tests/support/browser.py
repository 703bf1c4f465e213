"""A real Chromium without a window, for tests of pages. Needs selenium, chromium and chromedriver."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

ENTER, ESCAPE = "\ue007", "\ue00c"
"""Keys, as WebDriver writes them."""

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str:
    """Say what a browser test lacks here, or return nothing."""
    if importlib.util.find_spec("selenium") is None:
        return "selenium is not installed (the extra dev has it)"
    if _chromium() is None or shutil.which("chromedriver") is None:
        return "no chromium and chromedriver on PATH (Debian: apt-get install chromium chromium-driver)"
    return ""


def axe_source() -> str:
    """Return the script of axe-core; skips the test without it."""
    found = importlib.util.find_spec("axe_core_python")
    if found is None or not found.submodule_search_locations:
        pytest.skip("axe-core-python is not installed (the extra dev has it)")
    return (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")


class Browser:
    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, after: str = "") -> None:
        """Open a page as somebody who has never seen it; ``after`` follows the address."""
        self.visit(path.as_uri() + after, width=width, height=height, dark=dark)

    def visit(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.command("Emulation.setEmulatedMedia", features=[scheme, still])
        self.driver.get("about:blank")
        self.messages()
        self.requests()
        self.driver.get(url)

    def command(self, name: str, **arguments: Any) -> None:
        """Tell the browser something that pages cannot."""
        self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements of a selector, whether they can be seen or not."""
        found = self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)
        return [str(text) for text in found]

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def axe(self, **options: Any) -> list[tuple[str, str, list[Any]]]:
        """Return what axe-core finds that keeps people from using the page: impact, rule and the first places."""
        self.run(axe_source())
        found = self.driver.execute_async_script("axe.run(document, arguments[0]).then(arguments[1])", options)
        assert len(found["passes"]) > 10
        return [(v["impact"], v["id"], [n["target"] for n in v["nodes"][:3]]) for v in found["violations"]]

    def wait(self, script: str, seconds: float = 10) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, poll_frequency=0.02).until(lambda _: self.run(f"return {script}"))

    def messages(self) -> list[str]:
        """Return what the console has said since the last call: errors, and violations of the policy."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Return what was asked for since the last call."""
        found = []
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(str(message["params"]["request"]["url"]))
        return found


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = _chromium() or ""
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if why := missing():
        pytest.skip(why)
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
