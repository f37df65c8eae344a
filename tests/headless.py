"""A headless browser for tests of pages, which is cut off from the network."""

from __future__ import annotations

import json
import shutil
import time

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1400,900",
)  # fmt: skip


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """A headless browser that is cut off from the network."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("Chromium and its driver are not installed (apt-get install chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.chrome.service.Service(driver)
    made = webdriver.Chrome(options=options, service=service)
    made.set_script_timeout(60)
    made.execute_cdp_cmd("Network.enable", {})
    made.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    yield made
    made.quit()


@pytest.fixture
def browser(chromium):
    """The browser; afterwards, nothing was logged and nothing but the page's file was asked for."""
    chromium.get("about:blank")
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    resize(chromium, 1400, 900)
    still = [{"name": "prefers-reduced-motion", "value": "reduce"}]  # cards stay under the pointer
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": still})
    yield chromium
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
    events = [json.loads(e["message"])["message"] for e in chromium.get_log("performance")]
    asked = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    assert all(url.startswith(("file:", "data:", "about:")) for url in asked), asked


def resize(driver, width, height):
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def wait(driver, condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if driver.execute_script(f"return Boolean({condition})"):
            return
        time.sleep(0.02)
    raise AssertionError(f"this did not happen: {condition}\n{driver.get_log('browser')}")


def show(driver, made, folder, address=""):
    path = folder / "page.html"
    made.save(path)
    driver.get(path.as_uri() + address)
    ready = (
        "(window.explorer && window.explorer.times) || !document.getElementById('message').hidden"
    )
    wait(driver, ready)
