#!/usr/bin/env python3
"""memsight top: tables, and the screen in a terminal of our own. Arguments: memsight, the victim of
live.py."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()
ENDLESS = (VICTIM, "1", "0", "20")
LINES, COLUMNS = 30, 120


def top(*words, **more):
    return subprocess.run([MEMSIGHT, "top", *words], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, env=whole.environment(), **more)


def top_until(holds, *words, **more):
    """Tables, until they hold: on a busy machine the first ones may have nothing yet."""
    with subprocess.Popen([MEMSIGHT, "top", "--interval", "200ms", *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=whole.environment(),
                          **more) as process:
        text, n_tables = "", 0
        while n_tables < 300 and not holds(text):
            line = process.stdout.readline()
            if not line:
                break
            text += line
            n_tables += line == "\n"
        process.terminate()
        said = process.communicate()[1]
    return subprocess.CompletedProcess(words, process.returncode, text, said)


def rows(text):
    """The rows of all tables: (live, growth, allocations a second, leaked, blocks, age, site)."""
    found = [re.split(r"  +", line.strip(), maxsplit=6) for line in text.splitlines()]
    return [row for row in found if len(row) == 7 and row[0] != "live"]


def churns(text):
    return [row for row in rows(text) if row[6].startswith("churn")]


def wait_until(what, text):
    for _ in range(1200):
        if what():
            return
        time.sleep(0.05)
    checks.that(False, "waited in vain: " + text)


def check_tables(folder):
    """A program that top starts: the victim keeps 50 blocks, of one place, at any time."""
    def have_rates(text):
        return sum(row[2] != "0" for row in churns(text)) >= 3

    done = top_until(have_rates, "--", *ENDLESS, cwd=folder)
    found = churns(done.stdout)
    checks.that(done.returncode == 0 and len(found) >= 3 and
                all(49 <= int(row[4]) <= 51 for row in found[1:]), f"tables {done}")
    checks.that("begun" in done.stderr, "the program's output is on standard error")
    checks.that(not [name for name in os.listdir(folder) if "top" in name], "files are left")


def ends_with_3(folder):
    """A program that ends when it is let, so that it can be looked at on any machine."""
    return ("sh", "-c", f"echo last word >&2; until [ -e {folder}/end ]; do sleep 0.1; done; "
            "exit 3")


def let_end(folder):
    with open(os.path.join(folder, "end"), "w", encoding="ascii"):
        pass


def check_status(folder):
    """What the program ends with is what top ends with, and -o keeps the trace."""
    trace = os.path.join(folder, "kept.mst")
    with subprocess.Popen([MEMSIGHT, "top", "--interval", "100ms", "-o", trace, "--",
                           *ends_with_3(folder)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL,
                          env=whole.environment()) as done:
        checks.that("live" in done.stdout.readline(), "no table")
        let_end(folder)
        done.stdout.read()
    checks.that(done.returncode == 3, f"status {done.returncode}")
    checks.that(os.path.exists(trace), "the trace is not kept")
    again = top("-o", trace, "--", "true")
    checks.that(again.returncode == 1 and "--force" in again.stderr, f"overwrites: {again}")
    missing = top("--", "/nothing/here")
    checks.that(missing.returncode == 127 and "nothing/here" in missing.stderr, f"{missing}")


def check_recordings(folder):
    """Recordings of others: by the trace, by a process; without totals they are refused."""
    for options in (["--live-totals"], []):
        trace = os.path.join(folder, f"run{len(options)}.mst")
        with subprocess.Popen([MEMSIGHT, "record", "-q", "-s", "none", "-o", trace, *options, "--",
                               *ENDLESS], stdout=subprocess.PIPE, text=True,
                              env=whole.environment()) as recorder:
            recorder.stdout.readline()
            pid = re.search(r"program +(\d+)", whole.run([MEMSIGHT, "ctl", trace])).group(1)
            for what in (trace, pid):
                done = top_until(churns, what, "--filter", "CHURN")
                if options:
                    checks.that(done.returncode == 0 and len(churns(done.stdout)) == 1 and
                                len(rows(done.stdout)) == 1, f"top {what}: {done}")
                else:
                    checks.that(done.returncode == 1 and "keeps no live totals" in done.stderr,
                                f"top {what}: {done}")
            os.kill(int(pid), signal.SIGTERM)


def check_attach(folder):
    """A process that nobody records is attached to, and goes on."""
    with subprocess.Popen(ENDLESS, stdout=subprocess.PIPE, text=True, cwd=folder) as program:
        program.stdout.readline()
        done = top_until(lambda text: churns(text) and "(before the attach)" in text,
                         str(program.pid))
        goes_on = program.poll() is None
        program.kill()
    checks.that(done.returncode == 0 and churns(done.stdout) and
                any(row[6] == "(before the attach)" for row in rows(done.stdout)),
                f"attached: {done}")
    checks.that(goes_on, "the program has ended")


class Terminal:
    """A vt100 that memsight top has for its screen."""

    def __init__(self, *words, folder):
        self.cells = [[" "] * COLUMNS for _ in range(LINES)]
        self.at = [0, 0]
        self.rest = ""
        self.process, self.fd = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            environment = dict(whole.environment(), TERM="vt100", LC_ALL="C", LINES=str(LINES),
                               COLUMNS=str(COLUMNS), TMPDIR=folder)
            os.execve(MEMSIGHT, [MEMSIGHT, "top", *words], environment)

    def erase(self, line, begin, end):
        self.cells[line][begin:end] = [" "] * (min(end, COLUMNS) - begin)

    def control(self, numbers, letter):
        first = int(numbers.split(";")[0] or 0) if numbers[:1] != "?" else 0
        line, column = self.at
        if letter == "H":
            places = [int(n or 1) for n in (numbers or "1;1").split(";")]
            self.at = [places[0] - 1, places[-1] - 1]
        elif letter == "J":
            for other in range(line if first == 0 else 0, LINES):
                self.erase(other, column if other == line and first == 0 else 0, COLUMNS)
        elif letter == "K":
            self.erase(line, 0 if first == 1 else column, column + 1 if first == 1 else COLUMNS)
        elif letter in "ABCD":
            by = max(first, 1) * (-1 if letter in "AD" else 1)
            self.at[letter in "CD"] += by

    def show(self, text):
        text = self.rest + text
        self.rest = ""
        pattern = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[()].|\x1b[=>78MDE]|[\x00-\x1f]|.",
                             re.DOTALL)
        if "\x1b" in text[-12:] and not re.search(r"\x1b\[[?\d;]*[A-Za-z]$", text):
            cut = text.rindex("\x1b")
            text, self.rest = text[:cut], text[cut:]
        for match in pattern.finditer(text):
            letter = match.group(0)
            if match.group(2):
                self.control(match.group(1), match.group(2))
            elif letter == "\r":
                self.at[1] = 0
            elif letter == "\n":
                self.at[0] = min(self.at[0] + 1, LINES - 1)
            elif letter == "\b":
                self.at[1] -= 1
            elif letter == "\x1bM":
                self.at[0] -= 1
            elif letter >= " " and self.at[1] < COLUMNS:
                self.cells[self.at[0]][self.at[1]] = letter
                self.at[1] += 1

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def wait(self, pattern):
        """Until the screen has it."""
        end = time.monotonic() + 60
        while not re.search(pattern, self.text()):
            ready = select.select([self.fd], [], [], 0.2)[0]
            if time.monotonic() > end:
                checks.that(False, f"no {pattern!r} on the screen:\n{self.text()}")
                return
            try:
                self.show(os.read(self.fd, 65536).decode() if ready else "")
            except OSError:
                checks.that(False, f"it ended without {pattern!r} on the screen:\n{self.text()}")
                return

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def end(self, keys="q"):
        """Quit; the exit status."""
        self.press(keys)
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def check_screen(folder):
    terminal = Terminal("--interval", "200ms", "--", *ENDLESS, folder=folder)
    terminal.wait(r"memsight top +process \d+ +1 process, 1 thread +recording")
    terminal.wait(r"live +growth/s +allocs/s +leaked +blocks +mean age +site")
    terminal.wait(r"\b(49|50|51) +\S+ \S+ +churn")
    terminal.wait(r"RSS +up to [\d.]+ MiB +[.:=+*#@-]+")
    terminal.wait(r"q quit")
    terminal.press("\n")
    terminal.wait(r"Call stack, process \d+")
    terminal.wait(r"churn[^\n]*\n[^\n]*main")
    terminal.press("t")
    terminal.wait(r"allocated +allocations +frees +thread")
    terminal.wait(r"\d+ +victim-live")
    terminal.press("/nothing has this\n")
    terminal.wait(r"filter: nothing has this +\(escape: all\)")
    terminal.wait(r"site\n\n")
    terminal.press("\x1b")
    terminal.wait(r"\b(49|50|51) +\S+ \S+ +churn")
    terminal.press(" ")
    terminal.wait(r"stands still")
    terminal.press("s")
    terminal.wait(r"saved \S+memsight-top\.\d+-1\.mst")
    terminal.press(" >>")
    terminal.wait(r"recording$|recording\n")
    checks.that(terminal.end() == 0, "quitting is a failure")
    saved = [name for name in os.listdir(folder) if name.startswith("memsight-top.")]
    checks.that(len(saved) == 1 and "allocations" in whole.run(
        [MEMSIGHT, "report", os.path.join(folder, saved[0])]), f"saved {saved}")


def is_running(pid):
    try:  # who reaps it may take a moment
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def check_quitting(folder):
    """The interrupt key quits as q does; a program that does not end on request is killed. Neither
    leaves a trace that nobody asked for."""
    stubborn = ["sh", "-c", "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done"]
    for keys, command in (("\x03", ENDLESS), ("q", stubborn)):
        terminal = Terminal("--interval", "200ms", "--", *command, folder=folder)
        terminal.wait(r"process \d+ .* recording")
        while command == stubborn and not os.path.exists(os.path.join(folder, "pid")):
            time.sleep(0.02)  # until it has set its trap
        status = terminal.end(keys)
        checks.that(status in (0, 130), f"{keys!r}: status {status}")
        left = [name for name in os.listdir(folder) if name.startswith("memsight-top-")]
        checks.that(not left, f"{keys!r} leaves {left}")
    with open(os.path.join(folder, "pid"), encoding="utf-8") as file:
        pid = file.read().strip()
    wait_until(lambda: not is_running(pid), "for the end of the stubborn program")


def check_killed(folder):
    """SIGKILL ends what top has begun as q does: its own program, and the recording of another."""
    environment = dict(whole.environment(), TMPDIR=folder)
    for is_attached in (False, True):
        with subprocess.Popen(ENDLESS, stdout=subprocess.PIPE, text=True) as program:
            program.stdout.readline()
            words = [str(program.pid)] if is_attached else ["--", *ENDLESS]
            with subprocess.Popen([MEMSIGHT, "top", "--interval", "100ms", *words], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  env=environment) as process:
                process.stdout.readline()
                left, = [name for name in os.listdir(folder) if name.startswith("memsight-top-")]
                status = whole.run([MEMSIGHT, "ctl", os.path.join(folder, left, "top.mst")])
                begun = [re.search(rf"{what} +(\d+)", status).group(1)
                         for what in ("recorder", "program")[:2 - is_attached]]
                process.kill()
            wait_until(lambda begun=begun: not any(map(is_running, begun)),
                       f"for the end of {begun}")
            wait_until(lambda left=left: left not in os.listdir(folder), f"for {left} to go")
            checks.that(is_running(program.pid), "the program that was attached to has ended")
            program.kill()


def check_end_on_screen(folder):
    """A program that ends stays on the screen, until somebody quits with its exit status."""
    os.unlink(os.path.join(folder, "end"))
    terminal = Terminal("--interval", "200ms", "--", *ends_with_3(folder), folder=folder)
    terminal.wait(r"process \d+ .* recording")
    let_end(folder)
    terminal.wait(r"process \d+ .* ended")
    checks.that(terminal.end() == 3, "the exit status of the program")


def check_bad_input():
    for words, status, text in (
            (["--interval", "10ms", "--", "true"], 2, "not a time of 100ms or more"),
            (["--sort", "size", "--", "true"], 2, "--sort"), ([], 2, "missing"),
            (["nothing.mst"], 1, "no recording of this user writes this trace"),
            (["999999999"], 1, "999999999")):
        done = top(*words)
        checks.that(done.returncode == status and text in done.stderr and not done.stdout,
                    f"top {words}: {done}")


with tempfile.TemporaryDirectory(prefix="memsight-test-") as place:
    check_bad_input()
    check_tables(place)
    check_status(place)
    check_recordings(place)
    check_attach(place)
    check_killed(place)
    if b"ncursesw" in subprocess.run(["ldd", MEMSIGHT], stdout=subprocess.PIPE, check=False).stdout:
        check_screen(place)
        check_quitting(place)
        check_end_on_screen(place)
checks.end()
