"""The pages Series, Diff and Run of a small real series in a real browser: boxes are those of
`memsight report --stat`, ratios those of `--overhead`, changes those of `memsight diff`, and losses
are explained.

Arguments: memsight, victim-panels.
"""
import json
import os
import sys
import tempfile

import browser
import whole

REPETITIONS = 7
SERIES = """[series]
output = {folder}/results
repetitions = {n}
seed = 5
warm-ups = 0
name = t
[workload small]
command = {victim} 10 1000
[workload large]
command = {victim} 10 3000
[workload failing]
command = sh {folder}/failing.sh
[mode natural]
dry = yes
[mode alloc]
source = none
"""

# From its sixth time on, in each mode by itself.
FAILING = """echo again >> {folder}/times.${{LD_PRELOAD:+traced}}
test $(wc -l < {folder}/times.${{LD_PRELOAD:+traced}}) -lt 6
"""


class Page:
    """The page of a database of several runs in one browser."""

    def __init__(self, memsight, database, served, chromium):
        self.memsight, self.database = memsight, database
        self.served, self.chromium = served, chromium

    def tell(self, *words):
        return json.loads(whole.run([self.memsight, *words, "--format", "json"]))

    def open(self, fragment):
        self.chromium.open(f"{self.served.address}#{fragment}")
        self.chromium.until("""
            const panes = [...document.querySelectorAll(".page:not([hidden]) .pane")];
            return document.documentElement.dataset.ready && panes.length > 0
                && panes.every((pane) => pane.dataset.state && pane.dataset.state !== "busy");""")

    def run_id(self, program, mode, repetition=1):
        return self.database.one(
            "SELECT id FROM run WHERE program = ? AND mode = ? AND repetition = ?", program, mode,
            repetition)

    def plot(self, metric):
        """Of a box plot: ticks {text: x}, and of each row its name and marks with their places."""
        return self.chromium.js(
            """
            const svg = document.querySelector(`[data-metric="${arguments[0]}"] svg`);
            const number = (element, name) => Number(element.getAttribute(name));
            const all = (selector, part) => [...svg.querySelectorAll(selector)].map(part);
            return {
                label: svg.getAttribute("aria-label"),
                names: all(".plot-label", (e) => e.firstChild.textContent), notes: all(".plot-note",
                    (e) => e.textContent),
                boxes: all(".box", (e) => ({ x: number(e, "x"), width: number(e, "width"),
                    y: number(e, "y") })),
                medians: all(".box-median", (e) => number(e, "x1")),
                intervals: all(".box-interval", (e) => ({ x: number(e, "x"), width: number(e,
                    "width") })),
                points: all(".box-point", (e) => ({ x: number(e, "cx"), y: number(e, "cy"),
                    text: e.textContent })),
                failed: all(".box-failed", (e) => e.textContent),
            };""", metric)


def along(value, places):
    """Where a value stands, told by two others of which value and place are known."""
    (low, x), (high, end) = places
    return x + (value - low) / (high - low) * (end - x)


def boxes_stand_where_the_report_says(checks, page):
    stat = page.tell("report", page.database.path, "--stat", "--limit", "0")
    page.open("page=series&series.program=small&series.metric=all")
    for metric in ["wall time", "user time", "max rss"]:
        plot = page.plot(metric)
        rows = {
            row["run"].split(".")[1]: row
            for row in stat if row["run"].startswith("small.") and row["name"] == metric
        }
        checks.that(
            sorted(plot["names"]) == sorted(rows),
            f"{metric}: {plot['names']}, the report has {sorted(rows)}")
        values = {
            row[0]: row[1]
            for row in page.database.ask(
                "SELECT mode, max(v) FROM (SELECT run.mode, CASE ? WHEN 'wall time' THEN wtime_ns "
                "WHEN 'user time' THEN run.user_ns"
                " ELSE run.max_rss END AS v FROM run JOIN runs ON runs.id = run.id WHERE program = "
                "'small') GROUP BY mode",
                metric)
        }
        checks.that(all(abs(values[mode] - row["max"]) < 1 for mode, row in rows.items()),
                    f"{metric}: {values} in SQL, {rows} in the report")
        known = [(row["median"], plot["medians"][plot["names"].index(mode)])
                 for mode, row in rows.items()]
        known = [min(known), max(known)]
        if known[1][0] - known[0][0] < 0.02 * known[1][0]:
            continue  # the medians are too close to measure a scale by
        for mode, row in rows.items():
            i = plot["names"].index(mode)
            for name, value, place in [("low", row["low"], plot["intervals"][i]["x"]),
                                       ("high", row["high"],
                                        plot["intervals"][i]["x"] + plot["intervals"][i]["width"])]:
                checks.that(
                    abs(place - along(value, known)) <= 1.5,
                    f"{metric} {mode}: {name} {value} stands at {place:.1f}, expected "
                    f"{along(value, known):.1f}"
                )


