#!/usr/bin/env python3
"""Written pages of --source pages: victims whose written pages are known, as an ordinary user, and
what stands in the way of asking."""
import ctypes
import os
import re
import resource
import struct

from edges import Traced, case, main, unshared
from whole import Outcome, run, skip

PAGE = resource.getpagesize()
N_PAGES = 4096
WRITTEN, HUGE, NEW = 1, 2, 4
OPTIONS = ["--source", "pages", "--pages", "100ms", "--budget", "50%"]


class Writes:
    """The intervals of a trace: of process, number, {page of the victim's memory: bits}."""

    def __init__(self, edge, trace, traced, address):
        self.intervals, self.touches = [], {}
        # How many begin before its memory was made, and that is written as a whole.
        self.n_early = traced.one("SELECT count(*) FROM write_interval WHERE begin_ns < (SELECT"
                                  " min(time_ns) FROM mark WHERE name = 'made')")
        for line in run([os.path.join(edge.build, "dump-writes"), trace]).splitlines():
            word, *values = line.split()
            values = [int(value) for value in values]
            if word == "touches":
                self.touches[values[1]] = values
            elif word == "writes":
                self.intervals.append((*values[:4], {}))
            else:
                first = (values[0] - address) // PAGE
                for page in range(max(0, first), min(N_PAGES, first + values[1] // PAGE)):
                    self.intervals[-1][-1][page] = values[2]

    def known(self):
        """Those in which every page of the victim's memory is known, and made."""
        made = sorted(self.intervals, key=lambda interval: interval[2])[self.n_early:]
        return [interval for interval in made if len(interval[-1]) == N_PAGES and
                not any(bits & (HUGE | NEW) for bits in interval[-1].values())]


def record(edge, words, how, options=None, prefix=()):
    """(Traced, Writes) of a victim, recorded by the ordinary user unless `words` are empty."""
    trace = os.path.join(edge.folder, "%s.mst" % how)
    outcome = Outcome([*prefix, *words, edge.memsight, "record", "-f", "-o", trace,
                       *(OPTIONS if options is None else options), "--",
                       edge.victim("victim-writes"), how], timeout=120)
    if outcome.status == 77:
        skip(f"{how}: no such memory")
    edge.that(outcome.status == 0, f"{how}: {outcome.status} {outcome.messages}")
    found = re.search(r"memsight: 0x([0-9a-f]+)\n", outcome.messages)
    run([*words, edge.memsight, "analyze", "-f", "-o", trace + ".db", trace])
    traced = Traced(trace + ".db", outcome)
    traced.need_source("pages")
    return traced, Writes(edge, trace, traced, int(found.group(1), 16) if found else 0)


def lost(traced):
    """But what the budget has forbidden: beside load that is more or less."""
    return sorted(reason for source, reason in traced.losses()
                  if source == "pages" and "larger --budget" not in reason)


def need_writes(edge, words):
    """Skips where this kernel does not tell."""
    text = run([*words, edge.memsight, "avail"])
    line = next((line for line in text.splitlines() if "userfaultfd-wp" in line), "")
    with open("/proc/self/status", encoding="ascii") as status:
        confined = "Seccomp:\t0" not in status.read()
    if "what --source pages takes" not in line or confined:
        skip("userfaultfd of this kernel has no WP_ASYNC, or is refused")


def n_gaps(written, step):
    """How often, going round, a page that is to be written misses behind one that is there. The
    victim writes round after round: 1 where it did not come round in the interval; more is wrong.
    """
    there = [page in written for page in range(0, N_PAGES, step)]
    return sum(before and not after for before, after in zip(there, there[1:] + there[:1]))


def check(edge, name, intervals, steps=(5,)):
    """Each interval has the pages that are written, and no others."""
    edge.that(len(intervals) >= 3, f"{name}: {len(intervals)} intervals are known")
    n_whole = n_copied = 0
    for interval in intervals:
        written = {page for page, bits in interval[-1].items() if bits == WRITTEN}
        fits = [step for step in steps if all(page % step == 0 or page == 7 for page in written)
                and n_gaps(written, step) <= 1]
        edge.that(fits, f"{name}: {len(written)} written, {sorted(written)[:9]}")
        n_whole += any(n_gaps(written, step) == 0 and 0 in written for step in fits)
        n_copied += 7 in written
    edge.that(n_whole > 0 and n_copied > 0, f"{name}: all written in {n_whole}, by the kernel in"
              f" {n_copied} of {len(intervals)} intervals")


@case
def written_pages_are_found_and_no_others(edge):
    words = edge.ordinary_user()
    need_writes(edge, words)
    for how in ["plain", "locked", "freed"]:
        traced, writes = record(edge, words, how)
        check(edge, how, writes.known())
        edge.that(not lost(traced), f"{how}: {lost(traced)}")
        for _, number, begin, end, _ in writes.intervals:
            touches = writes.touches[number]
            edge.that(begin <= touches[2] and touches[3] <= end,
                      f"{how}: interval {number} of touches lies within that of writes")


@case
def written_pages_are_reported_by_who_mapped_them(edge):
    words = edge.ordinary_user()
    need_writes(edge, words)
    traced, writes = record(edge, words, "plain")
    # Of 16 MiB each fifth page is written, and page 7; it is the only mapping of its site.
    most = ((N_PAGES + 4) // 5 + 1) * PAGE
    rows = traced.ask("SELECT known, least, most FROM site_write WHERE kind = 'mapping' AND size ="
                      " ? ORDER BY n_intervals DESC", N_PAGES * PAGE)
    edge.that(writes.known() and any(row == (N_PAGES * PAGE, most, most) for row in rows),
              f"known, least, most: {rows[:5]}, not {most}")
    found = traced.ask("SELECT write_known, written FROM page_block WHERE kind = 'mapping' AND"
                       " write_known = ?", N_PAGES * PAGE)
    # All are, when the memory is made: the first look may come in the middle of that.
    edge.that(len(found) == 1 and found[0][1] >= most, f"pages that were ever written: {found}")
    text = run([edge.memsight, "report", traced.path, "--written"])
    edge.that("never written" in text and "apart" in text, text)


@case
def a_forked_child_has_writes_of_its_own(edge):
    words = edge.ordinary_user()
    need_writes(edge, words)
    traced, writes = record(edge, words, "fork")
    processes = {interval[0] for interval in writes.known()}
    edge.that(len(processes) == 2, f"{len(processes)} processes have known intervals")
    for process in processes:
        found = [interval for interval in writes.known() if interval[0] == process]
        check(edge, f"process {process}", found, (5, 8))
    edge.that(not lost(traced), f"{lost(traced)}")


@case
def shared_memory_is_not_said_to_be_known(edge):
    words = edge.ordinary_user()
    need_writes(edge, words)
    _, writes = record(edge, words, "shared")
    edge.that(len(writes.intervals) >= 3, "there are intervals")
    edge.that(not any(interval[-1] for interval in writes.intervals), "of none of its pages")


@case
def a_program_has_its_memory_for_a_userfaultfd_of_its_own(edge):
    words = edge.ordinary_user()
    need_writes(edge, words)
    command = [*words, edge.victim("victim-writes"), "own"]
    untraced = Outcome(command)
    edge.that(untraced.stdout == b"own 0 0", f"untraced: {untraced.stdout}")
    traced, writes = record(edge, words, "own")
    edge.that(traced.outcome.stdout == b"own 0 0", f"traced: {traced.outcome.stdout}")
    edge.that(any("uses userfaultfd itself" in reason for reason in lost(traced)),
              f"{lost(traced)}")
    check(edge, "until then", writes.known())


@case
def mappings_up_to_the_limit_are_left_alone(edge):
    words = edge.ordinary_user()
    need_writes(edge, words)
    traced, _ = record(edge, words, "split")
    edge.that(traced.outcome.stdout == b"split 1", f"{traced.outcome.stdout}")
    edge.that(any("too many mappings" in reason for reason in lost(traced)), f"{lost(traced)}")


@case
def the_program_has_the_descriptors_that_it_had(edge):
    need_writes(edge, [])
    edge.compare([edge.victim("victim-writes"), "descriptors"], OPTIONS)


# ---- What stands in the way ----

def confine(action, number, argument=None):
    """Forbid a system call, or one with that second argument, to this process and its children."""
    def words(*codes):
        return b"".join(struct.pack("HBBI", *code) for code in codes)

    end = [(0x06, 0, 0, action), (0x06, 0, 0, 0x7fff0000)]
    if argument is None:
        program = words((0x20, 0, 0, 0), (0x15, 0, 1, number), *end)
    else:
        program = words((0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 24),
                        (0x15, 0, 1, argument), *end)
    text = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_char_p(head), 0, 0):
        os._exit(99)


@case
def filters_that_refuse_cost_what_they_refuse_and_no_more(edge):
    """userfaultfd with an error and by death, PAGEMAP_SCAN with an error (x86-64)."""
    if os.uname().machine != "x86_64":
        skip("numbers of system calls are those of x86-64")
    words = edge.ordinary_user()
    need_writes(edge, words)
    for name, arguments in [("error", (0x00050001, 323)), ("death", (0x80000000, 323)),
                            ("scan", (0x00050000 | 25, 16, 0xc0606610))]:
        trace = os.path.join(edge.folder, name + ".mst")
        outcome = Outcome([*words, edge.memsight, "record", "-o", trace, *OPTIONS, "--",
                           edge.victim("victim-writes"), "plain"],
                          preexec_fn=lambda given=arguments: confine(*given))
        edge.that(outcome.status == 0, f"{name}: {outcome.status} {outcome.messages}")
        run([edge.memsight, "analyze", "-o", trace + ".db", trace])
        traced = Traced(trace + ".db", outcome)
        writes = Writes(edge, trace, traced, 0)
        edge.that(not writes.intervals, f"{name}: {len(writes.intervals)} intervals of writes")
        edge.that(len(writes.touches) >= 3, f"{name}: {len(writes.touches)} of touches")
        edge.that(any("userfaultfd is refused" in reason for reason in lost(traced)),
                  f"{name}: {lost(traced)}")


@case
def a_program_under_a_filter_of_its_own_lives_on(edge):
    """The recorder may ask; what confines the program, and kills who opens a userfaultfd, was put
    there by a parent that is not traced."""
    if os.uname().machine != "x86_64":
        skip("numbers of system calls are those of x86-64")
    need_writes(edge, [])
    code = ("import sys, os; sys.path.insert(0, %r); import writes\n"
            "writes.confine(0x80000000, 323); os.execv(%r, ['victim-writes', 'plain'])" %
            (os.path.dirname(os.path.abspath(__file__)), edge.victim("victim-writes")))
    trace = os.path.join(edge.folder, "own-filter.mst")
    outcome = Outcome([edge.memsight, "record", "-o", trace, *OPTIONS, "--", "python3", "-c", code])
    edge.that(outcome.status == 0, f"{outcome.status} {outcome.messages} {outcome.stderr}")
    edge.that("0x" in outcome.messages, "the victim has run")


@case
def a_proc_that_hides_or_is_read_only_costs_what_it_hides(edge):
    if os.getuid() != 0:
        skip("only root mounts /proc anew")
    words = edge.ordinary_user()
    need_writes(edge, words)
    # A /proc of their own, in namespaces of their own: a remount would be that of the machine.
    for name, how in [("hidden", "mount -t proc -o hidepid=2 proc /proc"),
                      ("read-only", "mount --bind /proc /proc && mount -o remount,bind,ro /proc")]:
        mount = unshared("-m", "-p", "-f", "--mount-proc", "sh", "-c",
                         how + ' && { "$@"; exit $?; }', "sh")
        trace = os.path.join(edge.folder, name + ".mst")
        outcome = Outcome([*mount, *words, edge.memsight, "record", "-o", trace, *OPTIONS, "--",
                           edge.victim("victim-writes"), "plain"])
        if "mount" in outcome.stderr.decode(errors="replace"):
            skip(f"{name}: /proc cannot be mounted anew: {outcome.stderr}")
        edge.that(outcome.status == 0, f"{name}: {outcome.status} {outcome.messages}")
        found = re.search(r"memsight: 0x([0-9a-f]+)\n", outcome.messages)
        run([edge.memsight, "analyze", "-o", trace + ".db", trace])
        traced = Traced(trace + ".db", outcome)
        check(edge, name, Writes(edge, trace, traced, int(found.group(1), 16)).known())
        if name == "read-only":
            edge.that("mount /proc read-write" in outcome.messages, f"{name}: {outcome.messages}")
            edge.that(traced.one("SELECT count(*) FROM page_interval") == 0, "nobody clears marks")


if __name__ == "__main__":
    main()
