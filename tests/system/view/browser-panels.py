"""The timeline, flame graph, objects and run of the page in a real browser: what they show is what
SQL and `memsight report` tell of the same recording.

Arguments: memsight, victim-panels, whose numbers of blocks are known.
"""
import contextlib
import json
import os
import re
import sqlite3
import sys
import tempfile

import browser
import whole
from browser import Keys

BIG = 3 << 20
NESTED = 70 * 64


def bytes_text(n):
    """As common/human-number.c writes bytes."""
    value, unit = float(n), 0
    while abs(value) >= 1023.5:
        value, unit = value / 1024, unit + 1
    decimals = 0 if unit == 0 else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f} {['B', 'KiB', 'MiB', 'GiB'][unit]}"


class Page:
    """The page of one recording in one browser."""

    def __init__(self, memsight, recording, served, chromium):
        self.memsight, self.recording = memsight, recording
        self.served, self.chromium = served, chromium
        self.duration = recording.one("SELECT duration_ns FROM run")

    def report(self, *options):
        return json.loads(
            whole.run([self.memsight, "report", self.recording.path, "--format", "json", *options]))

    def open(self, fragment):
        self.chromium.open(f"{self.served.address}#{fragment}")
        self.chromium.until("return document.documentElement.dataset.ready")
        self.settle()

    def settle(self):
        """Nothing of the page that is shown is still loading."""
        self.chromium.until("""
            const panes = [...document.querySelectorAll(".page:not([hidden]) .pane")];
            return panes.length > 0 && panes.every((pane) => pane.dataset.state &&
                pane.dataset.state !== "busy");""")

    def region(self, name):
        return self.recording.ask("SELECT start_ns, end_ns FROM region WHERE name = ?", name)[0]

    def objects(self):
        """Rows of the table: {title of the column: text}."""
        return self.chromium.js("""
            const rows = document.querySelectorAll(".page-objects tbody tr:not(.detail)");
            return [...rows].map((row) =>
                Object.fromEntries([...row.cells].slice(1).map((cell) => [cell.dataset.title,
                    cell.innerText.trim()])));""")

    def functions(self):
        """Of the table below the flame graph: {function: [self, total]}."""
        rows = self.chromium.js("""
            document.querySelector("#flame-table").open = true;
            return [...document.querySelectorAll("#flame-table tbody tr:not(.detail)")].map((row) =>
                [...row.cells].slice(1).map((cell) => cell.innerText.trim()));""")
        return {row[0]: row[2:] for row in rows}

    def spoken(self):
        return self.chromium.js(
            "return document.querySelector('.page-flame .flame-area [aria-live]').textContent")

    def walk_to(self, function):
        """By arrow keys from the root along the widest frames."""
        self.chromium.js("document.querySelector('.page-flame .flame-canvas').focus()")
        for _ in range(20):
            self.chromium.keys(Keys.ARROW_DOWN)
            if self.spoken().startswith(function + " "):
                return
        raise SystemExit(f"{function} is not on the widest path: {self.spoken()!r}")


def the_timeline_is_as_high_as_what_was_live(checks, page):
    page.open("page=memory")
    box = page.chromium.js("""
        const strip = document.querySelector(".strip-memory");
        const [over, canvas] = [strip.querySelector(".u-over"), strip.querySelector("canvas")].map(
            (e) => e.getBoundingClientRect());
        return { left: over.left - canvas.left, top: over.top - canvas.top, width: over.width,
            height: over.height };""")
    pixels = page.chromium.canvas(".strip-memory canvas")
    top = 1.08 * page.recording.one(
        "SELECT max((SELECT max(max_live_bytes) FROM timeline), (SELECT coalesce(max(rss), 0) FROM"
        " (SELECT sum(rss) AS rss FROM process_sample GROUP BY time_ns)))")
    for name, expected in [("load", 100 * 1000), ("solve", BIG)]:
        start, end = page.region(name)
        x = box["left"] + (start + 0.7 * (end - start)) / page.duration * box["width"]
        column = [pixels.at(x, box["top"] + y) for y in range(int(box["height"]))]
        live_at = [
            y for y, pixel in enumerate(column)
            if browser.is_vivid(pixel) and pixel[1] < max(pixel[:3])
        ]  # RSS is green
        live = page.recording.one(
            "SELECT max_live_bytes FROM timeline WHERE time_ns <= ? ORDER BY time_ns DESC LIMIT 1",
            start + 0.7 * (end - start))
        checks.that(expected <= live < expected + 20000,
                    f"{name}: {live} bytes were live, the victim has {expected}")
        height = box["height"] - live_at[0] if live_at else 0
        checks.that(live_at and abs(height - live / top * box["height"]) <= 3,
                    f"{name}: {height} of {box['height']} pixels for {live} of {top} bytes")


