#!/usr/bin/env python3
"""Processes that are attached to, and left again. Arguments: memsight, the victim, its library, the
victim that waits, one at a fixed address, how many times one is attached to in a row."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT, VICTIM, LIBRARY, WAITING, FIXED = map(os.path.abspath, sys.argv[1:6])
CYCLES = int(sys.argv[6])
WAIT_S, WAITED_S = 6, 3.5
checks = whole.Checks()
N_OLD, OLD_BYTES = 100, 777
POINTED_BYTES, CACHED_BYTES, N_CACHED = 6543, 5, 6
N_OWN_STORES, N_OTHERS_STORES = 500, 300
N_MARKED, N_FREED, MARK_BYTES, N_LOADED, LOADED_BYTES = 1000, 400, 4321, 1000, 5432


class Victim:
    """A program that runs, and answers to words."""

    def __init__(self, command=(VICTIM,), is_calm=False, **environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=whole.environment(**environment), text=True)
        self.pid = self.process.pid
        self.hello = self.answer()
        if is_calm:
            checks.that(self.ask("calm") == "calm", "it rests")

    def answer(self):
        return self.process.stdout.readline().strip()

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def ask(self, word):
        self.tell(word)
        return self.answer()

    def proc(self, name):
        with open(f"/proc/{self.pid}/{name}", encoding="ascii", errors="replace") as file:
            return file.read()

    def maps(self):
        return len(self.proc("maps").splitlines())

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def status(self):
        kept = ("SigBlk", "SigIgn", "SigCgt", "Threads", "TracerPid", "State")
        return [line for line in self.proc("status").splitlines()
                if line.startswith(kept[:-1])]

    def virtual_kib(self):
        return int(re.search(r"VmSize:\s*(\d+)", self.proc("status"))[1])

    def end(self):
        """Nothing that it waited for was disturbed."""
        try:
            rest, _ = self.process.communicate("end\n", timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            rest = "it hangs"
        checks.that(self.process.returncode == 0 and rest.strip() == "0 wrong",
                    f"the program was disturbed: {self.process.returncode}, {rest}")


class Attached:
    """A recording of one or more victims that goes on."""

    def __init__(self, victims, folder, *options):
        victims = victims if isinstance(victims, list) else [victims]
        self.path = os.path.join(folder, "a.mst")
        self.process = subprocess.Popen(
            [MEMSIGHT, "attach", ",".join(str(victim.pid) for victim in victims), "-f", "-o",
             self.path, *options],
            stderr=subprocess.PIPE, env=whole.environment(), text=True)
        self.first = self.process.stderr.readline()

    def leave(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        _, self.rest = self.process.communicate(timeout=60)
        return self.process.returncode

    def database(self):
        whole.run([MEMSIGHT, "analyze", "-f", self.path])
        return whole.Database(self.path + ".db")


def of_size(database, n_bytes):
    return database.one("SELECT count(*) FROM allocation WHERE size = ?", n_bytes)


def still_there(database, n_bytes):
    return database.one(
        "SELECT count(*) FROM allocation WHERE size = ? AND freed_ns IS NULL", n_bytes)


def check_old(database):
    """Blocks from before the attach are there, and end when they are given back."""
    n_unknown = database.one("SELECT value FROM total WHERE name = 'before_trace_frees'")
    if any(source == "attach" for source, _ in database.losses()):
        print("not measured: the heap could not be walked", database.losses())
        checks.that(n_unknown >= N_OLD, f"{n_unknown} frees of blocks from before the attach")
        return
    n_freed = database.one(
        "SELECT count(*) FROM allocation WHERE call = (SELECT id FROM call WHERE name = ?)"
        " AND size BETWEEN ? AND ? AND freed_ns IS NOT NULL", "before the attach", OLD_BYTES,
        OLD_BYTES + 23)
    checks.that(n_freed >= N_OLD, f"{n_freed} of {N_OLD} blocks from before were freed")
    checks.that(n_unknown <= 3, f"{n_unknown} frees of blocks that nobody knows")


def check_counts(folder, program=VICTIM):
    """What a program does behind a mark is recorded to the last block."""
    victim = Victim((program,), is_calm=True)
    attached = Attached(victim, folder)
    checks.that(attached.first.startswith("memsight: recording"), attached.first)
    checks.that(victim.ask("mark") == "marked", "no mark")
    checks.that(victim.ask("old") == "given back", "no old blocks")
    checks.that(attached.leave() == 0, f"status {attached.process.returncode}: {attached.rest}")
    checks.that("runs on" in attached.rest, attached.rest)
    database = attached.database()
    checks.that(of_size(database, MARK_BYTES) == N_MARKED,
                f"{of_size(database, MARK_BYTES)} of {N_MARKED} blocks")
    checks.that(still_there(database, MARK_BYTES) == N_MARKED - N_FREED,
                f"{still_there(database, MARK_BYTES)} blocks are left")
    check_old(database)
    checks.that(victim.ask("mark") == "marked", "no mark behind the detach")
    victim.end()


def check_pointers(folder):
    """Calls through pointers that were taken before come to us; the code is as it was then."""
    victim = Victim(is_calm=True)
    code = victim.ask("code")
    for _ in range(2):
        attached = Attached(victim, folder)
        inside = victim.ask("code")
        checks.that(victim.ask("point") == "pointed", "no use of pointers")
        checks.that(attached.leave() == 0, f"status: {attached.rest}")
        checks.that(victim.ask("code") == code, "code was changed")
        database = attached.database()
        lost = [reason for source, reason in database.losses() if source == "attach"]
        if inside == code:
            print("not measured: entries are not redirected", lost)
            checks.that(any("through pointers" in reason for reason in lost), f"losses: {lost}")
            break
        n = of_size(database, POINTED_BYTES)
        checks.that(n == N_MARKED, f"{n} of {N_MARKED} blocks by a pointer")
        n = still_there(database, POINTED_BYTES)
        checks.that(n == N_MARKED - N_FREED, f"{n} blocks by a pointer are left")
        rows = database.ask("SELECT count(*), count(freed_ns) FROM allocation WHERE size = ?",
                            CACHED_BYTES)
        checks.that(rows == [(N_CACHED, N_CACHED)], f"blocks of a thread that ended: {rows}")
        n = database.one("SELECT value FROM total WHERE name = 'before_trace_frees'")
        checks.that(n == 0 or lost, f"{n} frees of blocks that nobody knows")
        n = int(database.one("SELECT value FROM fact WHERE key = 'memsight.attach.entries'"))
        checks.that(n >= 4, f"{n} entries")

    attached = Attached(victim, tempfile.mkdtemp(dir=folder))
    with open(f"/proc/{attached.process.pid}/task/{attached.process.pid}/children",
              encoding="ascii") as file:
        children = file.read().split()
    for pid in [*map(int, children), attached.process.pid]:
        os.kill(pid, signal.SIGKILL)
    attached.wait()
    checks.that(victim.ask("point") == "pointed", "no use of pointers behind a kill")
    outcome = whole.Outcome([MEMSIGHT, "detach", str(victim.pid), "--timeout", "20s"])
    checks.that(outcome.status == 0, f"behind a kill: {outcome.messages}")
    checks.that(victim.ask("code") == code, "code is changed behind a kill")
    victim.end()


def check_guesses(folder):
    """Blocks from before are given to the call that has made such since; others to nobody."""
    victim = Victim(is_calm=True)

    def attach(*options):
        attached = Attached(victim, folder, "--source", "none", *options)
        for _ in range(2):
            checks.that(victim.ask("mark") == "marked", "no mark")
        checks.that(attached.leave() == 0, f"status: {attached.rest}")
        return attached.database()

    checks.that(victim.ask("mark") == "marked", "no mark before the attach")
    database = attach()
    n_before = database.one(
        "SELECT count(*) FROM allocation WHERE freed_ns IS NULL AND size BETWEEN ? AND ? AND call ="
        " (SELECT id FROM call WHERE name = 'before the attach')", MARK_BYTES, MARK_BYTES + 23)
    if n_before == 0:
        print("not measured: the heap could not be walked", database.losses())
    else:
        rows = database.ask(
            "SELECT probable_site.frame_id, count(*), min(probability) FROM probable_site WHERE"
            " size BETWEEN ? AND ? GROUP BY 1", MARK_BYTES, MARK_BYTES + 23)
        made = database.ask(
            "SELECT DISTINCT coalesce(user.frame_id, stack.frame_id) FROM allocation JOIN stack ON"
            " stack.id = stack_id LEFT JOIN stack AS user ON user.id = stack.user_id"
            " WHERE size = ?", MARK_BYTES)
        checks.that(len(rows) == 1 and [rows[0][:1]] == made and 0.9 <= rows[0][2] < 1 and
                    rows[0][1] == n_before - 1, # the first one of the chain is not like them
                    f"guesses: {rows}, of {n_before}; made by {made};"
                    f" {database.ask('SELECT * FROM probable_test')}")
        n = database.one("SELECT count(*) FROM probable_site WHERE size BETWEEN ? AND ?",
                         OLD_BYTES, OLD_BYTES + 23)
        checks.that(n == 0, f"{n} guesses for blocks of a call that made none since")
        outcome = whole.Outcome([MEMSIGHT, "report", "--before", database.path])
        checks.that("have a probable call" in outcome.stdout.decode(), outcome.stdout.decode())
    database = attach("--no-guess")
    checks.that(database.one("SELECT count(*) FROM probable_site") == 0 and
                database.one("SELECT count(*) FROM probable_test") == 0, "it guessed")
    victim.end()


def check_samples(folder):
    """Threads that were there before are sampled as often as they use the CPU."""
    victim = Victim()

    def ticks():
        return {int(tid): int(victim.proc(f"task/{tid}/stat").rsplit(")", 1)[1].split()[11])
                for tid in os.listdir(f"/proc/{victim.pid}/task")}

    attached = Attached(victim, folder, "--source", "clock")
    before = ticks()
    time.sleep(1)
    spent = {tid: n - before[tid] for tid, n in ticks().items() if tid in before}
    attached.leave()
    victim.end()
    database = attached.database()
    if "no clock samples" in attached.first + attached.rest:
        print("not measured: samples are refused here")
        return
    unit_ms = 1000 / os.sysconf("SC_CLK_TCK")
    for tid, n in spent.items():
        n_samples = database.one(
            "SELECT count(*) FROM sample JOIN thread ON thread.id = thread_id WHERE tid = ?",
            tid)
        # Both ends are not the same.
        checks.that(n * unit_ms < 200 or n_samples > n * unit_ms / 3,
                    f"thread {tid}: {n_samples} samples in {n * unit_ms:.0f} ms")


def check_pages(folder):
    """Touched and written pages of a program that was there before, up to its leaving."""
    for patience in 0.3, 1, 3, 9:
        victim = Victim()
        attached = Attached(victim, folder, "--source", "pages", "--pages", "50ms")
        if "recording" not in attached.first:
            attached.wait()
            victim.end()
            print("not measured: touched pages:", attached.first)
            return
        time.sleep(patience)
        checks.that(victim.ask("mark") == "marked", "no mark")
        checks.that(attached.leave() == 0, f"status: {attached.rest}")
        victim.end()
        database = attached.database()
        if database.one("SELECT count(*) FROM page_interval") > 2:
            break
    checks.that(database.one("SELECT count(*) FROM page_interval WHERE touched > 0") > 2,
                f"intervals of touches: {database.losses()}")
    checks.that(database.one("SELECT count(*) FROM page_snapshot WHERE reason = 'tick' AND"
                             " has_parts") > 0, "looks at what is resident")
    lost = [reason for source, reason in database.losses() if source == "pages" and
            "written pages" in reason]
    n_writes = database.one("SELECT count(*) FROM write_interval")
    checks.that((n_writes > 0) != bool(lost), f"{n_writes} intervals of writes, {lost}")


def check_counters(folder):
    """Events are counted of all threads, from the beginning of the recording to its end."""
    victim = Victim()

    def faults():
        return sum(int(victim.proc(f"task/{tid}/stat").rsplit(")", 1)[1].split()[7])
                   for tid in os.listdir(f"/proc/{victim.pid}/task"))

    outer = faults()
    attached = Attached(victim, folder, "--source", "none", "--min-size", str(MARK_BYTES),
                        "--counters", "page-faults")
    inner = faults()
    victim.ask("mark")
    inner = faults() - inner
    attached.leave()
    outer = faults() - outer
    victim.end()
    database = attached.database()
    n = database.one("SELECT value FROM counter WHERE name = 'page-faults'")
    if n is None:
        print("not measured: page faults are not counted here")
        return
    checks.that(0 < inner <= n <= outer, f"{n} page faults, between {inner} and {outer}")


def check_watch(folder):
    """Debug registers see each access, of the threads that were there before as well."""
    victim = Victim(is_calm=True)
    attached = Attached(victim, folder, "--source", "none", "--watch", "watched", "--watch-rate",
                        "0")
    checks.that(victim.ask("watch") == "watched", "it did not use the variable")
    checks.that(attached.leave() == 0, f"status: {attached.rest}")
    victim.end()
    database = attached.database()
    if database.one("SELECT error FROM source WHERE name = 'watch'"):
        print("not measured: no debug registers here")
        return
    stores = sorted(database.ask("SELECT is_main, n_reads, n_writes FROM watch_thread JOIN thread"
                                 " ON thread.id = thread_id"))
    checks.that(stores == [(0, 0, N_OTHERS_STORES), (1, 0, N_OWN_STORES)] or
                database.one("SELECT count(*) FROM loss WHERE reason = 'ring overrun'"),
                f"stores: {stores}")


def check_library(folder):
    """A library that is opened while we are there is seen, at least from its second call on."""
    victim = Victim(is_calm=True)
    attached = Attached(victim, folder)
    checks.that(victim.ask("load " + LIBRARY) == "loaded", "the library was not loaded")
    checks.that(attached.leave() == 0, f"status: {attached.rest}")
    n = of_size(attached.database(), LOADED_BYTES)
    checks.that(n == N_LOADED, f"{n} of {N_LOADED} blocks of a library that came later")
    victim.end()


def check_ends(folder):
    """By memsight detach, by --duration, by a killed recorder, by the program's own end."""
    victim = Victim(is_calm=True)
    attached = Attached(victim, folder)
    outcome = whole.Outcome([MEMSIGHT, "detach", str(victim.pid)])
    checks.that(outcome.status == 0 and "is left" in outcome.messages, outcome.messages)
    checks.that(attached.wait() == 0, f"detach: {attached.rest}")
    outcome = whole.Outcome([MEMSIGHT, "detach", str(victim.pid)])
    checks.that(outcome.status == 1, f"twice: {outcome.messages}")

    attached = Attached(victim, folder, "--duration", "100ms")
    checks.that(attached.wait() == 0, f"duration: {attached.rest}")

    attached = Attached(victim, tempfile.mkdtemp(dir=folder))
    attached.process.kill()
    attached.wait()
    for _ in range(100):
        if "memfd:memsight" not in victim.proc("maps"):
            break
        time.sleep(0.1)
    attached = Attached(victim, folder)
    checks.that(attached.first.startswith("memsight: recording"),
                f"behind a killed recorder: {attached.first}")
    victim.end()
    checks.that(attached.wait() == 0, f"the program's end: {attached.rest}")


