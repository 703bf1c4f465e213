"""What the report page costs with many trials: making it, opening it, filtering it, opening a transcript.

    python perf/report.py [--trials 1000] [--turns 40] [--beside] [--json FILE]

``--beside`` measures a page whose transcripts are in files beside it.

Needs the extra dev, Chromium and chromedriver. Times in the browser are medians, to the next frame that is painted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests" / "support")]

ROUNDS = 9

_TIMED = """
const [action, done] = arguments;
const begin = performance.now();
Promise.resolve(new Function(action)()).then(() => requestAnimationFrame(() => setTimeout(() => {
  done(performance.now() - begin);
})));
"""

ACTIONS = {
    "filter by a word": "const s = document.querySelector('#search'); s.value = s.value ? '' : 'odd/1'; "
    "s.dispatchEvent(new Event('input'))",
    "filter by result": "document.querySelector('.chip').click()",
    "sort by reward": "document.querySelector('[data-sort=r]').click()",
    "open a transcript": "return viewer.open(Math.floor(Math.random() * rows.length))",
    "next transcript": "return viewer.open((viewer.index + 1) % rows.length)",
}


def browser_times(page: Path, profile: Path) -> dict[str, float]:
    """Return milliseconds of loading the page and of each action."""
    from browser import chromium

    found: dict[str, float] = {}
    with chromium(profile) as browser:
        browser.open(page)
        script = "const t = performance.getEntriesByType('navigation')[0]; return t.domComplete - t.responseEnd"
        found["load the page"] = float(browser.run(script))
        # The page's own names are reached as the page's scripts reach them, and trusted types do not let a string in.
        browser.command("Page.setBypassCSP", enabled=True)
        browser.driver.refresh()
        for name, action in ACTIONS.items():
            times = [float(browser.driver.execute_async_script(_TIMED, action)) for _ in range(ROUNDS)]
            found[name] = statistics.median(times)
        browser.run("viewer.dialog.close()")
        begin = time.perf_counter()
        browser.run("document.querySelector('#search').value = 'word1999'")
        browser.run("document.querySelector('#deep').click()")
        browser.wait("transcripts.texts !== null", 600)
        found["read every transcript, once"] = (time.perf_counter() - begin) * 1000
    return found


def main() -> None:
    """Measure and report."""
    from made_trials import many_trials

    from pytest_a2a_bench.reports.html import Contents, write

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--beside", action="store_true", help="keep transcripts in files beside the page")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "report.json")
    options = parser.parse_args()
    trials = list(many_trials(options.trials, options.turns))
    with tempfile.TemporaryDirectory() as directory:
        target = f"{directory}/page/" if options.beside else f"{directory}/page/index.html"
        begin, cpu = time.perf_counter(), time.process_time()
        page = write(target, Contents(trials=trials, agent="measured"))
        found: dict[str, Any] = {"make the page, CPU": (time.process_time() - cpu) * 1000}
        found["make the page"] = (time.perf_counter() - begin) * 1000
        size = page.stat().st_size
        beside = [file.stat().st_size for file in page.parent.glob("transcripts/*")]
        found |= browser_times(page, Path(directory) / "profile")
    print(f"{options.trials} trials of {options.turns} turns of the agent; the page has {size / 1e6:.1f} MB")
    if beside:
        print(f"{len(beside)} files beside it have {sum(beside) / 1e6:.1f} MB")
    for name, milliseconds in found.items():
        print(f"{name:30} {milliseconds:10.1f} ms")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    row = {"trials": options.trials, "turns": options.turns, "bytes": size, "beside": sum(beside), "ms": found}
    options.json.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
