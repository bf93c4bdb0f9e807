#!/usr/bin/env python3
"""Resident memory: looks at the pages of programs whose pages are known."""
import json
import os
import resource
import subprocess

from edges import Traced, case, main
from whole import Outcome, run

MIB = 1 << 20
PAGE = resource.getpagesize()
TOUCHES = ["--source", "pages", "--pages", "50ms", "--budget", "50%"]
# Of meson: the C library then writes to each block that it gives.
os.environ.pop("MALLOC_PERTURB_", None)


def look(traced, reason="end", pid=None):
    """The last look for a reason, as a dict; None: there is none."""
    where = "" if pid is None else f" AND process_id = {pid}"
    rows = traced.ask("SELECT id, rss, rss_after, uncounted, resident FROM page_snapshot"
                      f" WHERE reason = ?{where} ORDER BY id DESC LIMIT 1", reason)
    return dict(zip(["id", "rss", "after", "uncounted", "resident"], rows[0])) if rows else None


def part(traced, snapshot, what, function):
    """A sum over the parts of a call site by its function's name."""
    return traced.one(
        "WITH RECURSIVE path(id, up) AS (SELECT DISTINCT stack_id, stack_id FROM page_part UNION"
        " SELECT path.id, parent_id FROM path JOIN stack ON stack.id = up WHERE parent_id IS NOT"
        f" NULL) SELECT coalesce(sum({what}), 0) FROM page_part WHERE snapshot_id = ? AND stack_id"
        " IN (SELECT path.id FROM path JOIN stack ON stack.id = up JOIN frame ON frame.id ="
        " frame_id WHERE function = ?)", snapshot["id"], function)


def check_sum(edge, traced, snapshot):
    """The parts are what was found, and that is what the kernel says, within 1 %."""
    parts = traced.one("SELECT sum(resident + beside) FROM page_part WHERE snapshot_id = ?",
                       snapshot["id"])
    low, high = sorted((snapshot["rss"], snapshot["after"]))
    found = snapshot["resident"] - snapshot["uncounted"]
    edge.that(parts == snapshot["resident"], f"{parts} in parts, {snapshot}")
    edge.that(0.99 * low <= found <= 1.01 * high, f"the kernel has another sum: {snapshot}")