def numbers_beside_the_boxes_are_those_of_the_report(checks, page):
    stat = page.tell("report", page.database.path, "--stat", "--limit", "0")
    answer = page.served.answer("series")["statistics"]
    rows = {(p, m, name): i
            for i, (p, m, name) in enumerate(
                zip(*(answer["columns"][key] for key in ["program", "mode", "metric"])))}
    checks.that(
        len(rows) == answer["n"] == len(stat) > 20,
        f"{len(rows)} statistics, the report has {len(stat)}")
    for told in stat:
        i = rows.get((*told["run"].split("."), told["name"]))
        checks.that(i is not None, f"{told['run']} {told['name']} is missing")
        if i is None:
            continue
        for key, name in [("n", "n"), ("median", "median"), ("low", "low"), ("high", "high"),
                          ("least", "min"), ("most", "max"), ("n_failed", "failed")]:
            value, expected = answer["columns"][key][i], told[name]
            checks.that(
                value == expected
                or None not in (value, expected) and abs(value - expected) <= 1e-9 * abs(expected),
                f"{told['run']} {told['name']} {key}: {value}, not {expected}")
    page.open("page=series&series.program=small")
    table = page.chromium.js("""
        document.querySelector("#series-table").open = true;
        return [...document.querySelectorAll("#series-table tbody tr")].map((row) => [...row.cells]
            .map((cell) => cell.innerText.trim()));""")
    for told in (row for row in stat if row["run"].startswith("small.")):
        checks.that(
            any(row[:4] == [told["run"], told["name"],
                            str(told["n"]), "0"]
                for row in table), f"{told['run']} {told['name']} is not in the table")


def quartiles_hold_the_middle_half(checks, page):
    answer = page.served.answer("series")["statistics"]["columns"]
    for program, mode, metric, *numbers in zip(
            *(answer[key]
              for key in ["program", "mode", "metric", "least", "q1", "median", "q3", "most"])):
        checks.that(numbers == [None] * 5 or numbers == sorted(numbers),
                    f"{program}.{mode} {metric}: {numbers}")
    walls = sorted(row[0] for row in page.database.ask(
        "SELECT wtime_ns FROM runs WHERE prog = 'small' AND mode = 'alloc'"))
    i = next(i for i, key in enumerate(zip(answer["program"], answer["mode"], answer["metric"]))
             if key == ("small", "alloc", "wall time"))
    expected = [(walls[1] + walls[2]) / 2,
                (walls[4] + walls[5]) / 2]  # of 7 values: places 1.5 and 4.5
    checks.that(
        len(walls) == REPETITIONS
        and all(abs(answer[key][i] - value) <= 1 for key, value in zip(["q1", "q3"], expected)),
        f"{answer['q1'][i]} and {answer['q3'][i]}, not {expected}")


def every_run_is_a_point_and_failed_ones_are_marked(checks, page):
    page.open("page=series&series.program=small&series.metric=wall+time")
    plot = page.plot("wall time")
    checks.that(
        len(plot["points"]) == 2 * REPETITIONS and not plot["failed"],
        f"{len(plot['points'])} points, {plot['failed']}")
    failed = page.database.ask(
        "SELECT mode, count(*) FROM run WHERE program = 'failing' AND exit_status <> 0 GROUP BY "
        "mode"
    )
    page.open("page=series&series.program=failing&series.metric=wall+time")
    plot = page.plot("wall time")
    checks.that(
        dict(failed) == {"alloc": 2, "natural": 2},
        f"the series failed otherwise than planned: {failed}")
    checks.that(
        len(plot["failed"]) == 4
        and all("failed: in no statistic" in text for text in plot["failed"]), f"{plot['failed']}")
    checks.that(len(plot["points"]) == 2 * (REPETITIONS - 2), f"{len(plot['points'])} points")
    checks.that(plot["notes"] == [f"n = {REPETITIONS - 2}, ✕ 2 failed"] * 2, f"{plot['notes']}")
    checks.that("no 95 % interval below 6 values" in plot["label"] and not plot["intervals"],
                f"{plot['label']}")


