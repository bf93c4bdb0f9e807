#!/usr/bin/env python3
"""Nothing lost, nothing harmed: ends of all kinds, a recorder that is killed or stopped, full
disks, limits, closed files, other roots, users and namespaces. Victims print how many blocks they
made."""
import os
import re
import resource
import signal
import subprocess
import time

from edges import Traced, case, main, unshared
from whole import Outcome, environment, run, skip

BLOCK = 4801  # as in victim-survive.c
PATIENCE_S = 120


def said(outcome, name):
    """A number that the victim printed."""
    found = re.search(rb"^%s=(0x[0-9a-f]+)$" % name.encode(), outcome.stdout, re.MULTILINE)
    return int(found.group(1), 16) if found else None


def compare_end(edge, how, status):
    traced = edge.compare([edge.victim("victim-survive"), how], cwd=edge.folder)
    edge.that(traced.outcome.status == status, f"{how}: status {traced.outcome.status}")
    edge.that(traced.n_blocks(BLOCK) == said(traced.outcome, "blocks"),
              f"{how}: {traced.n_blocks(BLOCK)} blocks; {traced.messages}")
    edge.that(traced.one("SELECT ended_cleanly FROM run") == 1, f"{how}: the trace is whole")
    return traced


@case
def each_way_to_end_keeps_what_came_before(edge):
    for how, status in [("return", 3), ("_exit", 4), ("quick_exit", 5),
                        ("abort", 128 + signal.SIGABRT), ("fault", 128 + signal.SIGSEGV),
                        ("kill", 128 + signal.SIGKILL), ("main-thread", 6), ("busy", 7)]:
        traced = compare_end(edge, how, status)
        edge.that(
            os.waitstatus_to_exitcode(traced.one("SELECT exit_status FROM run")) %
            256 == (128 - status) % 256 if status > 128 else True,
            f"{how}: the status in the database")


@case
def closed_files_are_neither_used_nor_filled_by_us(edge):
    for how, status, n in [("close-all", 14, 302000), ("close-range", 17, 302000)]:
        traced = edge.compare([edge.victim("victim-survive"), how], cwd=edge.folder)
        edge.that(traced.outcome.status == status, f"{how}: status {traced.outcome.status}")
        edge.that(traced.n_blocks(BLOCK) == n, f"{how}: {traced.n_blocks(BLOCK)} blocks")


@case
def a_program_without_free_files_is_recorded(edge):
    traced = compare_end(edge, "few-files", 13)
    edge.that(traced.losses() == {}, f"losses {traced.losses()}")


class Nobody:
    """Stands for an outcome that nobody waited for."""
    messages = ""


def analysed(edge, trace, outcome=Nobody):
    database = trace + ".db"
    if os.path.exists(database):
        os.unlink(database)
    run([edge.memsight, "analyze", "-o", database, trace])
    return Traced(database, outcome)