def regions_and_marks_stand_in_their_lanes(checks, page):
    page.open("page=memory")
    pixels = page.chromium.canvas(".strip-lanes canvas")
    left, width = page.chromium.js("""
        const strip = document.querySelector(".strip-lanes");
        const [over, canvas] = [strip.querySelector(".u-over"), strip.querySelector("canvas")].map(
            (e) => e.getBoundingClientRect());
        return [over.left - canvas.left, over.width];""")
    colours = []
    for name in ["load", "solve"]:
        start, end = page.region(name)
        colours.append(pixels.at(left + (start + 0.6 * (end - start)) / page.duration * width, 10))
    between = pixels.at(left + 0.2 * page.region("load")[0] / page.duration * width, 10)
    checks.that(
        all(browser.is_vivid(colour) for colour in colours) and colours[0] != colours[1],
        f"regions: {colours}")
    checks.that(not browser.is_vivid(between), f"before the first region: {between}")


def a_drag_over_the_timeline_selects_that_time(checks, page):
    page.open("page=memory")
    over = page.chromium.until("return document.querySelector('.strip-rate .u-over')")
    page.chromium.until("""
        arguments[0].scrollIntoView({ block: 'center' });
        const before = window.lastTop;
        window.lastTop = arguments[0].getBoundingClientRect().top;
        return arguments[0].isConnected && before === window.lastTop;""",
                        over)  # panels above are still taking their places
    width = page.chromium.js("return arguments[0].getBoundingClientRect().width", over)
    first, last = int(-0.3 * width), int(0.1 * width)
    half = (last - first) // 2
    browser.ActionChains(page.chromium.driver).move_to_element_with_offset(over, first, 0) \
        .click_and_hold().move_by_offset(half, 0).move_by_offset(last - first - half, 0) \
        .release().perform()
    page.chromium.until("return location.hash.includes('from=')")
    state = page.chromium.state()
    pixel = page.duration / width
    for key, offset in [("from", first), ("to", last)]:
        expected = (0.5 + offset / width) * page.duration
        checks.that(
            abs(int(state[key]) - expected) < 2 * pixel,
            f"{key}: {state[key]}, dragged to {expected:.0f}")
    page.settle()
    shown = page.chromium.js("""
        return [...document.querySelectorAll(".page-memory .strip")].map((strip) => {
            const [select, over] = [".u-select", ".u-over"].map((name) => strip.querySelector(name)
                .getBoundingClientRect());
            return (select.left - over.left) / over.width;
        });""")
    checks.that(
        len(shown) >= 4 and all(abs(left - 0.2) < 0.01 for left in shown),
        f"every strip shows the selection: {shown}")


def a_selected_time_recounts_objects_as_the_report_does(checks, page):
    for name, expected in [("load", {"allocate_small": 1000}), ("solve", {"allocate_big": 3})]:
        start, end = page.region(name)
        page.open(f"page=objects&objects.sort=n_blocks&from={start}&to={end}")
        told = {
            row["allocated at"].split()[0]: row
            for row in page.report("--sites", "--from", f"{start}ns", "--to", f"{end}ns", "--limit",
                                   "0")
        }
        rows = [row for row in page.objects() if row["Blocks"] != "-"]
        for row in rows:
            function = row["Object"].split()[0]
            checks.that(function in told, f"{name}: the report has no {function}: {sorted(told)}")
            site = told.get(function, {})
            texts = {
                "Blocks": f"{site.get('blocks', 0):,}", "Bytes": bytes_text(site.get("in all", 0)),
                "Peak": bytes_text(site.get("peak", 0))
            }
            checks.that(all(row[key] == text for key, text in texts.items()),
                        f"{name}: {function}: {row}, the report: {site}")
        checks.that(len(rows) == len(told), f"{name}: {len(rows)} rows, {len(told)} in the report")
        counted = {row["Object"].split()[0]: int(row["Blocks"].replace(",", "")) for row in rows}
        checks.that(all(counted.get(function) == n for function, n in expected.items()),
                    f"{name}: {counted}")