def check_blocks(edge, traced, snapshot):
    """What victim-pages blocks made of its pages; a block has 16 bytes before it."""
    check_sum(edge, traced, snapshot)
    thirds = (64 * MIB // PAGE + 2) // 3 * PAGE
    for what, function, least, most in [
        ("resident", "thirds", thirds - PAGE, thirds + PAGE),
        ("untouched", "thirds", 64 * MIB - thirds - PAGE, 64 * MIB - thirds + PAGE),
        ("resident", "returned", 16 * MIB, 16 * MIB),
        ("untouched", "returned", 16 * MIB, 16 * MIB),
        ("resident", "smalls", 20000 * 500, 20000 * 500),
        # The freed halves, and the words of the allocator.
        ("beside", "smalls", 20000 * 500, 20000 * 560),
        ("n_blocks", "smalls", 20000, 20000),
        ("resident", "mapped", 8 * MIB, 8 * MIB),
        ("untouched", "mapped", 8 * MIB, 8 * MIB),
    ]:
        found = part(traced, snapshot, what, function)
        edge.that(least <= found <= most, f"{what} of {function}: {found}, not {least} to {most}")


def ended(edge, n, record):
    """What record() gives, with looks at the ends of n processes. Beside load the recorder may come
    too late for one: then that is said, and it is recorded again."""
    for _ in range(4):
        traced = record()
        n_looks = traced.one("SELECT count(DISTINCT process_id) FROM page_snapshot WHERE reason ="
                             " 'end'")
        if n_looks == n:
            return traced
        text = run([edge.memsight, "report", traced.path, "--resident"])
        said = "no look at the end" in text or "No look at the pages" in text
        edge.that(n_looks < n and said, text)
    return skip("four times the recorder got no processor within 10 ms of an end")


def as_user(edge, *words):
    """A victim that an ordinary user has recorded, by options and command."""
    user = edge.ordinary_user()
    trace = os.path.join(edge.folder, "user.mst")
    run([*user, edge.memsight, "record", "-q", "-f", "-o", trace, *words])
    run([*user, edge.memsight, "analyze", "-f", "-o", trace + ".db", trace])
    return Traced(trace + ".db", Outcome(["true"]))


@case
def every_page_of_known_blocks_is_where_it_belongs(edge):
    for how in ["return", "_exit", "_Exit"]:
        command = [edge.victim("victim-pages"), "blocks", how]
        traced = ended(edge, 1, lambda given=command: edge.compare(given))
        check_blocks(edge, traced, look(traced))


@case
def an_ordinary_user_has_the_same_answers(edge):
    traced = ended(edge, 1, lambda: as_user(edge, "--", edge.victim("victim-pages"), "blocks",
                                            "return"))
    check_blocks(edge, traced, look(traced))


@case
def a_peak_is_looked_at_where_the_end_is_not(edge):
    """The end by a signal, or by a system call of the program's own, leaves no time to look."""
    traced = ended(edge, 1, lambda: edge.compare([edge.victim("victim-pages"), "blocks", "sleep"],
                                                 ["--pages", "200ms"]))
    for reason in ["peak", "tick", "end"]:
        snapshot = look(traced, reason)
        edge.that(snapshot, f"a look: {reason}")
        if snapshot:
            check_blocks(edge, traced, snapshot)
    for how in ["abort", "system-call"]:
        command = [edge.victim("victim-pages"), "blocks", how]
        traced = edge.compare(command, cwd=edge.folder,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        edge.that(look(traced) is None, f"{how}: no look at the end")
        text = run([edge.memsight, "report", traced.path, "--resident"])
        said = "no look at the end" in text or "No look at the pages" in text
        edge.that(said, f"{how}: {text[-400:]}")


@case
def a_fork_has_pages_of_its_own_and_of_its_parent(edge):
    traced = ended(edge, 2, lambda: edge.compare([edge.victim("victim-pages"), "fork", "return"]))
    pids = [row[0] for row in traced.ask("SELECT DISTINCT process_id FROM page_snapshot"
                                         " WHERE reason = 'end'")]
    edge.that(len(pids) == 2, f"{len(pids)} processes have a look at their end")
    for pid in pids:
        snapshot = look(traced, pid=pid)
        check_sum(edge, traced, snapshot)
        found = part(traced, snapshot, "resident", "run_fork")
        edge.that(abs(found - 32 * MIB) <= PAGE, f"process {pid}: {found} bytes of the block")
    # The child ends first: half of the block was still its parent's.
    child = traced.one("SELECT id FROM process WHERE birth = 'fork'")
    shared = part(traced, look(traced, pid=child), "shared", "run_fork")
    edge.that(abs(shared - 16 * MIB) <= 2 * PAGE, f"{shared} bytes shared with the parent")
    resident, pss, others = traced.ask(
        "SELECT resident, pss, (SELECT sum(shared) FROM page_part WHERE snapshot_id ="
        " page_snapshot.id) FROM page_snapshot WHERE id = ?", look(traced, pid=child)["id"])[0]
    edge.that(pss and 0.99 * (resident - others) <= pss <= 1.01 * (resident - others / 2),
              f"Pss {pss} of {resident}, {others} of it shared")


@case
def pages_of_a_file_and_locked_ones_are_told(edge):
    path = os.path.join(edge.folder, "mapped-file")
    traced = ended(edge, 1, lambda: edge.compare([edge.victim("victim-pages"), "file", "return",
                                                  path]))
    snapshot = look(traced)
    check_sum(edge, traced, snapshot)
    file_bytes = traced.one(
        "SELECT sum(resident) FROM page_part WHERE snapshot_id = ? AND name = ?", snapshot["id"],
        path)
    edge.that(file_bytes == 16 * MIB, f"{file_bytes} bytes of the file")
    locked = traced.one("SELECT sum(resident) FROM page_part WHERE snapshot_id = ? AND kind ="
                        " 'heap'", snapshot["id"])
    # Where so much may not be locked pages are touched: not the last one, with 16 bytes.
    edge.that(locked >= 16 * MIB - 16, f"{locked} bytes of blocks")


@case
def reports_say_what_explains_resident_memory(edge):
    traced = ended(edge, 1, lambda: edge.compare([edge.victim("victim-pages"), "blocks", "return"]))
    rows = json.loads(
        run([edge.memsight, "report", traced.path, "--resident", "-n", "0", "--format", "json"]))
    shown = traced.one("SELECT max(resident) FROM page_snapshot WHERE has_parts")
    edge.that(sum(row["rss"] for row in rows) == shown, f"rows add up to {shown}")
    edge.that(abs(sum(row["share"] for row in rows) - 1) < 1e-9, "shares add up to 1")
    text = run([edge.memsight, "report", traced.path, "--resident"])
    edge.that("thirds" in text and "difference" in text, text)
    text = run([edge.memsight, "report", traced.path])
    edge.that("live blocks never touched" in text.replace("\n             ", " "), text)


@case
def pages_are_left_alone_on_request(edge):
    traced = edge.compare([edge.victim("victim-pages"), "blocks", "return"], ["--pages", "off"])
    edge.that(traced.one("SELECT count(*) FROM page_snapshot") == 0, "no look")
    text = run([edge.memsight, "report", traced.path, "--resident"])
    edge.that("No look at the pages" in text, text)
    done = subprocess.run([edge.memsight, "record", "--pages", "5", "true"], capture_output=True,
                          text=True, check=False)
    edge.that(done.returncode == 2 and "--pages" in done.stderr, done.stderr)


@case
def pages_that_may_not_be_read_are_a_loss_with_a_remedy(edge):
    """A program that forbids to be looked at: its files in /proc are root's."""
    source = """
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	memset(malloc(16 << 20), 1, 16 << 20);
	usleep(400000);
	return 0;
}
"""
    words = edge.ordinary_user()
    program = edge.compile(source, "-O0")
    trace = os.path.join(edge.folder, "closed.mst")
    done = subprocess.run([*words, edge.memsight, "record", "--source", "pages", "--pages", "50ms",
                           "-o", trace, "--", program], capture_output=True, text=True, check=False)
    for word in ["what is resident is not known", "touched pages not known"]:
        lines = [line for line in done.stderr.splitlines() if word in line]
        edge.that(done.returncode == 0 and len(lines) == 1, done.stderr)
    text = run([*words, edge.memsight, "report", trace, "--losses"])
    edge.that("pages not readable" in text and "touched pages not known" in text, text)


@case
def programs_that_are_dead_are_no_loss(edge):
    """Of an ordinary user's own zombie the files in /proc are root's."""
    words = edge.ordinary_user()
    trace = os.path.join(edge.folder, "dead.mst")
    script = ("for i in 1 2 3 4 5 6; do sh -c 'kill -9 $$'; sleep 0.02; done 2>/dev/null;"
              " for i in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/true; done; kill -9 $$")
    done = subprocess.run([*words, edge.memsight, "record", "--pages", "10ms", "--source", "pages",
                           "--budget", "50%", "-o", trace, "--", "sh", "-c", script],
                          capture_output=True, text=True, check=False)
    edge.that("what is resident" not in done.stderr, done.stderr)
    edge.that("touched pages not known" not in done.stderr, done.stderr)
    text = run([*words, edge.memsight, "report", trace, "--losses"])
    edge.that("pages not readable" not in text and "touched pages not known" not in text, text)


def touched_of(traced, function, steady_ns):
    """(pages, touched at least, at most) of a mapping's site: rows of its last second, those first
    that hold for most intervals."""
    return traced.ask(
        "WITH RECURSIVE path(id, up) AS (SELECT DISTINCT stack_id, stack_id FROM page_touch UNION"
        " SELECT path.id, parent_id FROM path JOIN stack ON stack.id = up WHERE parent_id IS NOT"
        f" NULL) SELECT size / {PAGE}, least / {PAGE}, most / {PAGE} FROM page_touch"
        " WHERE kind = 'mapping' AND end_ns > ? AND stack_id IN (SELECT path.id FROM path JOIN"
        " stack ON stack.id = up JOIN frame ON frame.id = frame_id WHERE function = ?)"
        " GROUP BY 1, 2, 3 ORDER BY sum(n_intervals) DESC", steady_ns, function)


def check_touches(edge, traced, n_read):
    """Exact, but for intervals in which a busy machine gave the program no time for a round."""
    steady = traced.one("SELECT min(end_ns) FROM page_interval WHERE begin_ns >= (SELECT"
                        " max(end_ns) - 1000000000 FROM page_interval)")
    edge.that(traced.one("SELECT count(*) FROM page_interval") >= 3, "intervals were recorded")
    # Beside load the budget may forbid the last one, or the recorder come too late for it.
    n_forbidden = traced.one("SELECT count(*) FROM loss WHERE reason LIKE '%larger --budget'")
    edge.that(traced.one("SELECT count(*) FROM page_interval WHERE is_end") == 1 or n_forbidden or
              look(traced) is None, "the last one")
    for function, n_pages, n_touched in [("busy", 16 * MIB // PAGE, n_read),
                                         ("idle", 8 * MIB // PAGE, 0),
                                         ("copied", 4 * MIB // PAGE, 1)]:
        rows = touched_of(traced, function, steady)
        edge.that(rows and rows[0] == (n_pages, n_touched, n_touched), f"{function}: {rows}")
        edge.that(all(row[2] <= n_touched for row in rows), f"{function} has too many: {rows}")
    last = "SELECT count(*) FROM page_block WHERE kind = 'mapping' AND size = ? AND last_to_ns > ?"
    edge.that(traced.one(last, 8 * MIB, steady) == 0, "idle was not touched at the end")
    edge.that(traced.one(last, 16 * MIB, steady) == 1, "busy was touched until the end")
    edge.that(traced.one("SELECT count(*) FROM page_touch WHERE least > most OR most > size") == 0,
              "least and most are in order")


@case
def each_touched_page_is_counted_in_each_interval(edge):
    traced = edge.compare([edge.victim("victim-pages"), "touches", "return"], TOUCHES)
    check_touches(edge, traced, int(traced.outcome.stdout))
    for question, answer in [("--working-set", "1.00 s"), ("--working-set-curve", "60s_most"),
                             ("--untouched", "idle")]:
        text = run([edge.memsight, "report", traced.path, question])
        edge.that(answer in text and "of the time" in text, text)
    text = run([edge.memsight, "report", traced.path])
    edge.that("touched      " in text and "--working-set, --untouched" in text, text)
    text = run([edge.memsight, "report", traced.path, "--cold=1s"])
    edge.that("proven" in text and "idle" in text, text)


@case
def an_ordinary_user_sees_touched_pages_and_what_it_costs(edge):
    traced = as_user(edge, *TOUCHES, "--", edge.victim("victim-pages"), "touches", "_exit")
    check_touches(edge, traced, min(1000, 16 * MIB // PAGE // 3))
    # A tenth of the time at most without a word about it, and a minute at most in any case.
    edge.that(traced.one("SELECT min(own_ns) FROM page_interval") > 0, "it costs")


@case
def what_the_budget_forbids_is_a_loss(edge):
    """1.5 us may not pay for one look at a program of 1.5 s. The time without is a loss."""
    traced = edge.compare([edge.victim("victim-pages"), "touches", "return"],
                          ["--source", "pages", "--pages", "50ms", "--budget", "0.0001%"])
    edge.that(traced.one("SELECT count(*) FROM page_interval") == 0, "no interval")
    rows = traced.ask("SELECT count, to_ns - from_ns FROM loss WHERE reason = 'ms without touched"
                      " pages: larger --budget'")
    edge.that(len(rows) == 1 and rows[0][0] == rows[0][1] // 1000000 + 1 and rows[0][0] > 1000,
              f"{rows}")
    # A first look may cost what it will, then they are paid for.
    n_looks = traced.one("SELECT count(*) FROM page_snapshot WHERE reason <> 'end'")
    edge.that(n_looks <= 1, f"{n_looks} looks at what is resident")
    text = run([edge.memsight, "report", traced.path, "--working-set"])
    edge.that("--losses" in text, text)


@case
def a_child_in_the_memory_of_its_parent_clears_no_marks(edge):
    """Else pages that are read all the time would be called untouched."""
    traced = edge.compare([edge.victim("victim-pages"), "lodger", "return"],
                          ["--source", "pages", "--pages", "20ms", "--budget", "50%"])
    edge.that(traced.one("SELECT count(*) FROM page_interval JOIN process ON process.id ="
                         " process_id WHERE birth = 'fork'") == 0, "the child has no intervals")
    edge.that(traced.one("SELECT count(*) FROM page_run WHERE touched = ?",
                         PAGE * min(1000, 16 * MIB // PAGE)) > 0, "all that is read was seen")


@case
def pages_are_looked_at_on_demand(edge):
    """By --pages there is one at the begin, and then each hour."""
    trace = os.path.join(edge.folder, "asked.mst")
    with subprocess.Popen([edge.memsight, "record", "-q", "-o", trace, "--source", "pages",
                           "--pages", "1h", "--", "cat"], stdin=subprocess.PIPE) as recorder:
        n_looks = 0
        while n_looks < 10 and recorder.poll() is None:
            done = subprocess.run([edge.memsight, "ctl", trace, "look"], capture_output=True,
                                  check=False)
            n_looks += done.returncode == 0
        recorder.stdin.close()
    run([edge.memsight, "analyze", "-o", trace + ".db", trace])
    traced = Traced(trace + ".db", Outcome(["true"]))
    edge.that(recorder.returncode == 0, f"the recorder ended with {recorder.returncode}")
    found = traced.one("SELECT count(*) FROM page_snapshot WHERE reason = 'tick'")
    edge.that(1 < found <= n_looks + 1, f"{found} looks at what is resident, {n_looks} asked for")
    found = traced.one("SELECT count(*) FROM page_interval WHERE NOT is_end")
    edge.that(0 < found <= n_looks, f"{found} intervals, {n_looks} asked for")


@case
def touches_of_a_fork_are_its_own(edge):
    traced = edge.compare([edge.victim("victim-pages"), "fork", "sleep"],
                          ["--source", "pages", "--pages", "50ms"])
    edge.that(traced.one("SELECT count(*) FROM loss WHERE source = 'pages'") == 0, "no loss")
    edge.that(traced.one("SELECT count(*) FROM page_interval") > 0, "intervals")


if __name__ == "__main__":
    main()