class Paused:
    """The victim, recorded, between its two parts: .recorder, .trace while it is written."""

    def __init__(self, edge, how, options=(), first=None):
        for name in ("go", "ready"):
            if os.path.exists(os.path.join(edge.folder, name)):
                os.unlink(os.path.join(edge.folder, name))
        self.edge = edge
        self.path = os.path.join(edge.folder, how + ".mst")
        self.out = open(os.path.join(edge.folder, "out"), "w+b")
        self.err = open(os.path.join(edge.folder, "err"), "w+b")
        self.recorder = subprocess.Popen([
            edge.memsight, "record", "-o", self.path, *options, "--",
            edge.victim("victim-survive"), how
        ], cwd=edge.folder, stdout=self.out, stderr=self.err, env=environment())
        self.wait(lambda: os.path.exists(os.path.join(edge.folder, "ready")), "the victim is ready")
        line = self.said(self.err)
        self.program = int(re.search(r"\(pid (\d+)\)", line).group(1))
        if first:
            self.wait(lambda: self.committed() >= first, "the first part is in the file")

    def said(self, file):
        file.seek(0)
        return file.read().decode()

    def wait(self, is_true, what):
        end = time.monotonic() + PATIENCE_S
        while not is_true():
            if time.monotonic() > end:
                raise SystemExit(f"never: {what}; {self.said(self.err)}")
            time.sleep(0.02)

    def committed(self):
        """How many blocks the file that is being written holds."""
        partial = self.path + ".partial"
        done = subprocess.run(
            [self.edge.memsight, "analyze", "-o", self.path + ".look", "--force", partial],
            capture_output=True, env=environment(), check=False)
        if done.returncode:
            return -1
        n = Traced(self.path + ".look", Nobody).n_blocks(BLOCK)
        os.unlink(self.path + ".look")
        return n

    def go(self):
        with open(os.path.join(self.edge.folder, "go"), "w", encoding="ascii"):
            pass

    def is_alive(self):
        try:
            with open(f"/proc/{self.program}/stat", encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False


@case
def a_killed_recorder_leaves_what_it_had_and_a_program_that_ends_well(edge):
    """The program's status is lost with its parent; it says itself that it came to its end."""
    paused = Paused(edge, "two-parts", first=2000)
    paused.recorder.kill()
    paused.recorder.wait()
    paused.go()
    paused.wait(lambda: not paused.is_alive(), "the program ends")
    edge.that(paused.said(paused.out) == "first=0x7d0\nsecond=0x7d0\n", paused.said(paused.out))
    traced = analysed(edge, paused.path + ".partial")
    edge.that(traced.n_blocks(BLOCK) >= 2000, f"{traced.n_blocks(BLOCK)} blocks")
    edge.that(
        traced.one("SELECT ended_cleanly FROM run") == 0, "the trace says that it was cut off")
    edge.that("victim-survive" in traced.one("SELECT command FROM run"), "it tells the command")


@case
def a_recorder_killed_at_once_leaves_the_command(edge):
    paused = Paused(edge, "two-parts")
    paused.recorder.kill()
    paused.recorder.wait()
    paused.go()
    paused.wait(lambda: not paused.is_alive(), "the program ends")
    edge.that(paused.said(paused.out) == "first=0x7d0\nsecond=0x7d0\n", paused.said(paused.out))
    told = subprocess.run([edge.memsight, "report", paused.path], capture_output=True, text=True,
                          env=environment(), check=False)
    edge.that(f"{paused.path}.partial has" in told.stderr, f"where it is: {told.stderr}")
    traced = analysed(edge, paused.path + ".partial")
    edge.that("victim-survive two-parts" in traced.one("SELECT command FROM run"),
              "it tells the command")


@case
def a_core_dump_would_hold_no_memory_of_ours(edge):
    """The kernel leaves out what is marked dd (proc_pid_smaps(5))."""
    paused = Paused(edge, "two-parts")
    with open(f"/proc/{paused.program}/smaps", encoding="ascii") as file:
        maps = re.findall(r"memfd:memsight-pool.*?VmFlags: (.*?)$", file.read(),
                          re.MULTILINE | re.DOTALL)
    paused.go()
    edge.that(paused.recorder.wait(timeout=PATIENCE_S) == 8, "the status is the program's")
    edge.that(maps and all("dd" in flags.split() for flags in maps), f"flags of our maps: {maps}")


@case
def a_stopped_recorder_costs_ten_milliseconds_in_all(edge):
    """As the program counted its waiting: a clock on the wall would also count a busy machine."""
    paused = Paused(edge, "ten-million", ["--source", "none", "--buffer-size", "4M"])
    paused.recorder.send_signal(signal.SIGSTOP)
    paused.go()
    paused.wait(lambda: not paused.is_alive(), "the program ends")
    edge.that(paused.said(paused.out) == "made=0x989680\n", paused.said(paused.out))
    paused.recorder.send_signal(signal.SIGCONT)
    edge.that(paused.recorder.wait(timeout=PATIENCE_S) == 9, "the status is the program's")
    traced = analysed(edge, paused.path)
    waited = traced.one(
        "SELECT value FROM counter WHERE name = 'tracealloc wait time' AND unit = 'ns'")
    print("waited", waited, "ns;", traced.losses())
    edge.that(waited and 0 < waited <= 10_000_000, f"waited {waited} ns")
    n_known = traced.one("SELECT sum(n_events) FROM thread") + traced.losses().get(
        ("tracealloc", "pool full"), 0)
    edge.that(20_000_000 <= n_known <= 20_000_100,
              f"{n_known} events are recorded or counted as lost")


@case
def a_program_that_starts_while_the_recorder_is_stopped_is_told(edge):
    """It runs untraced, without the patience that a slow recorder gets, and the trace says so."""
    paused = Paused(edge, "start-late")
    paused.recorder.send_signal(signal.SIGSTOP)
    paused.go()
    paused.wait(lambda: not paused.is_alive(), "the program ends")
    edge.that(paused.said(paused.out) == "blocks=0x7d0\n", paused.said(paused.out))
    paused.recorder.send_signal(signal.SIGCONT)
    edge.that(paused.recorder.wait(timeout=PATIENCE_S) == 3, "the status is the program's")
    traced = analysed(edge, paused.path)
    late = traced.losses().get(("tracealloc", "image not traced: the recorder answered too late"))
    edge.that(late == 1, f"{traced.losses()}")
    rows = traced.ask("SELECT traced, why_not FROM process ORDER BY number")
    edge.that([row[0] for row in rows] == [1, 0] and rows[1][1], f"{rows}")
    edge.that("1 not traced" in paused.said(paused.err), paused.said(paused.err))


EVENTS_LOST = ("could not be written", "recording stopped", "pool full", "thread or process ending")


def check_adds_up(edge, traced, n_made):
    """Each of n_made blocks has two events, but for the 4096 that live on: recorded, or counted as
    lost."""
    losses = traced.losses()
    n_lost = sum(n for (_, reason), n in losses.items() if reason in EVENTS_LOST)
    n_events = traced.one("SELECT sum(n_events) FROM thread") or 0
    print("events", n_events, "of", 2 * n_made, losses, traced.messages)
    summary = re.search(r"([\d,]+) allocation events", traced.messages)
    edge.that(summary and int(summary.group(1).replace(",", "")) == n_events,
              f"the summary names the events that the trace has: {n_events}; {traced.messages}")
    if "allocations are not recorded" not in traced.messages:
        edge.that(0 <= n_events + n_lost - (2 * n_made - 4096) < 64,
                  f"{n_events} events and {n_lost} lost: {losses}")
        told = re.search(r"([\d,]+) lost", traced.messages)
        edge.that(told and int(told.group(1).replace(",", "")) == n_lost,
                  f"the summary counts {n_lost} events as lost: {traced.messages}")


@case
def a_full_disk_ends_the_trace_and_not_the_program(edge):
    """A disk of 4 MiB that only the trace fills, and one that the program fills as well."""
    prefix = unshared("-m")
    for fill, how in [("", "many-live"), ("head -c 3300k /dev/zero >disk/fill;", "many-live"),
                      ("", "fill-disk")]:
        script = (
            f"mkdir -p disk; mount -t tmpfs -o size=4m none disk; {fill}"
            f"{edge.memsight} record -s none -o disk/a.mst -- {edge.victim('victim-survive')} "
            f"{how};"
            "status=$?; cp disk/a.mst .; exit $status")
        outcome = Outcome([*prefix, "sh", "-c", script], cwd=edge.folder)
        edge.that(
            outcome.status == 11 and said(outcome, "made") == 1500000 and not outcome.stderr,
            f"{fill} {how}: status {outcome.status}, {outcome.stdout} {outcome.stderr} "
            f"{outcome.messages}"
        )
        edge.that("disk" in outcome.messages, f"the summary tells of the disk: {outcome.messages}")
        traced = analysed(edge, os.path.join(edge.folder, "a.mst"), outcome)
        check_adds_up(edge, traced, 1500000)
        edge.that(any("disk" in reason for _, reason in traced.losses()),
                  f"a loss tells of the disk: {traced.losses()}")
        edge.that(
            traced.one("SELECT sum(n_events) FROM thread") > 1000, "most of the disk holds events")


@case
def what_finds_the_disk_full_says_what_helps(edge):
    """record, report, analyze and export, of a trace that has room and whose database or text has
    none."""
    trace = os.path.join(edge.folder, "a.mst")
    Outcome([
        edge.memsight, "record", "-s", "none", "-o", trace, "--",
        edge.victim("victim-survive"), "many-live"
    ])
    run([edge.memsight, "analyze", "-o", trace + ".db", trace])
    commands = [("report {}/a.mst", "analyze -o DATABASE {}/a.mst"),
                ("analyze -o {}/b.db a.mst", "elsewhere"),
                ("export --format chrome -o {}/c.json a.mst.db",
                 "disk is full; -o names another place"),
                ("record -o {}/d.mst -- true", "-o FILE or --dir DIR names another place")]
    for words, expected in commands:
        script = (
            "mkdir -p disk; mount -t tmpfs -o size=8m none disk; cp a.mst disk; head -c 8m "
            "/dev/zero >disk/fill 2>/dev/null;"
            f"exec {edge.memsight} {words.format('disk')}")
        outcome = Outcome([*unshared("-m"), "sh", "-c", script], cwd=edge.folder)
        edge.that(
            outcome.status == 1 and outcome.messages.count("\n") == 1
            and expected.format("disk") in outcome.messages
            and ("full" in outcome.messages or "No space left" in outcome.messages),
            f"{words}: {outcome.status} {outcome.messages}")


@case
def a_command_that_cannot_be_run_is_told_why(edge):
    """One line each, with the exit status of a shell."""
    files = {
        "plain": ("text\n", 0o644), "lost": ("#!/no/such/shell\n", 0o755), "here": (
            "#!/bin/sh\n", 0o755)
    }
    for name, (text, mode) in files.items():
        path = os.path.join(edge.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)
    whys = {
        "./missing": (127, "No such file or directory"), "missing": (
            127, "it is in no folder of PATH\n"), "here": (127, "./ in front of it names this one"),
        "./plain": (126, "chmod +x"), "./lost": (
            127, "its first line names /no/such/shell, which is not there"), "/tmp": (
                126, "it is a folder")
    }
    for command, (status, why) in whys.items():
        outcome = Outcome(
            [*edge.ordinary_user(), edge.memsight, "record", "-o", "a.mst", "--", command],
            cwd=edge.folder)
        edge.that(
            outcome.status == status and outcome.messages.count("\n") == 1
            and f"'{command}'" in outcome.messages and why in outcome.messages,
            f"{command}: {outcome.status} {outcome.messages}")


@case
def a_program_that_a_signal_ends_is_said_to_be(edge):
    for name, number in (("KILL", 9), ("SEGV", 11)):
        outcome = Outcome(
            [edge.memsight, "record", "-o", name + ".mst", "--", "sh", "-c", f"kill -{name} $$"],
            cwd=edge.folder)
        edge.that(
            outcome.status == 128 + number
            and f"SIG{name} (exit status {128 + number})" in outcome.messages
            and ("dmesg" in outcome.messages) == (name == "KILL"),
            f"{outcome.status} {outcome.messages}")


@case
def a_disk_that_is_full_for_a_moment_costs_nothing(edge):
    """The program fills the disk while it allocates, and empties it again before it goes on to the
    end."""
    script = (
        "mkdir -p disk; mount -t tmpfs -o size=40m none disk;"
        f"{edge.memsight} record -s none -o disk/a.mst -- sh -c '"
        f"head -c 60m /dev/zero >disk/fill 2>/dev/null; {edge.victim('victim-survive')} many-live; "
        "status=$?;"
        "sleep 1; rm disk/fill; sleep 1; exit $status'; status=$?; cp disk/a.mst .; exit $status")
    outcome = Outcome([*unshared("-m"), "sh", "-c", script], cwd=edge.folder)
    edge.that(outcome.status == 11 and said(outcome, "made") == 1500000,
              f"{outcome.status} {outcome.messages}")
    edge.that("no space left on device for disk/a.mst" in outcome.messages, outcome.messages)
    edge.that(" 0 lost" in outcome.messages and "stopped" not in outcome.messages, outcome.messages)
    traced = analysed(edge, os.path.join(edge.folder, "a.mst"), outcome)
    edge.that(traced.losses() == {}, f"losses {traced.losses()}")
    n_events = traced.one("SELECT sum(n_events) FROM thread")
    edge.that(n_events >= 2 * 1500000 - 4096, f"{n_events} events")


@case
def without_proc_the_reason_is_said(edge):
    """And the program is not started."""
    outcome = Outcome([
        *unshared("-m"), "sh", "-c",
        f"mount -t tmpfs none /proc; {edge.memsight} record -s none -o a.mst -- touch ran"
    ], cwd=edge.folder)
    edge.that(outcome.status == 1 and "/proc is not mounted" in outcome.messages and
              outcome.messages.count("\n") == 1, f"{outcome.status} {outcome.messages}")
    edge.that(os.listdir(edge.folder) == [], f"left {os.listdir(edge.folder)}")


def limit_file_size(n_bytes):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


@case
def a_limit_of_file_size_ends_the_trace_and_not_the_program(edge):
    """The shared memory counts as a file, too: it is made as small as it must be, or left out."""
    for n_bytes, note in [(100 << 10, "allocations are not recorded"),
                          (2 << 20, "is smaller than asked for"),
                          (4 << 20, "is smaller than asked for")]:
        traced = edge.compare([edge.victim("victim-survive"), "many-live"], ["-s", "none"],
                              preexec_fn=limit_file_size(n_bytes))
        edge.that(note in traced.messages and "ulimit -f" in traced.messages, traced.messages)
        check_adds_up(edge, traced, 1500000)
        edge.that(os.path.getsize(traced.path[:-len(".db")]) <= n_bytes, "the limit holds")


@case
def a_trace_never_grows_beyond_its_largest_size(edge):
    for size in [40 << 10, 300 << 10]:
        traced = edge.compare([edge.victim("victim-survive"), "many-live"],
                              ["-s", "none", "--max-size", str(size)])
        check_adds_up(edge, traced, 1500000)
        edge.that("--max-size" in traced.messages, f"the summary tells of it: {traced.messages}")
        edge.that(("collector", "--max-size is reached") in traced.losses(), f"{traced.losses()}")
        n_bytes = os.path.getsize(traced.path[:-len(".db")])
        edge.that(size / 2 < n_bytes <= size, f"{n_bytes} of {size} bytes are used")
        report = run([edge.memsight, "report", "--losses", traced.path])
        edge.that("--max-size is reached" in report, report)


@case
def a_limit_of_address_space_is_left_to_the_program(edge):
    traced = edge.compare([edge.victim("victim-survive"), "address-space"], cwd=edge.folder)
    edge.that(traced.n_blocks(BLOCK) == 2000, f"{traced.n_blocks(BLOCK)} blocks")
    traced = edge.compare([edge.victim("victim-survive"), "return"], cwd=edge.folder,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                                (900 << 20, 900 << 20)))
    edge.that(traced.n_blocks(BLOCK) == 0 and "1 not traced" in traced.messages, traced.messages)
    edge.that(("tracealloc", "image not traced: no room for the shared memory") in traced.losses(),
              f"{traced.losses()}")