def child_of(pid, name):
    """The child that the kernel calls so."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        for child in file.read().split():
            with open(f"/proc/{child}/comm", encoding="ascii") as comm:
                if comm.read().strip() == name[:15]:
                    return int(child)
    return None


def check_left_behind(folder):
    """A recorder that can do nothing any more is no reason to refuse: all begins anew."""
    def begin_anew(victim, what):
        attached = Attached(victim, folder)
        checks.that(attached.first.startswith("memsight: recording"), f"{what}: {attached.first}")
        checks.that(victim.ask("mark") == "marked", f"{what}: no mark")
        checks.that(attached.leave() == 0, f"{what}: {attached.rest}")
        n = of_size(attached.database(), MARK_BYTES)
        checks.that(n == N_MARKED, f"{what}: {n} of {N_MARKED} blocks")

    victim = Victim(is_calm=True)
    attached = Attached(victim, tempfile.mkdtemp(dir=folder))
    os.kill(child_of(attached.process.pid, "memsight-attach"), signal.SIGKILL)
    attached.process.kill()
    attached.wait()
    begin_anew(victim, "attach and recorder killed")
    victim.end()

    path = os.path.join(tempfile.mkdtemp(dir=folder), "preloaded.mst")
    for what in "stopped", "killed":
        victim = Victim((MEMSIGHT, "record", "-q", "-f", "-o", path, "--", VICTIM), is_calm=True)
        recorder, victim.pid = victim.pid, child_of(victim.pid, os.path.basename(VICTIM))
        if what == "killed":
            victim.process.kill()
            victim.process.wait()
        else:
            outcome = whole.Outcome([MEMSIGHT, "ctl", str(recorder), "stop"])
            checks.that(outcome.status == 0, outcome.messages)
        begin_anew(victim, f"a preloaded recording is {what}")
        victim.tell("end")
        checks.that(victim.answer() == "0 wrong", f"{what}: the program was disturbed")
        victim.process.communicate()


# Arguments: a name to have, a process to trace.
TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, sys.argv[1].encode(), 0, 0, 0)
print(libc.ptrace(0x4206, int(sys.argv[2]), 0, 0), flush=True)
sys.stdin.read()
"""


