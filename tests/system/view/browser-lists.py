"""The findings and lists of the page in a real browser: rows, links and bytes of shared lines are
those of `memsight report` and of the victim; axe-core finds no error of accessibility on any page.

Arguments: memsight, victim-lists, "lists" or "axe". axe-core lies where scripts/setup puts it, or
in MEMSIGHT_AXE.
"""
import json
import os
import pathlib
import sys

import browser
import whole

PAGES = ["findings", "memory", "flame", "objects", "peak", "leaks", "use", "sharing", "resident",
         "regions", "series", "diff", "run"]
AXE = pathlib.Path(os.environ.get("MEMSIGHT_AXE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
    "memsight/axe-core/node_modules/axe-core/axe.min.js"))
SETTLED = """
    const panes = [...document.querySelectorAll(".page:not([hidden]) .pane")];
    return panes.length > 0 && panes.every((pane) => pane.dataset.state &&
        pane.dataset.state !== "busy");"""


class Page:
    """The page of one recording in one browser."""

    def __init__(self, memsight, victim, recording, served, chromium):
        self.memsight, self.victim, self.recording = memsight, victim, recording
        self.served, self.chromium = served, chromium

    def report(self, *options):
        return json.loads(
            whole.run([self.memsight, "report", self.recording.path, "--format", "json", *options]))

    def open(self, fragment):
        self.chromium.open(f"{self.served.address}#{fragment}")
        self.chromium.until("return document.documentElement.dataset.ready")
        self.chromium.until(SETTLED)

    def rows(self, panel):
        """Of a list: {title of a column: text}."""
        return self.chromium.js(
            """
            const rows = document.querySelectorAll(`.panel-${arguments[0]} tbody tr:not(.detail)`);
            return [...rows].map((row) => Object.fromEntries([...row.cells].slice(1).map(
                (cell) => [cell.dataset.title, cell.innerText.trim()])));""", panel)


def findings_are_those_of_the_report(checks, page):
    page.open("")
    checks.that(page.chromium.js("return document.documentElement.dataset.ready") == "findings",
                "the page does not begin with the findings")
    expected = page.report("--findings")
    shown = page.chromium.js("""
        return [...document.querySelectorAll(".finding")].map((one) => [one.dataset.rule,
            one.querySelector("p").innerText]);""")
    checks.that(
        shown == [[row["rule"], row["text"] + "."] for row in expected],
        f"{shown}, the report: {expected}")
    rules = {row["rule"] for row in expected}
    checks.that({"leak", "false sharing"} <= rules, f"the victim has both: {rules}")
    page.chromium.click(".finding[data-rule=leak] p:last-child a")
    page.chromium.until("return location.hash.includes('page=leaks')")


def leaks_are_those_of_the_report_and_lead_to_the_site(checks, page):
    page.open("page=leaks")
    expected = page.report("--leaks")
    rows = page.rows("leaks")
    checks.that(
        [row["Allocated at"] for row in rows] == [row["allocated at"] for row in expected],
                f"{rows}, the report: {expected}")
    checks.that(
        [row["Blocks"] for row in rows] == [f"{row['blocks']:,}" for row in expected],
        f"{rows}, the report: {expected}")
    page.chromium.click(".panel-leaks .open")
    page.chromium.until("return document.querySelector('.panel-leaks .detail .place')")
    page.chromium.click(".panel-leaks .object-link")
    page.chromium.until("return location.hash.includes('page=object')")
    page.chromium.until(SETTLED)
    title = page.chromium.text(".page-object h2")
    checks.that(expected[0]["allocated at"].split(" < ")[0] in title, f"a link leads to {title}")


def a_shared_line_shows_which_bytes_each_thread_wrote(checks, page):
    page.open("page=sharing")
    expected = page.report("--sharing")[0]
    row = page.rows("sharing")[0]
    checks.that(
        (row["Line"], row["Sharing"], row["Touches"]) ==
        (expected["line"], expected["sharing"], f"{expected['touches']:,}"),
        f"{row}, the report: {expected}")
    page.chromium.click(".panel-sharing .open")
    page.chromium.until("return document.querySelector('.line-table .touched')")
    cells = page.chromium.js("""
        return [...document.querySelectorAll(".line-table tbody tr")].flatMap((row) =>
            [...row.cells].map((cell, i) => [row.cells[0].innerText, i, cell.innerText])
                .filter(([, , text]) => text.includes("write")));""")
    writers = {thread: at for thread, at, _ in cells}
    checks.that(
        len(writers) == 2 and abs(len(set(writers.values()))) == 2,
        f"two threads write one word each: {cells}")


