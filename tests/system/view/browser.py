"""What tests of the page in a real browser share: memsight view of a database, Debian's chromium,
what it asked for, what it said, and the pixels of a canvas.

Exits with 77 where chromium, its driver or selenium are absent (Debian: chromium chromium-driver
python3-selenium).
"""
import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import whole

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
except ImportError:
    whole.skip(f"{sys.executable} has no selenium: install python3-selenium")

PATIENCE_S = 60  # a condition that is not met by then is a failure; loaded machines are slow
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-dev-shm-usage", "--no-default-browser-check",
    "--hide-scrollbars", "--force-device-scale-factor=1"
]


class Served:
    """memsight view of a database: .address with the token, .answer(name, a=1) as the page would
    ask."""

    def __init__(self, memsight, database, *options):
        self.process = subprocess.Popen([memsight, "view", "--no-open", *options, database],
                                        text=True, stdout=subprocess.PIPE, env=whole.environment())
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        self.address = self.process.stdout.readline().strip() if ready else ""
        if not self.address.startswith("http://127.0.0.1:"):
            self.stop()
            raise SystemExit(f"memsight view printed no address: {self.address!r}")

    def answer(self, name, **parameters):
        query = urllib.parse.urlencode(parameters)
        base = self.address.split("#", maxsplit=1)[0]
        with urllib.request.urlopen(f"{base}api/{name}?{query}", timeout=PATIENCE_S) as response:
            return json.load(response)

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Pixels:
    """Of a canvas: .width, .height, at(x, y) -> (red, green, blue, alpha)."""

    def __init__(self, width, height, data):
        self.width, self.height, self.data = width, height, data

    def at(self, x, y):
        start = 4 * (int(y) * self.width + int(x))
        return tuple(self.data[start:start + 4])


def is_vivid(pixel):
    """A colour, not a grey of blocks, lines and letters."""
    return pixel[3] > 100 and max(pixel[:3]) - min(pixel[:3]) > 70


class Browser:
    """Chromium without a window. .js(script, ...) runs, .until(script) waits for a true value."""

    def __init__(self, width=1280, height=900):
        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if not chromium or not driver:
            whole.skip("no chromium or no chromedriver: install chromium and chromium-driver")
        self.folder = tempfile.TemporaryDirectory(prefix="memsight-browser-",
                                                  ignore_cleanup_errors=True)
        options = Options()
        options.binary_location = chromium
        for flag in [
                *FLAGS, f"--user-data-dir={self.folder.name}/data",
                f"--window-size={width},{height}"
        ]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(
            driver,
            env={**whole.environment(), "HOME": self.folder.name, "TMPDIR": self.folder.name})
        try:
            self.driver = webdriver.Chrome(service=service, options=options)
        except WebDriverException as error:
            self.folder.cleanup()
            whole.skip(f"chromium does not start here: {error.msg}")
        self.driver.set_page_load_timeout(PATIENCE_S)
        self.driver.set_script_timeout(PATIENCE_S)
        self.requested = []
        self.said = []
        self.opened = set()  # addresses
        self.gone = ()  # those of servers that have ended
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(WebDriverException):
            self.driver.quit()
        self.folder.cleanup()

    def resize(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def prefer(self, scheme):
        """As the system's wish: light or dark."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def go_offline(self):
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
            "offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0})

    def open(self, address):
        """As if typed: a new page, also where only the fragment is another."""
        self.opened.add(address.split("#", maxsplit=1)[0])
        self.driver.get("about:blank")
        self.driver.get(address)

    def js(self, script, *values):
        return self.driver.execute_script(script, *values)

    def until(self, script, *values):
        """Waits until the script returns something true, and returns that."""
        end = time.monotonic() + PATIENCE_S
        while True:
            value = self.js(script, *values)
            if value:
                return value
            if time.monotonic() > end:
                raise SystemExit(
                    f"waited {PATIENCE_S} s in vain for: {script} "
                    f"{values}\n{self.text()[:2000]}\n{self.console()}"
                )
            time.sleep(0.05)

    def text(self, selector="body"):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def state(self):
        """What the fragment of the URL says."""
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.driver.current_url).fragment))

    def click(self, selector):
        self.until("return document.querySelector(arguments[0])", selector).click()

    def choose(self, label, value):
        """Of a select with this label, as a person does it."""
        self.until(
            """
            const one = [...document.querySelectorAll("select")].find((s) =>
                s.ariaLabel === arguments[0] && s.offsetParent);
            if (!one || ![...one.options].some((o) => o.value === String(
                arguments[1]))) return false;
            one.value = arguments[1];
            one.dispatchEvent(new Event("change", { bubbles: true }));
            return true;""", label, value)

    def keys(self, *keys):
        """To what has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def painted(self):
        """Waits until the page has painted what it had to by now: it draws in the next frame, and
        then comes ours."""
        self.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))")

    def canvas(self, selector):
        self.painted()
        width, height, data = self.js(
            """
            const canvas = document.querySelector(arguments[0]);
            const { width, height } = canvas;
            const copy = new OffscreenCanvas(width, height).getContext("2d", {
                willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const data = copy.getImageData(0, 0, width, height).data;
            let text = "";
            for (let i = 0; i < data.length; i += 30000) text += String.fromCharCode(
                ...data.subarray(i, i + 30000));
            return [width, height, btoa(text)];""", selector)
        return Pixels(width, height, base64.b64decode(data))

    def read_logs(self):
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                parameters = message["params"]
                self.requested.append(parameters.get("url") or parameters["request"]["url"])
        self.said += [
            f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")
        ]

    def requests(self):
        """Every address that was asked for so far, but for what lies in the page or the browser
        itself."""
        self.read_logs()
        return [
            url for url in self.requested
            if not url.startswith(("data:", "blob:", "about:", "chrome:", *self.gone))
        ]

    def console(self):
        """Everything that the console holds so far, but that connections to servers that have ended
        were refused."""
        self.read_logs()
        return [
            line for line in self.said
            if "ERR_CONNECTION_REFUSED" not in line or not any(url in line for url in self.gone)
        ]

    def forget(self, addresses):
        """Servers that have ended: what was asked of them is not told, and not always at once by
        the browser."""
        self.gone = tuple(addresses)

    def check_quiet(self, checks, address):
        """No request left for another place than `address`, and the console has no error."""
        base = address.split("#", maxsplit=1)[0]
        others = [url for url in self.requests() if not url.startswith(base)]
        checks.that(self.requests(), "no request was seen at all: the check would be empty")
        checks.that(not others, f"the page asked for other addresses: {others}")
        faults = [line for line in self.console() if line.startswith(("SEVERE", "WARNING"))]
        checks.that(not faults, f"the console says: {faults}")


def run_tests(tests, *given):
    """Runs functions whose names are sentences; MEMSIGHT_TEST in the environment chooses those that
    hold it."""
    checks = whole.Checks()
    for test in tests:
        if os.environ.get("MEMSIGHT_TEST", "") not in test.__name__:
            continue
        before, started = checks.n_failed, time.monotonic()
        test(checks, *given)
        print(
            f"{'ok' if checks.n_failed == before else 'FAILED'} {test.__name__} "
            f"({time.monotonic() - started:.1f} s)",
            flush=True)
    checks.end()