def overhead_is_told_against_natural_runs(checks, page):
    page.open("page=series&series.program=small")
    rows = page.chromium.js("""
        return [...document.querySelectorAll(".panel-series .pane:last-child tbody tr")].map(
            (row) => [...row.cells].map((cell) => cell.innerText.trim()));""")
    told = next(row for row in page.tell("report", page.database.path, "--overhead")
                if row["run"] == "small.alloc")
    for metric, key in [("wall time", "wall"), ("CPU time", "cpu")]:
        expected = [
            "alloc", "natural", metric,
            str(told["pairs"]), f"{told[key + '_ratio']:.3f}",
            f"{told[key + '_low']:.3f} - {told[key + '_high']:.3f}"
        ]
        checks.that(expected in rows, f"{expected} is not among {rows}")
    text = whole.run([page.memsight, "report", page.database.path, "--overhead"])
    checks.that("failing.alloc" in text and "0.000 - 0.000" not in text,
                f"5 pairs have no interval: {text}")


def a_difference_is_that_of_memsight_diff(checks, page):
    a, b = page.run_id("small", "alloc"), page.run_id("large", "alloc")
    page.open(f"page=diff&diff.a={a}&diff.b={b}&diff.by=bytes")
    path = page.database.path
    told = page.tell("diff", f"{path}:{a}", f"{path}:{b}", "--by", "bytes", "--limit", "0")
    rows = page.chromium.js("""
        return [...document.querySelectorAll(".page-diff .grid tbody tr:not(.detail)")].map((row) =>
            Object.fromEntries([...row.cells].map((cell) => [cell.dataset.title,
                cell.innerText.trim()])));""")
    checks.that(
        len(told) == 1 and told[0]["change"] == 2000 * 100,
        f"the victims differ by 2,000 blocks of 100 bytes: {told}")
    checks.that(
        len(rows) == 1 and rows[0]["Allocated at"] == told[0]["allocated at"] and
        told[0]["allocated at"].startswith("allocate_small victim-panels.c:"), f"{rows} {told}")
    took = page.chromium.text(".page-diff .took")
    checks.that(all(name in took for name in ("wall time", "CPU time", "max RSS")), took)
    checks.that([
        rows[0][key] for key in ["Change", "Before", "After", "95 % interval", "Of before"]
    ] == ["+195 KiB", "97.7 KiB", "293 KiB", "exact", "+200.0 %"], f"{rows}")
    page.chromium.click(".page-diff [aria-label^='Swap']")
    page.chromium.until(
        "return document.querySelector('.page-diff td[data-title=Change]')?.innerText.trim() === "
        "'\u2212195 KiB'"
    )


def a_differential_flame_graph_colours_what_changed(checks, page):
    a, b = page.run_id("small", "alloc"), page.run_id("large", "alloc")
    page.open(f"page=diff&diff.a={a}&diff.b={b}&diff.by=bytes")
    pixels = page.chromium.canvas(".page-diff .flame-canvas")
    rows = [y for y in range(10, pixels.height, 20) if pixels.at(4, y)[3] == 255]
    width = pixels.width
    reds = {}
    for x in range(4, width - 4, 2):
        red, _, blue, alpha = pixels.at(x, rows[-1] - 8)  # above the letters
        if alpha == 255:
            reds[x] = red - blue
    # Big blocks are as before (twice 3 MiB), small ones have three times as many: 400,000 of 6.7
    # MB.
    changed = [x for x, value in reds.items() if value > 60]
    total = 2 * (3 << 20) + 4 * 100 * 1000 + 2 * 70 * 64 + 2 * 4096
    expected = 400000 / total * width
    checks.that(changed and abs(len(changed) * 2 - expected) < 0.2 * expected,
                f"{len(changed) * 2} of {width} pixels are orange, expected {expected:.0f}")
    checks.that(reds.get(8, 99) < 40, f"what is as before is grey: {reds.get(8)}")