def typed_times_select_and_nonsense_is_told(checks, page):
    page.open("page=flame&flame.by=bytes")
    form = "const form = document.querySelector('.page-flame .time-form');"
    page.chromium.js(
        form +
        "form.querySelector('.time-from').value = '1 ms'; form.querySelector('.time-to').value = "
        "'soon'; form.requestSubmit();"
    )
    checks.that("0.5 s" in page.chromium.text(".page-flame .time-form .fault"),
                "nonsense is not explained")
    checks.that("from" not in page.chromium.state(), "nonsense selected something")
    start, end = page.region("load")
    page.chromium.js(
        form +
        f"form.querySelector('.time-from').value = '{start} ns'; "
        f"form.querySelector('.time-to').value = '{end} ns'; form.requestSubmit();"
    )
    page.chromium.until("return location.hash.includes('from=')")
    page.settle()
    state = page.chromium.state()
    checks.that((int(state["from"]), int(state["to"])) == (start, end), f"{state}")
    page.chromium.until(
        "return document.querySelector('.page-flame .panel-flame "
        ".foot').textContent.includes('97.7 KiB in all')"
    )
    checks.that("allocate_big" not in page.functions() and "allocate_small" in page.functions(),
                f"{page.functions()}")
    page.chromium.click(".page-flame .time-clear")
    page.chromium.until("return !location.hash.includes('from=')")


