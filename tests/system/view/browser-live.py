"""The page of a run that is being recorded, in a real browser: it grows, zooms into the past,
controls the recording, and becomes the usual page when the run ends. Arguments: memsight, victim of
tests/unit/cli (victim-live.c)."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import browser
import whole

AXE = pathlib.Path(os.environ.get("MEMSIGHT_AXE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
    "memsight/axe-core/node_modules/axe-core/axe.min.js"))
TIME = "return document.querySelector('.cards .card dd')?.innerText"
STATE = "return document.querySelector('.live-state').dataset.state === arguments[0]"
KEEPS = 50  # of blocks, the victim, at any time


class Page:
    """One recording, its page and one browser."""

    def __init__(self, memsight, trace, program, served, chromium):
        self.memsight, self.trace, self.program = memsight, trace, program
        self.served, self.chromium = served, chromium

    def ctl(self, *words):
        return whole.run([self.memsight, "ctl", self.trace, *words])

    def row(self):
        """The first of the table of sites: {title of a column: text}."""
        return self.chromium.js("""
            const row = document.querySelector(".grid tbody tr");
            return row && Object.fromEntries([...row.cells].map(
                (cell) => [cell.dataset.title, cell.innerText.trim()]));""")


def the_page_grows_while_the_program_runs(checks, page):
    page.chromium.open(page.served.address)
    page.chromium.until("return document.documentElement.dataset.ready === 'live'")
    page.chromium.until("return document.querySelector('.strip-memory canvas')")
    page.chromium.until("return document.querySelector('.site-button')")
    row = page.row()
    checks.that(row["Allocated at"].startswith("churn") and
                KEEPS - 1 <= int(row["Blocks"]) <= KEEPS, f"{row}")
    before = page.chromium.js(TIME)
    page.chromium.until(f"{TIME} !== arguments[0]", before)
    checks.that("victim-live" in page.chromium.text(".live-program"), "the program is not named")
    checks.that("victim-live" in page.chromium.text(".grid:has(td[data-title=Thread])"),
                "no thread is named")


def a_part_of_the_past_stands_still_until_the_end_is_followed(checks, page):
    page.chromium.js("document.querySelector('.strips').focus()")
    page.chromium.keys(browser.Keys.ARROW_RIGHT)
    page.chromium.until("return location.hash.includes('to=')")
    page.chromium.until("return document.querySelector('.follow').disabled === false")
    said = page.chromium.until(
        "const t = document.querySelector('.pane:has(.strips) .foot').innerText;"
        "return t.startsWith('Zoomed to') && t")
    before = page.chromium.js(TIME)
    page.chromium.until(f"{TIME} !== arguments[0]", before)
    checks.that(page.chromium.text(".pane:has(.strips) .foot") == said,
                "what is zoomed to moves")
    page.chromium.click(".follow")
    page.chromium.until("return !location.hash.includes('to=')")
    page.chromium.until("return document.querySelector('.pane:has(.strips) .foot')"
                        ".innerText.startsWith('Shown')")


def a_site_shows_its_call_stack(checks, page):
    # At once: the table is drawn anew twice a second.
    page.chromium.js("const one = document.querySelector('.site-button'); one.focus(); one.click()")
    frames = page.chromium.until("return document.querySelector('.live-stack li')?.innerText")
    checks.that("churn" in frames, frames)
    checks.that(page.chromium.js("return document.activeElement.className").find("site-") >= 0,
                "the row has lost the focus")


def a_slow_click_is_not_lost_when_the_table_is_drawn_anew(checks, page):
    page.chromium.js("document.querySelector('.live-stack button')?.click()")
    page.chromium.until("return document.querySelector('.live-stack').hidden")
    spot = page.chromium.js("""
        const one = document.querySelector(".site-button");
        one.scrollIntoView({ block: "center" });
        const { x, y } = one.getBoundingClientRect();
        return { x: x + 5, y: y + 5, button: "left", clickCount: 1 };""")
    before = page.chromium.js(TIME)
    for kind in ("mousePressed", "mouseReleased"):
        page.chromium.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **spot})
        if kind == "mousePressed":
            page.chromium.until(f"{TIME} !== arguments[0]", before)
    page.chromium.until("return document.querySelector('.live-stack li')")
    # The address follows what is drawn.
    page.chromium.until("return location.hash.includes('site')")
    checks.that("site" in page.chromium.state(), "the click chose no site")


def whoever_looks_pauses_resumes_and_marks(checks, page):
    page.chromium.click("#pause-button")
    page.chromium.until(STATE, "paused")
    checks.that("paused" in page.ctl(), "ctl does not know of the pause")
    page.chromium.click("#pause-button")
    page.chromium.until(STATE, "recording")
    page.chromium.js("document.querySelector('.bar input[type=text]').value = 'by the page';"
                     "document.getElementById('mark-button').click()")
    page.chromium.until("return document.querySelector('.live-said').innerText === 'Marked'")


def a_snapshot_has_a_page_of_its_own(checks, page):
    page.chromium.click("#snapshot-button")
    link = page.chromium.until("return document.querySelector('.live-snapshots a')?.href")
    checks.that(link == page.served.address + "1/", link)
    page.chromium.open(link)
    page.chromium.until("return document.documentElement.dataset.ready === 'findings'")
    page.chromium.open(page.served.address)
    page.chromium.until("return document.documentElement.dataset.ready === 'live'")


def axe_finds_no_error(checks, page):
    if not AXE.exists():
        print(f"no axe-core at {AXE}: scripts/setup --all installs it")
        return
    for scheme in ("light", "dark"):
        page.chromium.prefer(scheme)
        page.chromium.until("return document.querySelector('.site-button')")
        page.chromium.js(AXE.read_text(encoding="utf-8"))
        found = page.chromium.driver.execute_async_script(
            "axe.run(document).then((r) => arguments[0](r.violations.map((v) =>"
            " [v.id, v.impact, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))])))")
        checks.that(not found, f"{scheme}: {found}")
    page.chromium.prefer("light")


def the_page_becomes_the_usual_one_at_the_end(checks, page):
    page.program.terminate()
    page.chromium.until("return document.documentElement.dataset.ready === 'findings'")
    marks = page.served.answer("timeline", run=1, width=10)["marks"]["columns"]["name"]
    checks.that("by the page" in marks, f"marks {marks}")
    page.chromium.check_quiet(checks, page.served.address)


def main():
    memsight, victim = map(os.path.abspath, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "live.mst")
        with subprocess.Popen([memsight, "record", "-q", "-s", "none", "--live-totals", "-o", trace,
                               "--", "sh", "-c", f"echo $$; exec {victim} 1 0 20"], text=True,
                              stdout=subprocess.PIPE, env=whole.environment()) as recorder:
            pid = int(recorder.stdout.readline())
            recorder.stdout.readline()
            program = Program(pid)
            try:
                with browser.Served(memsight, trace, "--live") as served, \
                        browser.Browser() as chromium:
                    browser.run_tests([
                        the_page_grows_while_the_program_runs,
                        a_part_of_the_past_stands_still_until_the_end_is_followed,
                        a_site_shows_its_call_stack,
                        a_slow_click_is_not_lost_when_the_table_is_drawn_anew,
                        whoever_looks_pauses_resumes_and_marks,
                        a_snapshot_has_a_page_of_its_own, axe_finds_no_error,
                        the_page_becomes_the_usual_one_at_the_end
                    ], Page(memsight, trace, program, served, chromium))
            finally:
                program.terminate()


class Program:
    """The recorded one, which is the recorder's child."""

    def __init__(self, pid):
        self.pid = pid

    def terminate(self):
        if self.pid:
            os.kill(self.pid, signal.SIGTERM)
        self.pid = 0


main()
