"""The explorer in a browser: the size of the page, and the time of an update.

    python benchmarks/bench_explorer.py MODEL [MODEL ...]

Needs selenium, Chromium and its driver, on Linux. An update is all that happens between a click and the
picture: inference, cards, layout and painting. CPU times are those of the page's main thread; other
programs on the machine do not count.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver

from conjoin import load
from conjoin.views.explorer import explore
from goals import cpu, headline, report

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1400,900",
)  # fmt: skip
UPDATES = 40
CLICKS = """
const done = arguments[arguments.length - 1];
const { store, model } = explorer;
const wall = [], inference = [];
const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
(async () => {
  for (let k = 0; k < arguments[0]; k++) {
    if (k % 10 === 0) store.clear();
    const column = Math.floor(Math.random() * model.columns.length);
    const start = performance.now();
    store.choose(column, Math.floor(Math.random() * model.columns[column].states.length));
    inference.push(explorer.times.inference);
    await frame();
    wall.push(performance.now() - start);
  }
  done([wall, inference]);
})();
"""


def main_thread_seconds(driver: webdriver.Chrome) -> float:
    """Return the CPU time of the main thread of the page's process."""
    found = subprocess.run(
        ["pgrep", "-f", f"type=renderer.*{driver.profile}"],
        capture_output=True, text=True, check=False,
    ).stdout.split()  # fmt: skip
    return sum(
        int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9 for pid in found
    )


def measure(path: Path, driver: webdriver.Chrome, folder: Path) -> None:
    model = load(path)
    headline(f"{path.name}: {len(model.domain.observed)} columns")
    seconds, made = cpu(lambda: explore(model))
    report("CPU time of writing the page", seconds)
    page = folder / "page.html"
    made.save(page)
    size = page.stat().st_size
    verdict = "met" if size <= 5e6 else "MISSED"
    print(f"{'size of the page':<58}{size / 1e6:>10.2f} MB   goal 5 MB: {verdict}")
    driver.get(page.as_uri())
    driver.execute_async_script(CLICKS, UPDATES)  # warm up
    best, inner = [], []
    for _ in range(5):
        before = main_thread_seconds(driver)
        _, inference = driver.execute_async_script(CLICKS, UPDATES)
        best.append((main_thread_seconds(driver) - before) / UPDATES)
        inner += inference
    report("CPU time of an update, with layout and painting", min(best), 0.05)
    report("  inference alone, median (wall clock)", sorted(inner)[len(inner) // 2] / 1e3)


if __name__ == "__main__":
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        for flag in (*FLAGS, f"--user-data-dir={name}"):
            options.add_argument(flag)
        service = webdriver.chrome.service.Service("/usr/bin/chromedriver")
        browser = webdriver.Chrome(options=options, service=service)
        browser.profile = name
        browser.set_script_timeout(300)
        for argument in sys.argv[1:]:
            measure(Path(argument), browser, Path(name))
        browser.quit()