@case
def another_root_without_proc_is_recorded(edge):
    prefix = [] if os.getuid() == 0 else unshared()
    traced = edge.compare([*prefix, edge.victim("victim-survive"), "chroot"], cwd=edge.folder)
    edge.that(traced.n_blocks(BLOCK) == 6000, f"{traced.n_blocks(BLOCK)} blocks; {traced.messages}")


@case
def a_program_that_becomes_another_user_is_recorded(edge):
    if os.getuid() != 0:
        skip("only root can become another user")
    traced = edge.compare([edge.victim("victim-survive"), "setuid"], cwd=edge.folder)
    edge.that(traced.n_blocks(BLOCK) == 6000, f"{traced.n_blocks(BLOCK)} blocks; {traced.messages}")


@case
def hooks_make_no_system_call_that_a_sandbox_forbids(edge):
    traced = compare_end(edge, "seccomp", 18)
    edge.that(traced.losses() == {}, f"losses {traced.losses()}")


@case
def ids_of_both_namespaces_are_recorded(edge):
    """Processes and time have namespaces of their own: their clock is an hour ahead."""
    prefix = unshared("-p", "-f", "-T", "--mount-proc", "--monotonic", "3600")
    traced = edge.compare([*prefix, edge.victim("victim-survive"), "return"], cwd=edge.folder)
    edge.that(traced.n_blocks(BLOCK) == 2000, f"{traced.n_blocks(BLOCK)} blocks")
    rows = traced.ask("SELECT pid, ns_pid FROM process WHERE exe LIKE '%victim-survive'")
    edge.that(rows and rows[-1][1] == 1 and rows[-1][0] > 1,
              f"pid and pid in the namespace: {rows}")
    edge.that(traced.one("SELECT count(*) FROM allocation WHERE allocated_ns < 0 OR allocated_ns >"
                         " (SELECT duration_ns FROM run)") == 0, "births lie within the run")


@case
def a_daemon_is_recorded_to_its_end(edge):
    traced = edge.compare([edge.victim("victim-survive"), "daemonise"], cwd=edge.folder)
    edge.that(traced.outcome.status == 15, f"status {traced.outcome.status}")
    edge.that(traced.n_blocks(BLOCK) == 2000, f"{traced.n_blocks(BLOCK)} blocks")
    edge.that(traced.one("SELECT count(*) FROM process WHERE birth = 'fork'") == 2, "two forks")


if __name__ == "__main__":
    main()
