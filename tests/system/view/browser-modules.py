"""Modules of the page that do not draw, asked alone in a real browser with small things whose
answer is known.

Arguments: memsight, a victim (any program whose page can be opened).
"""
import json
import pathlib
import re
import sys

import browser
import whole

ROOT = pathlib.Path(__file__).resolve().parents[3]

# main calls parse and sort; parse calls itself once; 10 of main's 100 are its own.
TREE = {
    "total": 100, "unit": "bytes", "n_samples": None, "nodes": {
        "n": 5, "columns": {
            "parent": [-1, 0, 0, 1, 3], "function": [0, 1, 2, 1, 3], "value": [100, 60, 30, 40, 15],
            "self": [10, 20, 30, 25, 15], "site": [None, None, 7, None, 9]
        }
    }, "names": {
        "n": 4, "columns": {
            "function": ["main", "parse", "sort",
                         ""], "module": ["/bin/x", "/bin/x", "/lib/s.so", "/lib/s.so"],
            "file": ["x.c", "x.c", "s.c", None], "line": [1, 2, 3, None]
        }
    }
}


class Modules:
    """.recording; .ask(name, body, values...): what `return` gives in a function whose `m` is the
    module memsight/NAME."""

    def __init__(self, chromium, recording):
        self.chromium, self.recording = chromium, recording

    def ask(self, name, body, *values):
        text = self.chromium.driver.execute_async_script(
            """
            const done = arguments[arguments.length - 1];
            const values = arguments[1];
            import("memsight/" + arguments[0]).then((m) => {
                const [a, b, c] = values;
                done(JSON.stringify({ value: (() => { %s })() }));
            }).catch((error) => done(JSON.stringify({ error: String(error) })));""" % body, name,
            list(values))
        answer = json.loads(text)
        if "error" in answer:
            raise SystemExit(f"memsight/{name}: {body}: {answer['error']}")
        return answer.get("value")


def free_heap_memory_is_no_block(checks, modules):
    """Its answer has the address and the size of all of the heap, and no id."""
    here = {
        "time": 1000, "step": 10, "address": 0x5000, "band": "heap", "n": None, "category": None,
        "sample": None
    }
    gap = {
        "owner": "heap", "id": None, "site": None, "address": 0x1000, "size": 132 << 10,
        "offset": 0x4000, "allocated_ns": None, "freed_ns": None, "thread": None, "kind": "heap",
        "stack": [], "samples": {"n": 0, "columns": {}}
    }
    rows = dict(modules.ask("tip", "return m.tipRows(a, b, String)", here, gap))
    checks.that(
        rows["object"] == "heap, no block lives here" and rows["offset"] is None
        and rows["lives"] is None, f"{rows}")
    block = dict(
        modules.ask("tip", "return m.tipRows(a, b, String)", here,
                    {**gap, "id": 7, "size": 0x8000, "allocated_ns": 5}))
    checks.that(
        block["object"] == "block of 32.0 KiB" and block["offset"] == "16,384 of 32,768 bytes",
        f"{block}")


def frames_lie_side_by_side_below_their_caller(checks, modules):
    found = modules.ask(
        "flame-layout",
        "const t = m.treeOf(a); return "
        "{ start: [...t.start], depth: [...t.depth], levels: t.levels }",
        TREE)
    checks.that(found == {"start": [0, 0, 0, 60, 0, 0], "depth": [0, 1, 2, 2, 3, 4], "levels": 5},
                f"{found}")


def a_frame_that_is_zoomed_is_as_wide_as_the_picture(checks, modules):
    found = modules.ask("flame-layout", "return m.rectanglesOf(m.treeOf(a), 2, 600)", TREE)
    widths = {one["node"]: one["width"] for one in found}
    checks.that(widths == {0: 600, 1: 600, 2: 600, 4: 400, 5: 150}, f"{widths}")
    gone = modules.ask("flame-layout",
                       "return m.rectanglesOf(m.treeOf(a), 0, 2).map((r) => r.node)", TREE)
    checks.that(5 not in gone and 2 in gone, f"frames below half a pixel are left out: {gone}")