def functions_stand_below_regions_and_a_list_without_rows_is_hidden(checks, page):
    page.open("page=regions")
    expected = page.report("--functions")
    rows = page.rows("functions")
    checks.that([(row["Function"], row["Trips"]) for row in rows] == [("keep", "2,000")],
                f"{rows}, the report: {expected}")
    hidden = page.chromium.js("""
        return ["functions", "pools", "plugins"].map(
            (kind) => document.querySelector(`.panel-${kind}`).hidden);""")
    checks.that(hidden == [False, True, True], f"hidden: {hidden}")
    kinds = [row["Kind"] for row in page.rows("own_time")]
    checks.that(sorted(kinds) == sorted(row["kind"] for row in page.report("--overhead")),
                f"what was taken out: {kinds}")


def call_paths_are_whole_when_they_are_wanted(checks, page):
    page.open("page=peak")
    short = [row["Allocated at"] for row in page.rows("peak")]
    page.chromium.click("#names-button")
    page.chromium.until("return location.hash.includes('full=1')")
    page.chromium.until(SETTLED)
    full = [row["Allocated at"] for row in page.rows("peak")]
    checks.that(
        not any("__libc_start" in name for name in short)
        and any("__libc_start" in name for name in full), f"{short} and {full}")


def two_traces_of_one_program_stay_two_runs(checks, page):
    other = os.path.join(page.recording.folder.name, "other.mst")
    whole.run([page.memsight, "record", "-o", other, "--", page.victim])
    with browser.Served(page.memsight, other, page.recording.trace, "--label", "slow") as both:
        runs = both.answer("runs")["columns"]
        names = set(zip(runs["program"], runs["mode"], runs["repetition"]))
        checks.that(
            len(names) == len(runs["id"]) == 2 and len(set(runs["program"])) == 1
            and set(runs["detail"]) == {"full"}, f"{runs}")
        checks.that(runs["label"] == ["slow", None] and runs["trace"][0] in (
            "other.mst", os.path.basename(page.recording.trace)), f"{runs}")
        page.chromium.open(both.address)
        page.chromium.until("return document.documentElement.dataset.ready === 'diff'")
        page.chromium.until("return document.querySelector('.page-diff .diff-summary')?.innerText")
        said = page.chromium.text(".page-diff .diff-summary")
        checks.that("0 B" in said and "No call site differs" in said, said)


def pages_follow_the_selected_time_or_say_that_they_do_not(checks, page):
    # All of the run but its first ns: it is counted anew, and has the same in it.
    page.open("page=sharing&from=1")
    expected = page.report("--sharing", "--from", "1ns")
    shown = page.rows("sharing")
    checks.that(
        [row["Touches"] for row in shown] == [f"{row['touches']:,}" for row in expected] != [],
        f"{shown}, the report has {expected}")
    page.open("page=run&from=1")
    checks.that("selected time" in page.chromium.text(".panel-run"), "the page Run is of all")
    for name in ["findings", "series", "diff"]:
        page.open(f"page={name}&from=1")
        said = page.chromium.text(f".page-{name} .whole-runs")
        checks.that("not follow the selected time" in said, f"{name}: {said!r}")


def axe_finds_no_error_on_any_page(checks, page):
    script = AXE.read_text(encoding="utf-8")
    site = page.recording.one("SELECT stack_id FROM site ORDER BY bytes DESC LIMIT 1")
    for scheme in ("light", "dark"):
        page.chromium.prefer(scheme)
        for name in [*PAGES, f"object&site={site}"]:
            page.open(f"page={name}")
            page.chromium.js("document.querySelectorAll('.open').forEach((e, i) =>"
                             " { if (i < 2) e.click(); })")
            page.chromium.js(script)
            found = page.chromium.driver.execute_async_script(
                "axe.run(document).then((r) => arguments[0](r.violations.map((v) =>"
                " [v.id, v.impact, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))])))")
            checks.that(not found, f"{name}, {scheme}: {found}")
    page.chromium.prefer("light")


TESTS = {
    "lists": [
        findings_are_those_of_the_report, leaks_are_those_of_the_report_and_lead_to_the_site,
        a_shared_line_shows_which_bytes_each_thread_wrote,
        functions_stand_below_regions_and_a_list_without_rows_is_hidden,
        call_paths_are_whole_when_they_are_wanted, two_traces_of_one_program_stay_two_runs,
        pages_follow_the_selected_time_or_say_that_they_do_not
    ],
    "axe": [axe_finds_no_error_on_any_page]
}


def main():
    memsight, victim, tests = sys.argv[1:]
    if tests == "axe" and not AXE.exists():
        whole.skip(f"no axe-core at {AXE}: scripts/setup --all installs it")
    recording = whole.Recording(memsight, [victim], ["--function-include", "^keep$"])
    with browser.Served(memsight, recording.path) as served, browser.Browser() as chromium:
        browser.run_tests(TESTS[tests], Page(memsight, victim, recording, served, chromium))


main()
