"""The page of accesses whose memory levels and latencies are known: a perf.data as PEBS gives it,
made here, in a real browser. In the first half second all loads hit L1, in the second all go to
RAM.

Arguments: memsight, victim-panels (not used: every browser test has one).
"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "perf-data"))

import encode as e
import browser
import whole

SEC = 10**9
NEAR, FAR = 0x7f0000000000, 0x7f1000000000
N = 500  # loads of each level
LEVELS = {"L1": (1, 5, NEAR), "RAM": (
    13, 300, FAR)}  # number in the data source word, cycles, where


def data_source(number):
    return 2 | 2 << 5 | 2 << 19 | (2 | 8 | 16) << 26 | number << 33 | 1 << 40


def make(path):
    event = e.Event(
        e.IDENTIFIER | e.IP | e.TID | e.TIME | e.ADDR | e.CPU | e.DATA_SRC | e.WEIGHT_STRUCT,
        e.TYPE_RAW, 0x1cd, 10007, ids=[1], name="cpu/mem-loads,ldlat=3/P", precise=2, config1=3)
    file = e.File([event], "<")
    file.features = {6: file.string("x86_64"), 12: file.event_names()}
    file.comm(100, 100, "prog", SEC, is_exec=True)
    file.map(100, 100, 0x400000, 0x10000, "/opt/prog", SEC + 1)
    file.map(100, 100, NEAR, 1 << 20, "//anon", SEC + 2, prot=3, flags=0x22)
    file.map(100, 100, FAR, 1 << 20, "/dev/shm/far", SEC + 3, prot=3, flags=1)
    for half, (number, cycles, base) in enumerate(LEVELS.values()):
        for i in range(N):
            time = SEC + 1000 + (half * N + i) * SEC // (2 * N)
            file.sample(event, 100, 100, time, 0x401000, base + 4096 + 8 * i, weight=cycles,
                        data_src=data_source(number))
    return file.write(path)


class Page:
    def __init__(self, database, served, chromium):
        self.database, self.served, self.chromium = database, served, chromium

    def open(self, fragment):
        self.chromium.open(f"{self.served.address}#{fragment}")
        self.chromium.until("""
            const panes = [...document.querySelectorAll(".page:not([hidden]) .pane")];
            return document.documentElement.dataset.ready && panes.length > 0
                && panes.every((pane) => pane.dataset.state && pane.dataset.state !== "busy");""")


def accesses_are_stacked_by_level_over_time(checks, page):
    page.open("page=memory")
    title = page.chromium.text(".strip-accesses figcaption")
    checks.that("by memory level" in title, title)
    legend = page.chromium.js(
        "return [...document.querySelectorAll('.strip-accesses .u-series th')].map((e) => "
        "e.innerText.trim())"
    )
    checks.that(set(LEVELS) <= {name.rstrip(":") for name in legend}, f"{legend}")
    box = page.chromium.js("""
        const strip = document.querySelector(".strip-accesses");
        const [over, canvas] = [strip.querySelector(".u-over"), strip.querySelector("canvas")].map(
            (e) => e.getBoundingClientRect());
        return { left: over.left - canvas.left, top: over.top - canvas.top, width: over.width,
            height: over.height };""")
    pixels = page.chromium.canvas(".strip-accesses canvas")
    colours = [
        pixels.at(box["left"] + part * box["width"], box["top"] + 0.6 * box["height"])
        for part in (0.2, 0.7)
    ]
    checks.that(
        all(map(browser.is_vivid, colours)) and colours[0][:3] != colours[1][:3],
        f"the two halves look alike: {colours}")


def objects_tell_their_accesses_and_latency(checks, page):
    page.open("page=objects&objects.sort=n_accesses")
    rows = page.chromium.js("""
        return [...document.querySelectorAll(".page-objects tbody tr:not(.detail)")].map((row) =>
            Object.fromEntries([...row.cells].slice(1).map((cell) => [cell.dataset.title,
                cell.innerText.trim()])));""")
    found = {
        row["Object"].removesuffix(" mapping"): (row["Accesses"], row["Latency"]) for row in rows
    }
    checks.that(found.get("/dev/shm/far") == (str(N), "300 cycles"), f"{found}")
    checks.that(found.get("anonymous memory") == (str(N), "5 cycles"), f"{found}")
    checks.that("Blocks" not in rows[0] and "Share of time" not in rows[0],
                f"columns without data are shown: {list(rows[0])}")


def what_was_not_recorded_is_said(checks, page):
    page.open("page=flame")
    disabled = page.chromium.js(
        "return [...document.querySelector('#flame-by').options].filter((o) => o.disabled).map((o) "
        "=> o.value)"
    )
    checks.that(disabled == ["bytes", "blocks", "peak", "leaked", "time", "faults"], f"{disabled}")
    checks.that("there is none of that" in page.chromium.text(".panel-flame"),
                page.chromium.text(".panel-flame"))
    page.open("page=memory")
    checks.that("no allocations were recorded" in page.chromium.text(".panel-timeline .foot"),
                page.chromium.text(".panel-timeline .foot"))


def the_page_was_quiet(checks, page):
    page.chromium.check_quiet(checks, page.served.address)


TESTS = [
    accesses_are_stacked_by_level_over_time, objects_tell_their_accesses_and_latency,
    what_was_not_recorded_is_said, the_page_was_quiet
]


def main():
    memsight = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="memsight-levels-") as folder:
        path = os.path.join(folder, "levels.db")
        whole.run([memsight, "analyze", "-o", path, make(os.path.join(folder, "perf.data"))])
        with browser.Served(memsight, path) as served, browser.Browser() as chromium:
            browser.run_tests(TESTS, Page(whole.Database(path), served, chromium))


main()