def every_frame_is_found_where_it_is_drawn(checks, modules):
    wrong = modules.ask(
        "flame-layout", """
        const t = m.treeOf(a);
        return [0, 1, 2].flatMap((zoom) => m.rectanglesOf(t, zoom, 600)
            .filter((r) => m.nodeAt(t, zoom, 600, r.x + r.width - 0.01, r.level) !== r.node));""",
        TREE)
    checks.that(wrong == [], f"{wrong}")
    checks.that(
        modules.ask("flame-layout", "return m.nodeAt(m.treeOf(a), 0, 600, 599, 2)", TREE) == -1,
        "own time has no frame below it")


def a_recursive_match_counts_once(checks, modules):
    found = modules.ask(
        "flame-layout",
        "const f = m.search(m.treeOf(a), 'PARSE');"
        " return [[...f.matches].sort(), f.value, f.share]",
        TREE)
    checks.that(found == [[2, 4], 60, 0.6], f"{found}")
    found = modules.ask(
        "flame-layout", "const f = m.search(m.treeOf(a), 's.so'); return [f.matches.size, f.value]",
        TREE)
    checks.that(found == [2, 45], f"by library: {found}")
    found = modules.ask(
        "flame-layout",
        "const t = m.treeOf(a); return [m.search(t, 's.so', 2).share, m.search(t, '  "
        "').matches.size]",
        TREE)
    checks.that(found == [0.25, 0], f"of what is shown, and of nothing: {found}")


def a_function_of_the_table_counts_once_on_each_path(checks, modules):
    found = modules.ask(
        "flame-layout",
        "return m.functionsOf(m.treeOf(a)).map((f) => [m.frameName(f.frame), f.self, f.total])",
        TREE)
    checks.that(
        found == [["parse", 45, 60], ["sort", 30, 30], ["[s.so]", 15, 15], ["main", 10, 100]],
        f"{found}")


def arrow_keys_walk_the_tree_and_stop_at_its_ends(checks, modules):
    walks = {
        "ArrowDown": [1, 2, 4, 3, 5, 5], "ArrowUp": [0, 0, 1, 1, 2, 4],
        "ArrowRight": [0, 1, 3, 3, 4, 5], "ArrowLeft": [0, 1, 2, 2, 4, 5]
    }
    for key, expected in walks.items():
        found = modules.ask(
            "flame-layout",
            "const t = m.treeOf(a); return [0, 1, 2, 3, 4, 5].map((n) => m.neighbour(t, n, b))",
            TREE, key)
        checks.that(found == expected, f"{key}: {found}")


def a_frame_is_found_again_in_another_tree(checks, modules):
    found = modules.ask(
        "flame-layout", """
        const t = m.treeOf(a);
        const other = m.treeOf({ ...a, nodes: { n: 2, columns: { parent: [-1, 0], function: [0, 1],
            value: [5, 5], self: [0, 5] } } });
        return [m.findSteps(t, m.stepsOf(t, 5)), m.findSteps(other, m.stepsOf(t, 5))];""", TREE)
    checks.that(found == [5, 2], f"{found}")


def times_are_read_as_people_write_them(checks, modules):
    for text, expected in {
            "1.5 ms": 1500000, "0.2": 200000000, "300us": 300000, " 7 ns ": 7, "2min": 120000000000,
            ".5 s": 500000000, "": None, "five": None, "-1 s": None, "1 h": None, "1,5 s": None
    }.items():
        found = modules.ask("units", "return m.parseDuration(a)", text)  # NaN is null in JSON
        checks.that(found == expected, f"{text!r}: {found}")


def values_have_their_unit(checks, modules):
    for value, unit, expected in [(1536, "bytes", "1.50 KiB"), (1500000, "ns", "1.50 ms"),
                                  (1234567, "page faults", "1,234,567 page faults"),
                                  (None, "bytes", "-"), (1234567, "/s", "1.23 M/s"),
                                  (999.6, "/s", "1 k/s"), (0.5, "blocks", "0.5 blocks")]:
        found = modules.ask("units", "return m.valueText(a, b)", value, unit)
        checks.that(found == expected, f"{value} {unit}: {found}")
    found = modules.ask(
        "units",
        "return [m.changeText(-1024, 'bytes'), m.changeText(1024, 'bytes'), m.changeText(0, "
        "'bytes')]"
    )
    checks.that(found == ["\u22121.00 KiB", "+1.00 KiB", "0 B"], f"{found}")