def the_keyboard_moves_the_selection(checks, page):
    page.open("page=memory")
    page.chromium.js("document.querySelector('.page-memory .strips').focus()")
    page.chromium.keys(Keys.ARROW_RIGHT)
    page.chromium.until("return location.hash.includes('to=')")
    first = int(page.chromium.state()["to"])
    checks.that(
        abs(first - page.duration / 10) <= 2,
        f"a tenth of the run at first: {first} of {page.duration}")
    page.chromium.keys(Keys.ARROW_RIGHT)
    page.chromium.until("return location.hash.includes('from=')")
    moved = page.chromium.state()
    checks.that(
        abs(int(moved["to"]) - int(moved["from"]) - first) <= 2,
        f"moving changed its length: {moved}")
    browser.ActionChains(page.chromium.driver).key_down(Keys.SHIFT).send_keys(
        Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    longer = page.chromium.state()
    checks.that(longer["from"] == moved["from"] and int(longer["to"]) > int(moved["to"]),
                f"Shift moves the end: {longer}")
    page.chromium.keys(Keys.ESCAPE)
    page.chromium.until("return !location.hash.includes('from=')")


def a_frame_tells_its_bytes_and_is_as_wide_as_them(checks, page):
    page.open("page=flame&flame.by=bytes")
    total = page.recording.one("SELECT sum(bytes) FROM site")
    page.walk_to("allocate_big")
    share = f"{100 * BIG / total:.1f} %"
    checks.that(
        page.spoken().startswith("allocate_big at victim-panels.c:")
        and f"3.00 MiB, {share} of all" in page.spoken(), f"{page.spoken()!r}")
    pixels = page.chromium.canvas(".page-flame .flame-canvas")
    rows = [y for y in range(10, pixels.height, 20) if pixels.at(5, y)[3] > 0]
    ends = [
        next((x for x in range(pixels.width) if pixels.at(x, y)[3] < 255), pixels.width)
        for y in rows
    ]
    expected = BIG / total * pixels.width
    checks.that(
        abs(ends[-1] - expected) <= 3,
        f"allocate_big ends at {ends[-1]} of {pixels.width} pixels, expected {expected:.0f}")
    checks.that(ends[0] >= pixels.width - 2, f"all of it ends at {ends[0]} of {pixels.width}")


def enter_zooms_and_escape_goes_back_out(checks, page):
    page.open("page=flame&flame.by=bytes")
    page.walk_to("allocate_big")
    page.chromium.keys(Keys.ENTER)
    page.chromium.until(
        "return document.querySelector('.page-flame .crumbs [aria-current]')?.textContent === "
        "'allocate_big'"
    )
    link = page.chromium.driver.current_url
    pixels = page.chromium.canvas(".page-flame .flame-canvas")
    last = [y for y in range(10, pixels.height, 20) if pixels.at(5, y)[3] > 0][-1]
    checks.that(pixels.at(pixels.width - 4, last)[3] > 0, "the frame is not as wide as the picture")
    page.chromium.keys(Keys.ESCAPE)
    page.chromium.until(
        "return document.querySelector('.page-flame .crumbs [aria-current]')?.textContent === "
        "'solve'"
    )
    page.chromium.js(
        "[...document.querySelectorAll('.page-flame .crumbs button')].find((b) => b.textContent "
        "=== 'all').click()"
    )
    page.chromium.until("return !location.hash.includes('flame.at')")
    page.chromium.open(link)
    page.chromium.until(
        "return document.querySelector('.page-flame .crumbs [aria-current]')?.textContent === "
        "'allocate_big'"
    )


def a_search_tells_its_share_and_marks_what_it_found(checks, page):
    page.open("page=flame&flame.by=bytes")
    before = page.chromium.canvas(".page-flame .flame-canvas")
    page.chromium.until("return document.querySelector('#flame-search')").send_keys("nest")
    page.chromium.until("return document.querySelector('.page-flame .found').textContent")
    total = page.recording.one("SELECT sum(bytes) FROM site")
    expected = f"70 frames, {bytes_text(NESTED)}, {100 * NESTED / total:.1f} %"
    checks.that(
        page.chromium.text(".page-flame .found") == expected,
        f"{page.chromium.text('.page-flame .found')!r}, not {expected!r}")
    page.chromium.until(
        """
        const canvas = document.querySelector('.page-flame .flame-canvas');
        return String(canvas.getContext('2d').getImageData(5, 50, 1, 1).data) !== arguments[0];""",
        ",".join(map(str, before.at(5, 110))))
    page.open("page=flame&flame.by=bytes&flame.search=no+such+thing")
    checks.that("no match, 0 frames" in page.chromium.text(".page-flame .found"),
                page.chromium.text(".page-flame .found"))


def ends_of(text):
    """The ends of "(2.4-10.8 %)", "(≤10.8 %)" or "(≥2.4 %)"; None: it is no range."""
    ranged = re.search(r"\(([0-9.]+)-([0-9.]+) %", text)
    if ranged:
        return float(ranged[1]), float(ranged[2])
    ranged = re.search(r"\(([≤≥])([0-9.]+) %", text)
    if not ranged:
        return None
    return (0, float(ranged[2])) if ranged[1] == "≤" else (float(ranged[2]), 100)


def is_told(text, share):
    """Whether "(41.3 ±0.9 %)" is that share, or a range has it inside, with digits as they are
    rounded."""
    number, ends = re.search(r"\(([0-9.]+) ±", text), ends_of(text)
    if ends:
        return ends[0] - 0.1 < share < ends[1] + 0.1
    return number is not None and abs(float(number[1]) - share) < 0.0501


def shares_of_time_are_those_of_the_report(checks, page):
    """Also where samples leave open whose time it is: both give a range then."""
    page.recording.need_source("clock")
    check_shares(checks, page)
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        path = os.path.join(folder, "open.db")
        page.recording.database.execute("VACUUM INTO ?", (path,))
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            n_left_open = database.execute(
                "UPDATE site SET share = NULL, share_low = 0.01, share_high = 0.2 WHERE stack_id = "
                "(SELECT min(stack_id) FROM site"
                " WHERE bytes = 64) OR stack_id = (SELECT stack_id FROM site WHERE bytes = ?)",
                (BIG,)).rowcount
        checks.that(n_left_open == 2, f"{n_left_open} sites were left open")
        with browser.Served(page.memsight, path) as served, browser.Browser() as alone:
            n_ranges = check_shares(checks, Page(page.memsight, whole.Database(path), served,
                                                 alone))
            checks.that(
                n_ranges > 4,
                f"{n_ranges} ranges of main, solve, allocate_big, nest and what called them")
            checks.that("at least" in alone.text(".page-flame .panel-flame .foot"),
                        alone.text(".page-flame .panel-flame .foot"))
            alone.check_quiet(checks, served.address)


def check_shares(checks, page):
    """How many of them are ranges."""
    page.open("page=flame&flame.by=time")
    told = {row["function"]: row for row in page.report("--flat", "--by", "time", "--limit", "0")}
    shown = page.functions()
    n_ranges = 0
    checks.that("allocate_big" in shown, f"{shown}")
    for function, texts in shown.items():
        for name, text in zip(("self", "total"), texts):
            share, low, high = (told[function][f"{name} {what}"] for what in ("%", "low", "high"))
            found = ends_of(text)
            fits = is_told(text, 100 * share) if share is not None else \
                found and all(abs(100 * a - b) < 0.0501 for a, b in zip((low, high), found))
            checks.that(fits, f"{function}: {text}, the report has {share} from {low} to {high}")
            n_ranges += share is None
    n = page.recording.one("SELECT sum(n_samples) FROM source WHERE name IN ('clock', 'signal')")
    checks.that(f"n = {n:,} samples" in page.chromium.text(".page-flame .panel-flame .foot"),
                page.chromium.text(".page-flame .panel-flame .foot"))
    return n_ranges


def the_inverse_graph_begins_with_what_allocated(checks, page):
    page.open("page=flame&flame.by=blocks")
    page.chromium.js(
        "[...document.querySelectorAll('.page-flame .switch button')].find((b) => b.textContent "
        "=== 'Bottom-up').click()"
    )
    page.chromium.until(
        "return location.hash.includes('flame.inverse=1') && document.querySelector('.page-flame "
        ".switch [aria-pressed=true]').textContent === 'Bottom-up'"
    )
    page.settle()
    page.chromium.js("document.querySelector('.page-flame .flame-canvas').focus()")
    page.chromium.keys(Keys.ARROW_DOWN)
    checks.that(page.spoken().startswith("allocate_small at ") and "1,000 blocks" in page.spoken(),
                f"{page.spoken()!r}")
    own = {name: texts[0] for name, texts in page.functions().items()}
    checks.that(
        own["allocate_small"].startswith("1,000 blocks") and own["nest"].startswith("70 blocks"),
        f"{own}")


def what_a_run_does_not_have_is_disabled_and_says_why(checks, page):
    page.open("page=flame")
    disabled = page.chromium.js(
        "return [...document.querySelector('#flame-by').options].filter((o) => o.disabled).map((o) "
        "=> [o.value, o.title])"
    )
    checks.that({"accesses", "latency"} <= {value
                                            for value, _ in disabled}
                and all(why for _, why in disabled), f"{disabled}")
    page.chromium.click(".page-flame .missing summary")
    checks.that(
        "no source of this run measures latencies" in page.chromium.text(".page-flame .missing"),
        page.chromium.text(".page-flame .missing"))


def a_frame_leads_to_its_source_line(checks, page):
    page.open("page=flame&flame.by=bytes")
    page.walk_to("allocate_big")
    page.chromium.click(".page-flame .frame-detail .place")
    page.chromium.until("return document.querySelector('.page-flame .source .here')")
    checks.that("malloc(BIG_BYTES)" in page.chromium.text(".page-flame .source .here"),
                page.chromium.text(".page-flame .source .here"))


def objects_sort_by_each_column_as_the_database_does(checks, page):
    page.open("page=objects")
    keys = page.chromium.js(
        "return [...document.querySelectorAll('.page-objects th .sort')].filter((b) =>"
        " b.offsetParent).map((b) => b.dataset.key)")
    checks.that({"name", "peak_bytes", "bytes", "n_blocks", "live_bytes"} <= set(keys), f"{keys}")
    for key in keys:
        orders = []
        for _ in range(2):
            page.chromium.click(f".page-objects th .sort[data-key='{key}']")
            page.settle()
            orders.append(
                page.chromium.until(
                    """
                const head = document.querySelector(
                    `.page-objects th .sort[data-key='${arguments[0]}']`).closest("th");
                return head.ariaSort !== "none" && head.ariaSort !== arguments[1] &&
                    head.ariaSort;""",
                    key, orders[-1] if orders else ""))
            answer = page.served.answer("objects", run=1, sort=key,
                                        descending=int(orders[-1] == "descending"), limit=50)
            rows = answer["rows"]["columns"]
            names = [name or f"{owner}, not known which"
                     for name, owner in zip(rows["name"], rows["owner"])]
            shown = [row["Object"] for row in page.objects()]
            checks.that(
                len(shown) == len(names) and all(map(str.startswith, shown, names)),
                f"{key} {orders[-1]}: {shown[:5]}, not {names[:5]}")
        checks.that(sorted(orders) == ["ascending", "descending"], f"{key}: {orders}")
    page.open("page=objects&objects.sort=n_blocks")
    expected = page.recording.ask("SELECT n_blocks, bytes FROM site ORDER BY n_blocks DESC LIMIT 2")
    shown = [(row["Blocks"], row["Bytes"]) for row in page.objects()[:2]]
    checks.that(shown == [(f"{n:,}", bytes_text(size)) for n, size in expected],
                f"{shown}, not {expected}")


def objects_are_filtered_and_shown_by_pages(checks, page):
    page.open("page=objects")
    n_all = page.served.answer("objects", run=1, limit=1)["n_all"]
    checks.that(
        n_all > 70 and page.chromium.text(".page-objects .pager-text") == f"1-50 of {n_all}",
        page.chromium.text(".page-objects .pager-text"))
    first = page.objects()
    page.chromium.js("[...document.querySelectorAll('.page-objects .pager button')].at(-1).click()")
    page.chromium.until(
        "return document.querySelector('.page-objects .pager-text').textContent.startsWith('51-')")
    second = page.objects()
    checks.that(
        len(first) == 50 and second
        and not any(row in first for row in second if row["Blocks"] == "1,000"),
        "the second page shows the first")
    page.chromium.until("return document.querySelector('#objects-filter')").send_keys("allocate_")
    page.chromium.until(
        "return document.querySelector('.page-objects .pager-text').textContent === '1-2 of 2'")
    checks.that(
        sorted(row["Object"].split()[0] for row in page.objects()) == [
            "allocate_big", "allocate_small"
        ], f"{page.objects()}")
    page.open("page=objects&objects.filter=nobody_is_called_so")
    checks.that("Nothing is called" in page.chromium.text(".page-objects"),
                page.chromium.text(".page-objects"))


def a_curve_rises_where_its_object_lived(checks, page):
    page.open("page=objects&objects.filter=allocate_big")
    path = page.chromium.js(
        "return document.querySelector('.page-objects .spark path')?.getAttribute('d') ?? ''")
    heights = [
        22 - float(part.split()[1].rstrip("Z")) for part in path.replace("M", "L").split("L")[1:-1]
    ][1::2]
    start, end = page.region("solve")
    first, last = 32 * start / page.duration, 32 * end / page.duration
    checks.that(len(heights) == 32, f"{len(heights)} steps: {path}")
    checks.that(
        max(heights[:int(first)], default=99) < 2 < 15 < min(heights[int(first) + 1:int(last)],
                                                             default=0),
        f"lives from {first:.1f} to {last:.1f} of 32: {heights}")


def a_row_opens_its_object(checks, page):
    page.open("page=objects&objects.filter=allocate_big")
    page.chromium.click(".page-objects .object-link")
    page.chromium.until(
        "return location.hash.includes('page=object&') && location.hash.includes('site=')")
    site = page.recording.one("SELECT stack_id FROM site WHERE bytes = ?", BIG)
    checks.that(page.chromium.state()["site"] == str(site), f"{page.chromium.state()}, not {site}")


def the_run_tells_its_facts_and_sources(checks, page):
    page.open("page=run")
    text = page.chromium.text(".page-run")
    checks.that("Nothing was lost" in text or "Losses" in text, text[:500])
    for name, n in page.recording.ask("SELECT name, n_samples FROM source WHERE error = 0"):
        rows = page.chromium.js(
            "return [...document.querySelectorAll('.page-run tbody tr')].map((r) => r.innerText)")
        checks.that(any(row.startswith(name) and f"{n:,}" in row for row in rows),
                    f"{name} with {n} samples is not among {rows[:9]}")
    for name, words in [("allocations", "Blocks allocated"), ("frees", "Blocks freed"),
                        ("live_blocks", "Blocks not freed")]:
        value = page.recording.one("SELECT value FROM total WHERE name = ?", name)
        checks.that(f"{words}\n{value:,}" in text, f"{words} {value:,}")
    checks.that("_" not in page.chromium.text(".fact-list"),
                f"raw names: {page.chromium.text('.fact-list')}")


def a_link_with_times_draws_them_on_each_page(checks, page):
    for name in ["memory", "objects", "flame"]:
        page.open(f"page={name}&from={page.duration // 5}&to={page.duration // 2}")
        page.chromium.until(
            "return document.querySelector('.page:not([hidden]) .strip .u-select')?.offsetWidth > 0"
        )
        left, width = page.chromium.js("""
            const strip = document.querySelector(".page:not([hidden]) .strip");
            const [select, over] = [".u-select", ".u-over"].map((name) => strip.querySelector(name)
                .getBoundingClientRect());
            return [(select.left - over.left) / over.width, select.width / over.width];""")
        checks.that(
            abs(left - 0.2) < 0.01 and abs(width - 0.3) < 0.01,
            f"{name}: from {left}, {width} wide")


def the_focus_stays_where_it_was(checks, page):
    """Where what has it is drawn anew; a page that gives way to another leaves it to that."""
    steps = [("memory", ".tabs a:nth-child(3)", Keys.ENTER, ".tabs a:nth-child(3)"),
             ("flame", "#flame-by", Keys.ARROW_DOWN, "#flame-by"),
             ("flame", "[aria-label=Direction] button:last-child", Keys.ENTER,
              "[aria-label=Direction] button:last-child"),
             ("objects", "button.sort[data-key=bytes]", Keys.ENTER, "button.sort[data-key=bytes]"),
             ("objects", ".object-link", Keys.ENTER, "main"),
             ("memory&from=1000&to=2000", ".time-clear", Keys.ENTER, ".time-form *")]
    for name, start, key, end in steps:
        page.open(f"page={name}")
        page.chromium.until(
            f"return document.querySelector('.page:not([hidden]) {start}, header {start}')")
        page.chromium.js(
            f"document.querySelector('.page:not([hidden]) {start}, header {start}').focus()")
        before = page.chromium.js("return location.hash")
        page.chromium.keys(key)
        page.chromium.until("return location.hash !== arguments[0]", before)
        page.settle()
        found = page.chromium.until(
            "return document.activeElement !== document.body && document.activeElement")
        checks.that(
            page.chromium.js("return arguments[0].matches(arguments[1])", found, end),
            f"{name}: from {start} to "
            f"{page.chromium.js('return document.activeElement.outerHTML.slice(0, 120)')}"
        )


def a_library_has_one_colour_in_both_directions(checks, page):
    def colours(fragment):
        page.open(f"page=flame&{fragment}")
        page.chromium.until("return document.querySelector('.flame-key')")
        return dict(
            page.chromium.js("""
            return [...document.querySelectorAll(".flame-key")].map((key) => [key.innerText, key
                .querySelector(".swatch").style.background]);"""))
    page.open("page=flame")
    first = colours("flame.by=bytes")
    page.chromium.js(
        "[...document.querySelectorAll('[aria-label=Direction] button')].at(-1).click()")
    page.chromium.until("return location.hash.includes('inverse')")
    page.settle()
    second = dict(
        page.chromium.js("""
        return [...document.querySelectorAll(".flame-key")].map((key) => [key.innerText, key
            .querySelector(".swatch").style.background]);"""))
    both = first.keys() & second.keys()
    checks.that(
        len(both) > 1 and all(first[name] == second[name] for name in both),
        f"{first} and {second}")
    checks.that(len(set(second.values())) == len(second), f"two have one colour: {second}")


def every_page_fits_a_phone(checks, page):
    page.chromium.resize(390, 844)
    for name in ["memory", "flame", "objects", "series", "diff", "run"]:
        page.open(f"page={name}")
        wide = page.chromium.js("return document.scrollingElement.scrollWidth")
        checks.that(wide <= 390, f"{name} is {wide} pixels wide")
    page.chromium.resize(1280, 900)


def an_exported_file_sorts_and_filters_what_it_holds(checks, page):
    path = os.path.join(page.recording.folder.name, "page.html")
    whole.run([page.memsight, "view", "--export", path, page.recording.path])
    start, end = page.region("load")
    with browser.Browser() as alone:
        alone.go_offline()
        file = Page(page.memsight, page.recording, page.served, alone)
        for up, expected in [("", ["allocate_small", "allocate_big"]),
                             ("&objects.up=1", ["allocate_big", "allocate_small"])]:
            alone.open(
                f"file://{path}#page=objects&objects.filter=allocate_"
                f"&objects.sort=n_blocks{up}&from={start}&to={end}"
            )
            alone.until("return document.querySelector('.page-objects tbody tr')")
            shown = [row["Object"].split()[0] for row in file.objects()]
            checks.that(shown == expected, f"{up}: {shown}")
        checks.that("cannot count a part of the time anew" in alone.text(".panel-objects .foot"),
                    alone.text(".panel-objects .foot"))
        alone.open(f"file://{path}#page=flame&flame.by=bytes&from={start}&to={end}")
        alone.until("return document.querySelector('.page-flame .flame-canvas')?.dataset.frames")
        checks.that(
            "3.10 MiB in all" in alone.text(".panel-flame .foot")
            and "cannot count" in alone.text(".panel-flame .foot"),
            alone.text(".panel-flame .foot"))
        alone.check_quiet(checks, f"file://{path}")


def the_page_was_quiet(checks, page):
    page.chromium.check_quiet(checks, page.served.address)


TESTS = [
    the_timeline_is_as_high_as_what_was_live, regions_and_marks_stand_in_their_lanes,
    a_drag_over_the_timeline_selects_that_time, a_selected_time_recounts_objects_as_the_report_does,
    typed_times_select_and_nonsense_is_told, the_keyboard_moves_the_selection,
    a_frame_tells_its_bytes_and_is_as_wide_as_them, enter_zooms_and_escape_goes_back_out,
    a_search_tells_its_share_and_marks_what_it_found, shares_of_time_are_those_of_the_report,
    the_inverse_graph_begins_with_what_allocated, what_a_run_does_not_have_is_disabled_and_says_why,
    a_frame_leads_to_its_source_line, objects_sort_by_each_column_as_the_database_does,
    objects_are_filtered_and_shown_by_pages, a_link_with_times_draws_them_on_each_page,
    the_focus_stays_where_it_was, a_library_has_one_colour_in_both_directions,
    a_curve_rises_where_its_object_lived, a_row_opens_its_object,
    the_run_tells_its_facts_and_sources, every_page_fits_a_phone,
    an_exported_file_sorts_and_filters_what_it_holds, the_page_was_quiet
]


def main():
    memsight, victim = sys.argv[1:3]
    recording = whole.Recording(memsight, [victim, "400"])
    with browser.Served(memsight, recording.path) as served, browser.Browser() as chromium:
        browser.run_tests(TESTS, Page(memsight, recording, served, chromium))


main()