def check_tracers(refused):
    """A debugger must be ended; one of us will be done in a moment."""
    victim = Victim()
    for name, words in (("gdb", "a debugger, strace"), ("memsight-attach", "another memsight")):
        with subprocess.Popen([sys.executable, "-c", TRACER, name, str(victim.pid)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracer:
            if tracer.stdout.readline() == "0\n":
                refused(victim.pid, words)
            else:
                print("not measured: the victim cannot be traced")
            tracer.stdin.close()
    victim.end()


def check_refusals(folder):
    """One line, and the process is as it was."""
    def refused(target, words, *options):
        outcome = whole.Outcome(
            [MEMSIGHT, "attach", str(target), "-o", os.path.join(folder, "no.mst"), *options])
        checks.that(outcome.status == 1 and words in outcome.messages and
                    outcome.messages.count("\n") == 1, f"{target}: {outcome.messages!r}")

    refused(2 ** 22 + 1, "there is no process")
    refused(os.getpid(), "does not run", "--", MEMSIGHT)
    refused(os.getpid(), "there is no program", "--", "no-such-program")
    refused(os.getpid(), "is not rank 3", "--rank", "3")
    refused("nobody-is-called-so", "no process is called")
    refused(os.getpid(), "--source clock", "--source", "signal")
    outcome = whole.Outcome([MEMSIGHT, "record", "-p", str(os.getpid()), "--physcpubind", "0"])
    checks.that(outcome.status == 2 and "--physcpubind is for a program that is started" in
                outcome.messages, outcome.messages)
    refused(0, "no number of a process")
    victim = Victim(is_calm=True)
    attached = Attached(victim, folder)
    refused(victim.pid, "is being recorded already")
    attached.leave()
    stopped = subprocess.Popen(["sleep", "60"])
    stopped.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    refused(stopped.pid, "is stopped")
    stopped.kill()
    stopped.wait()
    tid = next(int(t) for t in os.listdir(f"/proc/{victim.pid}/task") if int(t) != victim.pid)
    refused(tid, "is a thread of process")
    checks.that(not os.path.exists(os.path.join(folder, "no.mst")), "a trace was left behind")
    victim.end()
    dead = subprocess.Popen(["true"])
    time.sleep(0.2)
    refused(dead.pid, "has ended")
    dead.wait()
    if os.geteuid() != 0:
        refused(1, "belongs to user")
    check_tracers(refused)


def check_foreign(folder):
    """The heap of another malloc is not walked, which is a loss; what is made since is exact."""
    for file, name in (("libjemalloc.so.2", "jemalloc"), ("libmimalloc.so.2", "mimalloc"),
                       ("libtcmalloc_minimal.so.4", "tcmalloc")):
        path = "/usr/lib/x86_64-linux-gnu/" + file
        if not os.path.exists(path):
            print("not measured: no", path)
            continue
        victim = Victim(is_calm=True, LD_PRELOAD=path)
        attached = Attached(victim, folder, "--source", "none")
        checks.that(victim.ask("mark") == "marked", f"{name}: no mark")
        checks.that(attached.leave() == 0, f"{name}: {attached.rest}")
        database = attached.database()
        checks.that(of_size(database, MARK_BYTES) == N_MARKED and
                    still_there(database, MARK_BYTES) == N_MARKED - N_FREED, f"{name}: blocks")
        reason = f"blocks from before the attach are not all known: its malloc is {name}'s"
        checks.that(database.losses().get(("attach", reason)) == 1,
                    f"{name}: {database.losses()}")
        checks.that(database.one("SELECT count(*) FROM call WHERE name = 'before the attach' AND"
                                 " id IN (SELECT call FROM allocation)") == 0, f"{name}: guessed")
        victim.end()


def check_musl(folder):
    """Debian's loader of musl is a link to a file `libc.so', which is what is mapped."""
    if not shutil.which("musl-gcc"):
        print("not measured: no musl-gcc")
        return
    path, trace = os.path.join(folder, "musl"), os.path.join(folder, "musl.mst")
    whole.run(["musl-gcc", "-xc", "-", "-o", path], input="#include <unistd.h>\n"
              "int main(void) { char c; write(1, \"\\n\", 1); return (int)read(0, &c, 1); }\n")
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        outcome = whole.Outcome([MEMSIGHT, "attach", str(process.pid), "-o", trace])
    checks.that(outcome.status == 1 and "runs with musl's C library" in outcome.messages,
                outcome.messages)


def check_waits(folder):
    """A call that waits goes on with the time that is left of its own, whatever call it is."""
    with subprocess.Popen([WAITING, str(WAIT_S)], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(WAITED_S)
        outcome = whole.Outcome([MEMSIGHT, "attach", str(process.pid), "-q", "-f", "-o",
                                 os.path.join(folder, "w.mst"), "--duration", "1ms"])
        checks.that(outcome.status == 0 and not outcome.messages, outcome.messages)
        lines = [line.rsplit(" ", 1) for line in process.stdout]
        knows_begin = os.path.exists(f"/proc/{os.getpid()}/sched")
    checks.that(len(lines) == 14, f"{len(lines)} calls have returned")
    for call, seconds in lines:
        checks.that(call.endswith(" right"), call)
        checks.that(float(seconds) > WAIT_S - 0.01, f"{call} after {seconds} s")
        # The timeout of a socket is the socket's: it begins again.
        if knows_begin and not call.startswith("recv"):
            checks.that(float(seconds) < WAIT_S + WAITED_S - 0.5, f"{call} after {seconds} s")


def check_children(folder):
    """With --children, programs are recorded that a process starts, and what it becomes itself."""
    script = "echo ready; read line; true; /bin/true; /bin/echo line; exec cat"

    def attach(*options):
        victim = Victim(("sh", "-c", script))
        attached = Attached(victim, folder, *options)
        checks.that("recording" in attached.first, attached.first)
        checks.that(victim.ask("go on") == "line", "the shell was disturbed")
        if options:
            checks.that(victim.ask("cat") == "cat", "the program that it became was disturbed")
        else:
            attached.wait()
        victim.process.stdin.close()
        checks.that(victim.process.wait() == 0, f"it ended by {victim.process.returncode}")
        attached.wait()
        rows = attached.database().ask("SELECT exe FROM process WHERE traced AND birth = 'exec'")
        return {os.path.basename(row[0]) for row in rows}, attached.rest

    shell = os.path.basename(os.path.realpath("/bin/sh"))
    names, rest = attach("--children")
    checks.that(names == {shell, "true", "echo", "cat"}, f"recorded: {names}, {rest}")
    names, rest = attach()
    checks.that(names == {shell} and "--children goes on" in rest, f"recorded: {names}, {rest}")


FORKING = """
import os, signal, time
def use(*_):
    print(sum(len(bytes(i)) for i in range(2000)), flush=True)
signal.signal(signal.SIGUSR1, use)
print("ready", flush=True)
os.read(0, 100)
if os.fork() == 0:
    print(os.getpid(), flush=True)
    while True: time.sleep(60)
os.read(0, 100)
"""
USED = str(sum(range(2000)))


def check_forked(folder):
    """Who was forked meanwhile is left, too, however the recording ends."""
    def has_hooks(pid):
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return "memfd:memsight" in file.read()

    def try_end(name, end):
        victim = Victim((sys.executable, "-c", FORKING))
        attached = Attached(victim, tempfile.mkdtemp(dir=folder))
        checks.that("recording" in attached.first, attached.first)
        child = int(victim.ask("fork"))
        checks.that(has_hooks(child), f"{name}: the forked process was not recorded")
        end(victim, attached)
        for _ in range(600):
            if not has_hooks(child):
                break
            time.sleep(0.05)
        checks.that(not has_hooks(child), f"{name}: the forked process keeps hooks")
        os.kill(child, signal.SIGUSR1)
        checks.that(victim.answer() == USED, f"{name}: the forked process was disturbed")
        os.kill(child, signal.SIGKILL)
        victim.process.communicate("end\n")

    def detach(victim, attached):
        outcome = whole.Outcome([MEMSIGHT, "detach", str(victim.pid), "--timeout", "20s"])
        checks.that(outcome.status == 0 and "forked" in outcome.messages, outcome.messages)
        attached.wait()

    def kill(victim, attached):
        attached.process.kill()
        attached.wait()

    def end(victim, attached):
        victim.tell("end")
        attached.wait()

    try_end("Ctrl-C", lambda victim, attached: attached.leave())
    try_end("detach", detach)
    try_end("killed recorder", kill)
    try_end("own end", end)


def attach_confined(folder, *command):
    """What memsight says of a program that must not notice; None where no filter can be had."""
    victim = Victim(command)
    if victim.process.poll() is not None or victim.hello != "ready":
        victim.process.kill()
        victim.process.communicate()
        return None
    attached = Attached(victim, folder)
    said = attached.first
    if "recording" in said:
        checks.that(victim.ask("mark") == "marked", f"{command}: no mark")
        checks.that(attached.leave() == 0, f"{command}: {attached.rest}")
        n = of_size(attached.database(), MARK_BYTES)
        checks.that(n == N_MARKED, f"{command}: {n} of {N_MARKED} blocks")
    else:
        attached.wait()
    victim.end()
    return said


def check_confined(folder):
    """Filters of seccomp: what they permit is asked before it is done."""
    said = attach_confined(folder, VICTIM, "errno")
    if said is None or "cannot be read" in said:
        print("not measured: filters of seccomp", said)
    elif os.geteuid() != 0:
        checks.that("attach as root" in said, f"a filter: {said}")
    else:
        checks.that("memsight: recording" in said, f"a filter of errors: {said}")
        said = attach_confined(folder, VICTIM, "kill")
        checks.that("memsight: recording" in said, f"a filter that kills: {said}")
        for number, name in ("41", "forbids socket"), ("219", "forbids restart_syscall"):
            said = attach_confined(folder, VICTIM, "kill", number)
            checks.that(name in said, f"without {number}: {said}")
        said = attach_confined(folder, "unshare", "--net", VICTIM, "errno")
        checks.that(said is None or "memsight: recording" in said, f"another network: {said}")


def check_other_ways(folder):
    """`record -p` is the same, and of several processes of one name the rank tells which."""
    rank = str(os.getpid())
    ranks = [subprocess.Popen(VICTIM, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              env=whole.environment(PMI_RANK=number)) for number in ("0", rank)]
    path = os.path.join(folder, "p.mst")
    outcome = whole.Outcome([MEMSIGHT, "attach", os.path.basename(VICTIM), "-o", path])
    checks.that(outcome.status == 1 and "name one, or several" in outcome.messages,
                outcome.messages)
    outcome = whole.Outcome([MEMSIGHT, "record", "-p", os.path.basename(VICTIM), "--rank", rank,
                             "--duration", "1ms", "--timeout", "20s", "-f", "-o", path, "--",
                             VICTIM])
    checks.that(outcome.status == 0 and f"(pid {ranks[1].pid})" in outcome.messages,
                outcome.messages)
    for process in ranks:
        process.kill()
        process.wait()


def check_several(folder):
    """Two at once: each to the last block, also when the other one has ended; or none of them."""
    first, second = Victim(), Victim()
    attached = Attached([first, second, first], folder, "--min-size", str(MARK_BYTES))
    checks.that(f"(pid {first.pid} and 1 more)" in attached.first, attached.first)
    for victim in first, second:
        checks.that(victim.ask("mark") == "marked", "no mark")
    first.end()
    checks.that(second.ask("mark") == "marked", "no mark when the other one has ended")
    checks.that(attached.leave() == 0, f"status {attached.process.returncode}: {attached.rest}")
    database = attached.database()
    for victim, n_marks in (first, 1), (second, 2):
        n = database.one("SELECT count(*) FROM allocation WHERE size = ? AND process_id IN"
                         " (SELECT id FROM process WHERE pid = ?)", MARK_BYTES, victim.pid)
        checks.that(n == n_marks * N_MARKED, f"{n} blocks of process {victim.pid}")
    checks.that(database.one("SELECT count(*) FROM process") == 2, "other processes")

    before = second.descriptors(), second.status()
    confined = Victim((VICTIM, "kill", "41"))
    if confined.hello == "ready":
        attached = Attached([second, confined], folder)
        attached.wait()
        checks.that("seccomp" in attached.first and attached.process.returncode == 1,
                    f"{attached.process.returncode}: {attached.first}{attached.rest}")
        checks.that((second.descriptors(), second.status()) == before, "it was not left again")
        checks.that(confined.process.poll() is None, "the other one did not survive")
    confined.process.kill()
    confined.process.wait()
    second.end()


def check_cycles(folder):
    """In and out, many times: nothing grows, nothing is disturbed."""
    victim = Victim()
    before, maps, kib = None, 0, 0
    for i in range(CYCLES):
        if i == CYCLES // 5:
            victim.ask("calm")  # then threads are met in the kernel, too
        attached = Attached(victim, folder, "--duration", "10ms", "-q")
        if attached.wait() != 0 or attached.first:
            checks.that(False, f"cycle {i}: {attached.first}{attached.rest}")
            break
        now = (victim.descriptors(), victim.status())
        if i == 1:
            before, maps, kib = now, victim.maps(), victim.virtual_kib()
        checks.that(i < 2 or now == before, f"cycle {i}: {now}, it was {before}")
    # The program's own heaps may grow by a mapping or two.
    checks.that(victim.maps() <= maps + 4, f"{victim.maps()} mappings, they were {maps}")
    checks.that(victim.virtual_kib() <= kib + 2048, f"{victim.virtual_kib()} KiB, it was {kib}")
    victim.end()


def main():
    with tempfile.TemporaryDirectory() as folder:
        victim = Victim(is_calm=True)
        attached = Attached(victim, folder, "-q", "--duration", "10ms")
        if attached.wait() != 0:
            if "forbids" in attached.first or "x86-64" in attached.first:
                victim.end()
                whole.skip(attached.first)
            checks.that(False, attached.first + attached.rest)
        victim.end()
        check_counts(folder)
        check_counts(folder, FIXED)
        check_pointers(folder)
        check_guesses(folder)
        check_samples(folder)
        check_pages(folder)
        check_watch(folder)
        check_library(folder)
        check_ends(folder)
        check_left_behind(folder)
        check_refusals(folder)
        check_foreign(folder)
        check_musl(folder)
        check_waits(folder)
        check_children(folder)
        check_forked(folder)
        check_confined(folder)
        check_other_ways(folder)
        check_counters(folder)
        check_several(folder)
        check_cycles(folder)
    checks.end()


main()