def buckets_of_lives_and_sizes_are_told_as_the_database_means_them(checks, modules):
    found = modules.ask("object",
                        "return [-2, -1, 0, 10].map((power) => m.log2Text(power, String))")
    checks.that(found == ["not freed", "0", "1 to 2", "1024 to 2048"], f"{found}")


def a_thread_that_nobody_ended_went_with_its_process(checks, modules):
    found = modules.ask(
        "run", "const app = { processes: [{ id: 7, end_ns: 2000 }, { id: 8, end_ns: null }] };"
        "return [[1000, 7], [null, 7], [null, 8]].map(([end_ns, process_id]) => m.threadEnd(app, "
        "{ end_ns, process_id }))"
    )
    checks.that(found == ["1.00 us", "2.00 us", "end of the trace"], f"{found}")


def the_interval_of_a_share_is_that_of_agresti_and_coull(checks, modules):
    for successes, n in [(0, 10), (5, 10), (10, 10), (300, 1000)]:
        mean = (successes + 2) / (n + 4)
        expected = 1.96 * (mean * (1 - mean) / (n + 4)) ** 0.5
        found = modules.ask("units", "return m.halfWidth(a, b)", successes / n, n)
        checks.that(abs(found - expected) < 1e-12, f"{successes} of {n}: {found}, not {expected}")
    checks.that(
        modules.ask("units", "return m.halfWidth(0.5, 0)") == 1,
        "of no samples everything is possible")


def what_no_sample_fell_on_is_a_range_from_zero(checks, modules):
    for share, low, high, expected in [(0, 0, 0.0051, "≤0.5 %"),
                                       (0, 0, 0.00001, "0.0 ±0.0 %"),
                                       (0, 0, 0.5, "≤50.0 %"),
                                       (0.413, 0.404, 0.422, "41.3 ±0.9 %"),
                                       (0.0001, 0, 0.005, "≤0.5 %"),
                                       (0.766, 0.312, 1.0, "≥31.2 %"),
                                       (0.999, 0.997, 1.0, "≥99.7 %"), (None, None, None, "-"),
                                       (0, None, None, "0.0 %")]:
        found = modules.ask("format", "return m.share(a, b, c)", share, low, high)
        checks.that(found == expected, f"{share} from {low} to {high}: {found}")


def totals_are_words_with_units(checks, modules):
    totals = dict(modules.recording.ask("SELECT name, value FROM total"))
    unknown = modules.ask("total-words",
                          "return Object.keys(a).filter((name) => !m.isKnownTotal(name))", totals)
    checks.that(
        len(totals) > 20 and not unknown, f"totals without words: {unknown} of {len(totals)}")
    rows = modules.ask(
        "total-words", "return m.totalRows(a).map(({ text, value }) => [text, value])", {
            "bytes": 1536, "pauses": 0, "paused_ns": 1500000, "allocations": 0, "new_bytes": 2048,
            "new_thing": 1234
        })
    checks.that(
        rows == [["Blocks allocated", "0"], ["Bytes asked for",
                                             "1.50 KiB"], ["… in all", "1.50 ms"],
                 ["new bytes", "2.00 KiB"], ["new thing", "1,234"]], f"{rows}")


def ranges_are_called_as_in_figures(checks, modules):
    for kind, name, expected in [("heap", "", "heap"), ("heap", "[heap]", "heap (brk)"),
                                 ("stack", "[stack]", "stack"), ("stack", "", "stack"),
                                 ("global", "/usr/lib/libc.so.6", "libc.so.6"),
                                 ("mapping", "/dev/shm/x", "x"), ("mapping", "", "mapping"),
                                 ("global", "", "globals"), ("tool", "", "memsight itself"),
                                 ("other", "", "other")]:
        found = modules.ask("axis", "return m.bandName({ kind: a, name: b })", kind, name)
        checks.that(found == expected, f"{kind} {name!r}: {found}")


def time_has_a_scale_on_a_phone_too(checks, modules):
    for end in (43.8e9, 1, 3, 999, 5e9, 10.1e9, 20.5e9, 49e9):
        found = modules.ask("axis", "return m.timeTicks(0, a, 240)", end)
        checks.that(2 <= len(found) <= 5 or end == 1, f"0 to {end} ns: {found}")


