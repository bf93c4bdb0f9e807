#!/usr/bin/env python3
"""Windows, and a recording that is asked from outside. Arguments: memsight, the victim."""
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import json_schema
import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()
FIRST, SPAN = 1000, 20000
ENDLESS = (VICTIM, "1", "0", "20")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Recorded:
    """A recording that is under way."""

    def __init__(self, folder, command, *options, name="run.mst"):
        self.trace = os.path.join(folder, name)
        self.process = subprocess.Popen(
            [MEMSIGHT, "record", "-q", "-s", "none", "-o", self.trace, *options, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=whole.environment())
        self.process.stdout.readline()

    def ctl(self, *words, of=None, prefix=()):
        return subprocess.run([*prefix, MEMSIGHT, "ctl", of or self.trace, *words], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              env=whole.environment())

    def ask(self, *words):
        done = self.ctl(*words)
        checks.that(done.returncode == 0, f"ctl {words}: {done.stderr}")
        return done.stdout

    def status(self):
        return dict(re.findall(r"(\w+(?: bytes)?) +(.*)", self.ask("status")))

    def program(self):
        return int(self.status()["program"].split(",")[0])

    def end(self):
        """Stop it, end the program that runs on, and open what was recorded."""
        pid = self.program()
        self.ask("stop")
        self.process.wait(timeout=120)
        os.kill(pid, signal.SIGKILL)  # it has our pipes
        self.process.communicate()
        return analysed(self.trace)


def analysed(trace):
    whole.run([MEMSIGHT, "analyze", "-f", trace])
    return whole.Database(trace + ".db")


def wait_until(what, text):
    for _ in range(600):
        if what():
            return
        time.sleep(0.05)
    checks.that(False, "waited in vain: " + text)


def events(database, from_ns=0, to_ns=1 << 62):
    """Births and ends of the victim's blocks in order of time: (is a birth, bytes)."""
    rows = database.ask(
        "SELECT allocated_ns, 1, size FROM allocation WHERE size BETWEEN ?1 AND ?2 UNION ALL"
        " SELECT freed_ns, 0, size FROM allocation WHERE size BETWEEN ?1 AND ?2 AND"
        " freed_ns IS NOT NULL ORDER BY 1", FIRST, FIRST + SPAN - 1)
    return [row[1:] for row in rows if from_ns <= row[0] < to_ns]


def windows(database):
    return database.ask("SELECT number, start_ns, end_ns, cause, n_live FROM window"
                        " ORDER BY number")


def is_part_of(part, whole_list):
    """Whether one list lies in another without a gap."""
    return any(whole_list[i:i + len(part)] == part for i in range(len(whole_list))
               if not part or whole_list[i] == part[0])


def births(part):
    return [size for is_birth, size in part if is_birth]


def check_windows(folder):
    """What lies in a window is what a recording of all of the run has there, block for block."""
    command = (VICTIM, "1", "15000", "30")
    full = os.path.join(folder, "full.mst")
    cut = os.path.join(folder, "cut.mst")
    whole.run([MEMSIGHT, "record", "-q", "-s", "none", "-o", full, "--", *command])
    whole.run([MEMSIGHT, "record", "-q", "-s", "none", "-o", cut, "--windows", "60ms:40ms:3",
               "--windows", "500ms:20ms", "--", *command])
    all_events = events(analysed(full))
    database = analysed(cut)
    found = windows(database)
    # A recorder that is late misses some.
    checks.that(found and [row[0] for row in found] == list(range(1, len(found) + 1)),
                f"windows {found}")
    checks.that({row[3] for row in found} <= {"60ms:40ms:3", "500ms:20ms"}, f"causes {found}")
    for number, start_ns, end_ns, _, n_live in found:
        part = events(database, start_ns, end_ns)
        checks.that(part and is_part_of(births(part), births(all_events)),
                    f"window {number}: {len(part)} events are not those of the full recording")
        born = set(births(part))
        own = [event for event in part if event[1] in born]
        checks.that(own == [event for event in all_events if event[1] in born][:len(own)],
                    f"window {number}: births and ends in another order")
        live = database.one("SELECT count(*) FROM allocation WHERE allocated_ns < ?1 AND"
                            " coalesce(freed_ns, 1 << 62) >= ?1", start_ns)
        checks.that(live == n_live, f"window {number}: {n_live} live, rows say {live}")
        rows = list(csv.DictReader(io.StringIO(whole.run(
            [MEMSIGHT, "report", cut, "--window", str(number), "--sites", "--format", "csv"]))))
        n = database.one("SELECT count(*) FROM allocation WHERE allocated_ns >= ? AND"
                         " allocated_ns < ?", start_ns, end_ns)
        n_told = sum(int(row["blocks"]) for row in rows)
        checks.that(n_told == n, f"window {number}: --sites says {n_told} of {n} blocks")
        text = whole.run([MEMSIGHT, "report", cut, "--window", str(number)])
        checks.that(text.startswith(f"part: window {number}: ") and
                    f"allocations  {n:,}  " in text and "memory  " not in text, text)
    inside = sum(len(events(database, row[1], row[2])) for row in found)
    outside = len(events(database)) - inside
    n_births_outside = len(births(events(database))) - sum(
        len(births(events(database, row[1], row[2]))) for row in found)
    checks.that(n_births_outside < inside / 4,
                f"{n_births_outside} births of {outside} events outside of windows")
    n_missed = database.losses().get(
        ("collector", "windows missed: the recorder was late"), 0)
    checks.that(len(found) + n_missed == 4 or all(row[2] < 520e6 for row in found),
                f"{len(found)} windows and {n_missed} missed of 4")
    checks.that(len(database.losses()) == (n_missed > 0), f"losses {database.losses()}")
    checks.that(database.one("SELECT count(*) FROM withheld") > len(found) - 1, "rows of withheld")
    refused = subprocess.run([MEMSIGHT, "report", cut, "--window", "9", "--sites"], text=True,
                             stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    checks.that(refused.returncode == 1 and f"windows 1 to {len(found)}" in refused.stderr,
                f"window 9: {refused.stderr}")
    check_list(cut)
    check_page(cut, found[-1])


def check_list(trace):
    rows = json.loads(whole.run([MEMSIGHT, "report", trace, "--window-list", "--format", "json"]))
    json_schema.check_report(checks, rows, "window-list")


def check_page(trace, window):
    """The page begins with the window: served and in a file."""
    number, from_ns, to_ns = window[:3]
    fragment = f"#from={from_ns}&run=1&to={to_ns}"
    file = trace + ".html"
    whole.run([MEMSIGHT, "view", trace, "--window", str(number), "--export", file])
    with open(file, encoding="utf-8") as page:
        checks.that(f'"from":{from_ns},"to":{to_ns}' in page.read(), "the file is of another part")
    with subprocess.Popen([MEMSIGHT, "view", trace, "--window", str(number), "--no-open"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as served:
        said = served.stdout.readline().strip() or served.stderr.read()
        served.terminate()
    checks.that(said.endswith(fragment) or "without libmicrohttpd" in said, f"view says {said!r}")
    refused = subprocess.run([MEMSIGHT, "view", trace, trace, "--window", "1"], text=True,
                             stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    checks.that(refused.returncode == 2 and "of one trace" in refused.stderr, refused.stderr)


def check_start_after(folder):
    """The first event behind the mark is the first one that is recorded."""
    trace = os.path.join(folder, "after.mst")
    whole.run([MEMSIGHT, "record", "-q", "-s", "none", "-o", trace, "--start-after", "mark:middle",
               "--", VICTIM, "1", "2000", "100"])
    database = analysed(trace)
    found = windows(database)
    checks.that(len(found) == 1 and found[0][3] == "after middle", f"windows {found}")
    checks.that(births(events(database)) == [FIRST + i for i in range(1000, 2000)],
                "not the blocks behind the mark")
    mark_ns = database.one("SELECT time_ns FROM mark WHERE name = 'middle'")
    checks.that(abs(found[0][1] - mark_ns) < 100000, "the window begins elsewhere than the mark")


def check_threads(folder):
    """Pauses and resumptions while threads record as fast as they can: no event is lost between,
    and of each thread the blocks of a window follow each other."""
    recorded = Recorded(folder, (VICTIM, "4", "0", "40"), name="threads.mst")
    for _ in range(20):
        recorded.ask("pause")
        recorded.ask("resume")
    database = recorded.end()
    found = windows(database)
    checks.that(len(found) == 21, f"{len(found)} windows")
    n_gaps = 0
    for _, start_ns, end_ns, _, _ in found:
        rows = database.ask("SELECT thread_id, size FROM allocation WHERE size BETWEEN ? AND ? AND"
                            " allocated_ns >= ? AND allocated_ns < ? ORDER BY allocated_ns",
                            FIRST, FIRST + SPAN - 1, start_ns, end_ns)
        last = {}
        for thread, size in rows:
            n_gaps += thread in last and (size - last[thread]) % SPAN != 1
            last[thread] = size
    checks.that(n_gaps == 0, f"{n_gaps} gaps within windows")
    checks.that(not database.losses(), f"losses {database.losses()}")


def births_before(database, mark):
    """Blocks that the victim had allocated before a mark."""
    return database.one("SELECT count(*) FROM allocation WHERE allocated_ns <"
                        f" (SELECT min(time_ns) FROM mark WHERE name = '{mark}')")


def check_snapshots_are_whole(folder):
    """All events before a snapshot was asked for are in it, of all threads."""
    recorded = Recorded(folder, (VICTIM, "3", "0", "40"), "--trigger", "live>100k",
                        name="whole.mst")
    first = recorded.trace.replace(".mst", "-1.mst")
    wait_until(lambda: os.path.exists(first), "the trigger's snapshot")
    asked = {"trigger live>100k": first}
    for number in range(3):
        mark = f"before {number}"
        recorded.ask("mark", mark)
        asked[mark] = recorded.ask("snapshot").strip()
    database = recorded.end()
    for mark, path in asked.items():
        found, all_of_them = births_before(analysed(path), mark), births_before(database, mark)
        checks.that(found == all_of_them > 0, f"{path}: {found} of {all_of_them} before {mark}")


def check_control(folder):
    recorded = Recorded(folder, ENDLESS)
    status = recorded.status()
    checks.that(status["state"] == "recording" and status["window"] == "-" and
                status["trace"] == recorded.trace, f"status {status}")
    checks.that(recorded.ctl("status", of=str(recorded.program())).returncode == 0, "by its pid")
    listed = subprocess.run([MEMSIGHT, "ctl"], text=True, stdout=subprocess.PIPE, check=False)
    checks.that(recorded.trace in listed.stdout, f"memsight ctl lists {listed.stdout!r}")
    wait_until(lambda: int(recorded.status()["events"]) > 1000, "events")
    recorded.ask("mark", "outside mark")
    path = recorded.ask("snapshot").strip()
    checks.that(path == recorded.trace.replace(".mst", "-1.mst"), f"snapshot is {path}")
    now = os.path.join(folder, "now.mst")
    checks.that(recorded.ask("snapshot", "-o", now).strip() == now, "snapshot -o")
    again = recorded.ctl("snapshot", "-o", now)
    checks.that(again.returncode == 1 and "is there already" in again.stderr, again.stderr)
    recorded.ask("snapshot", "-o", now, "-f")
    check_controllers(recorded)
    recorded.ask("pause")
    checks.that(recorded.status()["state"] == "paused", "pause")
    recorded.ask("pause")
    recorded.ask("resume")
    checks.that(recorded.status()["state"] == "recording", "resume")
    if os.geteuid() == 0:
        other = recorded.ctl("pause", prefix=NOBODY)
        checks.that(other.returncode == 1 and "of this user" in other.stderr, other.stderr)
        checks.that(recorded.status()["state"] == "recording", "another user paused it")
    for words, text in ((["pausee"], "did you mean 'pause'"), (["mark"], "needs a TEXT"),
                        (["pause", "x"], "takes nothing"), (["stop", "-o", "x"], "for snapshot")):
        refused = recorded.ctl(*words)
        checks.that(refused.returncode == 2 and text in refused.stderr, refused.stderr)
    unknown = recorded.ctl("status", of="nothing.mst")
    checks.that(unknown.returncode == 1 and "no recording of this user" in unknown.stderr,
                unknown.stderr)
    database = recorded.end()
    checks.that(database.ask("SELECT thread_id FROM mark WHERE name = 'outside mark'") == [(None,)],
                "the mark")
    check_snapshot(now, database)
    left = [name for name in os.listdir(folder) if name.endswith(".partial")]
    checks.that(not left, f"left behind: {left}")
    ended = recorded.ctl("status")
    checks.that(ended.returncode == 1, "a recording that has ended answers")


def check_reset(folder):
    """Another window begins where the one before ends: nothing is missing, nothing is withheld."""
    recorded = Recorded(folder, ENDLESS, name="reset.mst")
    for number in (2, 3):
        n = int(recorded.status()["events"])
        wait_until(lambda: int(recorded.status()["events"]) > n + 1000, "events")
        checks.that(recorded.ask("reset") == f"window {number}\n", "reset names the window")
    n = int(recorded.status()["events"])
    wait_until(lambda: int(recorded.status()["events"]) > n + 1000, "events")
    recorded.ask("pause")
    refused = recorded.ctl("reset")
    checks.that(refused.returncode == 1 and "paused" in refused.stderr, f"reset: {refused}")
    database = recorded.end()
    found = windows(database)
    checks.that([row[3] for row in found] == ["start", "ctl reset", "ctl reset"] and
                found[0][2] == found[1][1] and found[1][2] == found[2][1], f"windows {found}")
    sizes = births(events(database, 0, found[-1][2]))
    checks.that(sizes == [FIRST + i % SPAN for i in range(len(sizes))], "blocks are missing")
    checks.that(not database.losses(), f"losses {database.losses()}")
    for number, start_ns, end_ns, _, n_live in found:
        part = events(database, start_ns, end_ns)
        checks.that(len(part) > 500 and (number == 1 or 49 <= n_live - found[0][4] <= 60),
                    f"window {number}: {len(part)} events, {n_live} live at its begin")
    off = database.ask("SELECT start_ns, end_ns FROM withheld WHERE start_ns < ?", found[-1][2])
    checks.that(not off, f"withheld {off}")


def check_controllers(recorded):
    """Several at once: each is obeyed, and each snapshot has a name of its own. What others have
    put there, while a snapshot is written or before, is left alone."""
    taken = [recorded.trace.replace(".mst", end) for end in ("-2.mst.partial", "-4.mst")]
    for path in taken:
        with open(path, "w", encoding="ascii") as file:
            file.write("not ours")
    asked = [subprocess.Popen([MEMSIGHT, "ctl", recorded.trace, word], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for word in
             ["pause", "resume", "status", "snapshot"] * 3]
    said = [one.communicate() for one in asked]
    checks.that([one.returncode for one in asked] == [0] * len(asked),
                f"several controllers at once: {said}")
    paths = sorted(out.strip() for out, _ in said[3::4])
    checks.that(paths == [recorded.trace.replace(".mst", f"-{n}.mst") for n in (3, 5, 6)],
                f"snapshots {paths}")
    for path in taken:
        with open(path, encoding="ascii") as file:
            checks.that(file.read() == "not ours", f"{path} was written to")
    busy = recorded.ctl("snapshot", "-f", "-o", taken[0].replace(".partial", ""))
    checks.that(busy.returncode == 1 and ".partial is there already" in busy.stderr, busy.stderr)
    os.unlink(taken[0])


def check_snapshot(path, database):
    """A snapshot is a whole trace, and the first part of the recording that went on."""
    snapshot = analysed(path)
    checks.that(snapshot.one("SELECT ended_cleanly FROM run") == 1, "the snapshot is not whole")
    checks.that(not snapshot.losses(), f"losses {snapshot.losses()}")
    part = events(snapshot)
    checks.that(len(part) > 500 and part == events(database)[:len(part)],
                f"the snapshot's {len(part)} events are not the first ones of the recording")
    checks.that("live when the snapshot was taken" in whole.run([MEMSIGHT, "report", path]),
                "the report does not say that it is a snapshot")


def check_killed(folder):
    """What a recorder that is killed in a window leaves has that window."""
    recorded = Recorded(folder, ENDLESS, "--windows", "50ms", name="killed.mst")
    pid = recorded.program()
    wait_until(lambda: recorded.status()["window"] == "1", "the window")
    n = int(recorded.status()["trace bytes"])
    wait_until(lambda: int(recorded.status()["trace bytes"]) > n, "segments of it")
    recorded.process.kill()
    recorded.process.wait()
    os.kill(pid, signal.SIGKILL)  # it has our pipes
    recorded.process.communicate()
    found = windows(analysed(recorded.trace + ".partial"))
    checks.that(len(found) == 1 and found[0][2] > found[0][1], f"windows {found}")


def check_series(folder):
    """Modes of a series have windows, starts and triggers as record has them."""
    config = os.path.join(folder, "series.ini")
    out = os.path.join(folder, "series")
    modes = {"cut": "windows = 10ms:20ms", "after": "start-after = mark:middle",
             "fired": "trigger = live>100k"}
    text = "".join(f"[mode {name}]\nsource = none\n{line}\n" for name, line in modes.items())
    with open(config, "w", encoding="ascii") as file:
        file.write(f"[series]\noutput = {out}\n[workload v]\ncommand = {VICTIM} 1 6000 30\n"
                   + text)
    whole.run([MEMSIGHT, "run", "-q", config])
    database = whole.Database(os.path.join(out, "memsight.db"))
    found = dict(database.ask("SELECT r.mode, w.cause FROM window w JOIN run r ON r.id = w.run_id"
                              " WHERE w.number = 1"))
    checks.that(found == {"cut": "10ms:20ms", "after": "after middle"}, f"windows {found}")
    checks.that(os.path.exists(os.path.join(out, "v.fired.1", "trace-1.mst")), "no snapshot")
    with open(config, "a", encoding="ascii") as file:
        file.write("[mode bad]\nwindows = 1s:2s,2s:1s\n")
    refused = subprocess.run([MEMSIGHT, "run", "--check", config], text=True,
                             stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    checks.that(refused.returncode != 0 and "overlap" in refused.stderr, f"{refused}")


def check_triggers(folder):
    """Each condition fires once in its cool-down; the command runs when the snapshot is there."""
    said = os.path.join(folder, "said")
    command = f'echo "$MEMSIGHT_TRIGGER $MEMSIGHT_TRACE $MEMSIGHT_SNAPSHOT $MEMSIGHT_PID" >>{said}'
    recorded = Recorded(folder, ENDLESS, "--trigger", "live>100k", "--trigger", "rss>1k",
                        "--trigger", "live>1G", "--on-trigger", "snapshot", "--on-trigger",
                        command, "--cooldown", "1h", name="fired.mst")
    pid = recorded.program()

    def lines():
        with open(said, encoding="ascii") as file:
            return sorted(file.read().splitlines())

    wait_until(lambda: os.path.exists(said) and len(lines()) == 2, "two commands")
    snapshots = sorted(line.split()[2] for line in lines())
    checks.that([line.split()[0] for line in lines()] == ["live>100k", "rss>1k"] and
                snapshots == [recorded.trace.replace(".mst", f"-{n}.mst") for n in (1, 2)] and
                all(line.split()[1::2] == [recorded.trace, str(pid)] for line in lines()),
                f"commands said {lines()}")
    database = recorded.end()
    marks = [row[0] for row in database.ask("SELECT name FROM mark ORDER BY name")]
    checks.that(marks == ["trigger live>100k", "trigger rss>1k"], f"marks {marks}")
    snapshot = analysed([line.split()[2] for line in lines() if line.startswith("live")][0])
    checks.that(snapshot.one("SELECT ended_cleanly FROM run") == 1 and len(events(snapshot)) > 0,
                "the snapshot of a trigger is not whole")


def check_end_triggers(folder):
    """A program that crashes, and one that does not: its command finds the trace there."""
    said = os.path.join(folder, "end")
    options = ["record", "-q", "-f", "-s", "none", "-o", os.path.join(folder, "end.mst"),
               "--trigger", "crash", "--on-trigger", "snapshot", "--on-trigger",
               f'sleep 0.1; test -f "$MEMSIGHT_TRACE" && echo $MEMSIGHT_SNAPSHOT >>{said}']
    whole.Outcome([MEMSIGHT, *options, "--", "/bin/true"])
    checks.that(not os.path.exists(said), "crash fired at the end of true")
    done = whole.Outcome([MEMSIGHT, *options, "--", "/bin/sh", "-c", "kill -SEGV $$"])
    checks.that("trigger crash: signal 11" in done.messages, f"crash: {done.messages}")
    with open(said, encoding="ascii") as file:
        snapshot = file.read().split()
    checks.that(snapshot == [os.path.join(folder, "end-1.mst")], f"said at the end: {snapshot}")
    checks.that(analysed(snapshot[0]).one("SELECT count(*) FROM mark") == 1, "mark of a crash")
    done = whole.Outcome([MEMSIGHT, "record", "--trigger", "exit", "--on-trigger", "window:1s",
                          "--", "/bin/true"])
    checks.that(done.status == 2 and "has ended" in done.messages, f"exit: {done.messages}")


def check_trigger_window(folder):
    """Recording is off until the condition holds, and on for as long as it says."""
    recorded = Recorded(folder, ENDLESS, "--trigger", "rss>1k", "--on-trigger", "window:150ms",
                        "--cooldown", "1s", name="fired-window.mst")
    wait_until(lambda: int(recorded.status()["window"].replace("-", "0")) >= 2, "two windows")
    wait_until(lambda: recorded.status()["state"] == "paused", "the end of the window")
    recorded.ask("resume")
    checks.that(recorded.status()["state"] == "recording", "resume")
    database = recorded.end()
    found = windows(database)
    # The next one may have begun just before it was asked for: then it goes on.
    checks.that(len(found) >= 3 and {row[3] for row in found[:2]} == {"trigger rss>1k"} and
                found[-1][3] in ("ctl resume", "trigger rss>1k"), f"windows {found}")
    for number, start_ns, end_ns in (row[:3] for row in found[:2]):
        checks.that(end_ns - start_ns >= 149e6, f"window {number} is too short: {found}")
    # A machine that is busy may leave the program without a processor in one of them.
    checks.that(any(events(database, row[1], row[2]) for row in found), "nothing in any window")
    before = births(events(database, 0, found[0][1]))
    checks.that(not before, f"{len(before)} blocks before the first window")


def check_bad_triggers():
    for options, text in (
            (["--trigger", "live<2G"], "is not a condition such as live>2G"),
            (["--trigger", "faults>2"], "cannot be measured: live, rss"),
            (["--trigger", "rss>180%"], "such as rss>80%"),
            (["--trigger", "live>1G", "--no-alloc"], "which --no-alloc leaves out"),
            (["--trigger", "live>1G", "--events", "mmap"], "`heap' among --events"),
            (["--trigger", "rate>1/s", "--on-trigger", "window:5s"], "cannot begin a window"),
            (["--trigger", "rss>1G", "--on-trigger", "window:x"], "window:TIME"),
            (["--trigger", "rss>1G", "--on-trigger", ""], "is empty"),
            (["--trigger", "rss>1G", "--on-trigger", "a", "--on-trigger", "b"], "one command"),
            (["--trigger", "rss>1G", "--on-trigger", "window:1s", "--start-after", "x"],
             "cannot be had together"),
            (["--on-trigger", "snapshot"], "needs a --trigger"),
            (["--trigger", "rss>1G", "--cooldown", "5"], "--cooldown: '5' is not a time"),
            (["--trigger", "live>1G", "--old-after", "0"], "--old-after: '0' is not a time"),
            (["--trigger", "rss>1G"] * 17, "at most 16")):
        done = subprocess.run([MEMSIGHT, "record", *options, "true"], text=True,
                              stderr=subprocess.PIPE, check=False, env=whole.environment())
        checks.that(done.returncode == 2 and text in done.stderr and
                    len(done.stderr.splitlines()) == 1, f"{options}: {done.stderr}")


def check_bad_input():
    for option, text in (("-1s:1s", "is not"), ("1s:0", "no time"), ("1s:1s:1:1", "is not"),
                         ("gpu:1s:1s", "process (the program itself)"),
                         ("1s:1s:1:realtime", "stands first"), ("1s:2s,2s:1s", "overlap"),
                         ("0:1s:5", "one window"), ("", "is empty")):
        done = subprocess.run([MEMSIGHT, "record", "--windows=" + option, "true"], text=True,
                              stderr=subprocess.PIPE, check=False, env=whole.environment())
        checks.that(done.returncode == 2 and text in done.stderr and
                    len(done.stderr.splitlines()) == 1, f"--windows={option}: {done.stderr}")
    for options in (["--no-alloc"], ["--events", "heap"]):
        done = subprocess.run([MEMSIGHT, "record", "--start-after", "x", *options, "true"],
                              text=True, stderr=subprocess.PIPE, check=False,
                              env=whole.environment())
        checks.that(done.returncode == 2 and "--start-after needs" in done.stderr, done.stderr)


def check_cpu_clock(folder):
    """A window of CPU time begins when the program has used so much, not before."""
    trace = os.path.join(folder, "cpu.mst")
    whole.run([MEMSIGHT, "record", "-q", "-s", "none", "-o", trace, "--windows", "cpu:30ms:10ms",
               "--", VICTIM, "1", "1500000"])
    database = analysed(trace)
    found = windows(database)
    checks.that(len(found) == 1, f"windows {found}")
    n_before = database.one("SELECT value FROM total WHERE name = 'unrecorded_frees'")
    inside = events(database, *found[0][1:3]) if found else []
    checks.that(inside and births(inside)[0] > FIRST + 1 and n_before is not None,
                f"{len(inside)} events in the window of CPU time")


with tempfile.TemporaryDirectory(prefix="memsight-test-") as place:
    check_bad_input()
    check_windows(place)
    check_start_after(place)
    check_threads(place)
    check_snapshots_are_whole(place)
    check_control(place)
    check_reset(place)
    check_killed(place)
    check_cpu_clock(place)
    check_series(place)
    check_bad_triggers()
    check_triggers(place)
    check_end_triggers(place)
    check_trigger_window(place)
checks.end()