def changes_of_repetitions_have_an_interval_and_can_be_filtered(checks, page):
    page.open("page=diff&diff.a=small.alloc&diff.b=large.alloc&diff.by=blocks")
    text = page.chromium.text(".diff-summary")
    checks.that(
        f"small.alloc (mean of {REPETITIONS} runs)" in text
        and f"large.alloc (mean of {REPETITIONS} runs)" in text, text)
    cell = page.chromium.text(".page-diff td[data-title='95 % interval']")
    checks.that("+2,000 blocks to +2,000 blocks" in cell, f"{cell!r}")
    page.open("page=diff&diff.a=small.alloc&diff.b=large.alloc&diff.by=blocks&diff.filter=nobody")
    checks.that("0 of 1 call site" in page.chromium.text(".page-diff .foot"),
                page.chromium.text(".page-diff .foot"))
    page.open("page=diff&diff.a=small.alloc&diff.b=small.alloc&diff.by=bytes")
    checks.that("No call site differs" in page.chromium.text(".diff-summary"),
                page.chromium.text(".diff-summary"))
    page.open(
        f"page=diff&diff.a={page.run_id('small', 'alloc')}&diff.b={page.run_id('large', 'alloc')}")
    text = page.chromium.text(".diff-summary")
    checks.that("small.alloc.1: " in text and "large.alloc.1: " in text,
                f"runs are called by their names: {text}")


def losses_are_explained_and_lie_behind_the_header(checks, page):
    lossy = page.run_id("victim-panels", "default")
    n = page.database.one(
        "SELECT sum(count) FROM loss WHERE run_id = ? AND reason = 'stack cut short'", lossy)
    checks.that(n and n > 900, f"--stack-depth 2 cut {n} stacks")
    page.open(f"page=objects&run={lossy}")
    page.chromium.click("#losses-button")
    page.chromium.until(
        "return location.hash.includes('page=run') && document.querySelector('#losses tbody tr')")
    row = page.chromium.text("#losses tbody tr")
    checks.that(
        f"{n:,}" in row and "stack cut short" in row
        and "their call stack is known only in part" in row and "--stack-depth" in row, row)


def a_run_without_samples_says_so(checks, page):
    run = page.run_id("small", "alloc")
    page.open(f"page=flame&run={run}&flame.by=time")
    disabled = page.chromium.js(
        "return [...document.querySelector('#flame-by').options].filter((o) => o.disabled).map((o) "
        "=> o.value)"
    )
    checks.that({"time", "faults", "accesses", "latency"} == set(disabled), f"{disabled}")
    checks.that(
        page.chromium.js("return document.querySelector('#flame-by').value") == "bytes",
        "something else than bytes is shown")
    page.open(f"page=memory&run={run}")
    checks.that("no accesses were sampled" in page.chromium.text(".panel-timeline .foot"),
                page.chromium.text(".panel-timeline .foot"))
    natural = page.run_id("small", "natural")
    page.open(f"page=objects&run={natural}")
    checks.that("No object was allocated or touched" in page.chromium.text(".panel-objects"),
                page.chromium.text(".panel-objects"))
    page.open(f"page=flame&run={natural}")
    checks.that("neither allocations nor samples" in page.chromium.text(".panel-flame"),
                page.chromium.text(".panel-flame"))


def the_page_was_quiet(checks, page):
    page.chromium.check_quiet(checks, page.served.address)


TESTS = [
    boxes_stand_where_the_report_says, numbers_beside_the_boxes_are_those_of_the_report,
    quartiles_hold_the_middle_half, every_run_is_a_point_and_failed_ones_are_marked,
    overhead_is_told_against_natural_runs, a_difference_is_that_of_memsight_diff,
    a_differential_flame_graph_colours_what_changed,
    changes_of_repetitions_have_an_interval_and_can_be_filtered,
    losses_are_explained_and_lie_behind_the_header, a_run_without_samples_says_so,
    the_page_was_quiet
]


def make(memsight, victim, folder):
    """A series, and a run beside it whose stacks are cut."""
    with open(os.path.join(folder, "failing.sh"), "w", encoding="utf-8") as file:
        file.write(FAILING.format(folder=folder))
    config = os.path.join(folder, "series.ini")
    with open(config, "w", encoding="utf-8") as file:
        file.write(SERIES.format(folder=folder, victim=victim, n=REPETITIONS))
    whole.Outcome([memsight, "run", config],
                  cwd=folder)  # its status tells of the runs that are to fail
    trace = os.path.join(folder, "cut.mst")
    whole.run([
        memsight, "record", "-o", trace, "--source", "none", "--stack-depth", "2", "--", victim,
        "10"
    ])
    path = os.path.join(folder, "all.db")
    whole.run([memsight, "analyze", "--all", "-o", path, os.path.join(folder, "results"), trace])
    return whole.Database(path)


def main():
    memsight, victim = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="memsight-series-") as folder:
        database = make(memsight, victim, folder)
        with browser.Served(memsight, database.path) as served, browser.Browser() as chromium:
            browser.run_tests(TESTS, Page(memsight, database, served, chromium))


main()