def a_scale_of_colours_goes_from_one_touch_to_the_most(checks, modules):
    for most in (1, 2, 50, 65535):
        found = modules.ask(
            "ramp", "return [0, 0.25, 0.5, 0.75, 1].map((part) => m.rampCount(part, a))", most)
        checks.that(
            abs(found[0] - 1) < 1e-9 and abs(found[-1] - most) < 1e-6 * most
            and found == sorted(found), f"up to {most}: {found}")
    found = modules.ask(
        "ramp",
        "return [m.createRamp(1, false).map((e) => e.innerText || e.textContent), "
        "m.createRamp(1234, false).map((e) => e.textContent)]"
    )
    checks.that("1,234" in found[1][0] and found[0][1] == "touch in a cell", f"{found}")


def axes_count_in_steps_of_people_and_bytes_in_powers_of_two(checks, modules):
    for low, high, wanted, unit, expected in [(0, 100, 5, "", [0, 20, 40, 60, 80, 100]),
                                              (0.93, 1.14, 4, "", None),
                                              (0, 4096, 4, "bytes", [0, 1024, 2048, 3072, 4096])]:
        found = modules.ask("units", "return m.niceSteps(a[0], a[1], b, c)", [low, high], wanted,
                            unit)
        checks.that(expected is None or found == expected, f"{low} to {high}: {found}")
        checks.that(2 <= len(found) <= 2 * wanted and low <= found[0] and found[-1] <= high + 1e-9,
                    f"{low} to {high}: {found}")
    found = modules.ask("units", "return m.stepTexts([1624, 1625, 1626], 'bytes')")
    checks.that(len(set(found)) == 3, f"steps that three digits do not tell apart: {found}")


def whiskers_end_at_values_and_leave_outliers_outside(checks, modules):
    found = modules.ask("box-statistics",
                        "return m.whiskersOf([1, 10, 11, 12, 13, 14, 40], 10.5, 13.5)")
    checks.that(found == {"low": 10, "high": 14, "outliers": [0, 6]}, f"{found}")
    found = modules.ask("box-statistics",
                        "return [0, 0.25, 0.5, 1].map((p) => m.quantile([1, 2, 4, 8], p))")
    checks.that(found == [1, 1.75, 3, 8], f"{found}")
    found = modules.ask(
        "box-statistics",
        "return [m.axisOf([0, 10])[0], m.axisOf([100, 101])[0] > 0, m.axisOf([]), m.spread(1)]")
    checks.that(found == [0, True, [0, 1], [0]], f"{found}")


TIMELINE = {
    "live": {
        "n": 2, "columns": {
            "time_ns": [0, 500], "interval_ns": [500, 500], "live_bytes": [10, 0],
            "max_live_bytes": [30, 10], "n_allocations": [4, 1], "n_frees": [2, 3],
            "n_samples": [5, 0], "n_faults": [0, 7]
        }
    }, "rss": {"n": 1, "columns": {"time_ns": [400], "rss": [4096], "anonymous": [0]}}, "levels": {
        "n": 3, "columns": {
            "time_ns": [0, 0, 500], "interval_ns": [500] * 3, "level": ["L1", "RAM", "RAM"],
            "n": [1, 4, 2]
        }
    }, "regions": {
        "n": 3, "columns": {
            "name": ["all", "part", "other"], "thread": [1, 1, 2], "start_ns": [0, 100, 50],
            "end_ns": [None, 200, 150], "depth": [1, 2, 1]
        }
    }, "marks": {"n": 1, "columns": {"name": ["here"], "thread": [1], "time_ns": [120]}}
}


def counts_of_intervals_become_rates_and_add_up(checks, modules):
    found = modules.ask("timeline-series",
                        "const c = m.curvesOf(a); return [c.times, c.allocations, c.totals]",
                        TIMELINE)
    checks.that(
        found == [[0, 500, 1000], [8e6, 2e6, 2e6],
                  {"blocks": 5, "frees": 5, "samples": 5, "faults": 7}], f"{found}")
    found = modules.ask("timeline-series", "return m.rssOf(a, [0, 500, 1000])", TIMELINE)
    checks.that(found == [None, 4096, 4096], f"RSS before it was told is not known: {found}")
    found = modules.ask(
        "timeline-series",
        "return m.levelsOf(a, [0, 500, 1000]).map((l) => [l.name, l.total, l.rates])", TIMELINE)
    checks.that(found == [["RAM", 6, [8e6, 4e6, 4e6]], ["L1", 1, [2e6, 0, 0]]], f"{found}")
    checks.that(
        modules.ask("timeline-series", "return m.stacked([[1, 2], [3, 4]])") == [[1, 2], [4, 6]],
        "stacked")
    parts = modules.ask(
        "timeline-series",
        "return [[0, 250], [250, 500], [500, 1000]].map(([f, t]) => m.sumsIn(a, f, t, "
        "true).allocations)",
        TIMELINE)
    checks.that(parts == [4, 0, 1], f"parts add up: {parts}")
    checks.that(
        modules.ask("timeline-series", "return m.sumsIn(a, 250, 260).most", TIMELINE) == 30,
        "a span within an interval meets it")


def regions_that_overlap_stand_below_each_other(checks, modules):
    found = modules.ask(
        "timeline-lanes",
        "const l = m.lanesOf(a, 1000); return [l.rows.map((r) => [r.name, r.row, r.end]), "
        "l.marks[0].row, l.n]",
        TIMELINE)
    checks.that(found == [[["all", 0, 1000], ["other", 1, 150], ["part", 2, 200]], 3, 4],
                f"{found}")


def a_difference_as_a_tree_adds_up_on_both_sides(checks, modules):
    rows = [{"path": ["main at x.c:1", "f at x.c:2"], "before": 10,
             "after": 30}, {"path": ["main at x.c:7", "g"], "before": 5, "after": 0},
            {"path": [], "before": 1, "after": 1}]
    found = modules.ask(
        "diff-tree",
        "const d = m.diffTree(a, 'bytes'); return [d.total, d.before, d.after, "
        "d.nodes.columns.parent, d.names.columns.line]",
        rows)
    checks.that(found == [47, [16, 15, 10, 5, 1], [31, 30, 30, 0, 1], [-1, 0, 0, -1], [0, 0, 0, 0]],
                f"{found}")
    checks.that(
        modules.ask(
            "diff-tree",
            "return [m.changeOf(0, 5), m.changeOf(5, 0), m.changeOf(5, 5), m.changeOf(0, 0)]") == [
                1, -1, 0, 0
            ], "changes")


def tables_are_saved_as_csv_with_numbers_as_they_are(checks, modules):
    rows = [["f, \"g\"", 1.5, None], ["=1+1", -3, "a\nb"]]
    found = modules.ask("csv", "return m.csvText(['name', 'n', 'x'], a)", rows)
    checks.that(found == 'name,n,x\r\n"f, ""g""",1.5,\r\n\'=1+1,-3,"a\nb"\r\n', f"{found!r}")


def runs_are_called_by_label_by_trace_or_as_in_a_series(checks, modules):
    def run(mode, repetition, trace, label=None):
        return {"program": "p", "mode": mode, "repetition": repetition, "trace": trace,
                "label": label}

    for runs, expected in [
        ([run("default", 1, "a.mst"), run("default", 2, "b.mst")], ["a.mst", "b.mst"]),
        ([run("default", 1, "a.mst"), run("default", 2, "a.mst")], ["p.default.1", "p.default.2"]),
        ([run("quick", 1, "p.quick.1.mst")], ["p.quick.1"]),
        ([run("default", 1, "a.mst", "before"), run("default", 2, "b.mst")], ["before", "b.mst"]),
    ]:
        found = modules.ask("run-name", "return a.map((run) => m.runName(a, run))", runs)
        checks.that(found == expected, f"{runs}: {found}")


def modes_that_were_repeated_are_compared_before_single_runs(checks, modules):
    for names, expected in [("a.x a.x a.y a.y b.x b.x", ["a.x", "a.y"]),
                            ("a.x a.x a.y b.x b.x", None), ("a.x a.y", None), ("", None)]:
        runs = [{"program": name[0], "mode": name[2]} for name in names.split()]
        found = modules.ask("diff", "return m.usualModes(a)", runs)
        checks.that(found == expected, f"{names}: {found}")


def what_is_not_known_is_sorted_last_either_way(checks, modules):
    rows = [{"a": 2}, {"a": None}, {"a": 10}]
    for descending, expected in [(False, [2, 10, None]), (True, [10, 2, None])]:
        found = modules.ask("grid", "return m.sorted(a, { key: 'a' }, b).map((r) => r.a)", rows,
                            descending)
        checks.that(found == expected, f"descending {descending}: {found}")


def reasons():
    """Texts of losses in the sources: .reason = "..." and the table of samples.c."""
    found = set()
    for path in [
            path for part in ("runner", "analyze", "store") for path in (ROOT / part).rglob("*.c")
    ]:
        text = path.read_text()
        found |= set(re.findall(r'\.reason\s*=\s*"([^"]+)"', text))
        found |= set(re.findall(r'\[SAMPLE_LOSS_\w+\]\s*=\s*"([^"]+)"', text))
        found |= {
            reason
            for _, reason in re.findall(r'losses_count\(&\S+,\s*"(\w[\w.]*)",\s*"([^"]+)"', text)
        }
    return sorted(found)


def every_loss_that_the_program_tells_has_a_meaning_and_a_remedy(checks, modules):
    all_reasons = reasons()
    checks.that(len(all_reasons) > 30, f"only {len(all_reasons)} reasons were found in the sources")
    for reason in all_reasons:
        words = modules.ask("loss-words", "return m.lossWords('', a)", reason)
        checks.that(words["meaning"] and words["remedy"], f"nothing explains the loss {reason!r}")


def every_option_that_the_page_names_is_one(checks, modules):
    options = {
        name
        for _, name in re.findall(r'^OPTION\((\w+),\s[^"]*"([a-z-]+)"', (
            ROOT / "schemas/options.def").read_text(), re.MULTILINE)
    }
    colours = set(re.findall(r"--([a-z-]+):", (ROOT / "view/web/style.css").read_text()))
    for path in sorted(
            path for path in (ROOT / "view/web").rglob("*.js") if "vendor" not in path.parts):
        named = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", path.read_text())) - colours
        checks.that(named <= options,
                    f"{path.name} names options that are none: {sorted(named - options)}")
    checks.that(
        modules.ask("loss-words",
                    "return m.lossWords('x', 'of a new kind')") == {"meaning": "", "remedy": ""},
        "what is not known is not made up")


TESTS = [
    free_heap_memory_is_no_block, frames_lie_side_by_side_below_their_caller,
    a_frame_that_is_zoomed_is_as_wide_as_the_picture, every_frame_is_found_where_it_is_drawn,
    a_recursive_match_counts_once, a_function_of_the_table_counts_once_on_each_path,
    arrow_keys_walk_the_tree_and_stop_at_its_ends, a_frame_is_found_again_in_another_tree,
    times_are_read_as_people_write_them, values_have_their_unit,
    buckets_of_lives_and_sizes_are_told_as_the_database_means_them,
    a_thread_that_nobody_ended_went_with_its_process,
    the_interval_of_a_share_is_that_of_agresti_and_coull,
    what_no_sample_fell_on_is_a_range_from_zero, totals_are_words_with_units,
    ranges_are_called_as_in_figures, time_has_a_scale_on_a_phone_too,
    a_scale_of_colours_goes_from_one_touch_to_the_most,
    axes_count_in_steps_of_people_and_bytes_in_powers_of_two,
    whiskers_end_at_values_and_leave_outliers_outside, counts_of_intervals_become_rates_and_add_up,
    regions_that_overlap_stand_below_each_other, a_difference_as_a_tree_adds_up_on_both_sides,
    runs_are_called_by_label_by_trace_or_as_in_a_series,
    tables_are_saved_as_csv_with_numbers_as_they_are,
    modes_that_were_repeated_are_compared_before_single_runs,
    what_is_not_known_is_sorted_last_either_way,
    every_loss_that_the_program_tells_has_a_meaning_and_a_remedy,
    every_option_that_the_page_names_is_one
]


def main():
    memsight, victim = sys.argv[1:3]
    recording = whole.Recording(memsight, [victim, "1"], options=["--source", "none"])
    with browser.Served(memsight, recording.path) as served, browser.Browser() as chromium:
        chromium.open(served.address)
        chromium.until("return document.documentElement.dataset.ready")
        browser.run_tests(TESTS, Modules(chromium, recording))


main()
