#!/usr/bin/env python3
"""Functions of programs that run already: exact counts, and nothing is left when they are left.
Arguments: memsight, how many times real programs are entered and left, a victim that throws, a
plug-in, victims."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
CYCLES = int(sys.argv[2])
THROWN = os.path.abspath(sys.argv[3])
STEPS = os.path.abspath(sys.argv[4])
VICTIMS = [os.path.abspath(path) for path in sys.argv[5:]]
checks = whole.Checks()

# What the word `work` does, a thousand times.
WORK = {"f_deep": 5000, "f_leaf": 4000, "f_one": 1000, "f_take": 1000, "f_give": 1000}
WORK_ANSWER = "15000"
BEFORE = ["--function-include", "^f_"]


class Victim:
    def __init__(self, path, **more):
        self.path = path
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL,
                                        env={**whole.environment(), **more}, text=True)
        self.pid = int(self.answer())

    def answer(self):
        return self.process.stdout.readline().strip()

    def ask(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.answer()

    def work(self):
        answer = self.ask("work")
        checks.that(answer == WORK_ANSWER, f"work comes to {answer!r}")

    def end(self, what):
        self.process.stdin.close()
        rest = self.process.stdout.read().strip()
        status = self.process.wait(timeout=60)
        checks.that(status == 0 and rest == "0", f"{what}: status {status}, {rest!r}")


def changed_code(pid):
    """Ranges of code of files that is not as in the file."""
    changed = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, \
            open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            words = line.split()
            if "x" not in words[1] or len(words) < 6 or not words[5].startswith("/"):
                continue
            start, end = (int(number, 16) for number in words[0].split("-"))
            memory.seek(start)
            now = memory.read(end - start)
            with open(words[5], "rb") as file:
                file.seek(int(words[2], 16))
                if file.read(end - start) != now[:os.fstat(file.fileno()).st_size]:
                    changed.append(words[5])
    return changed


class Attached:
    def __init__(self, pid, folder, *options):
        self.path = os.path.join(folder, "a.mst")
        self.process = subprocess.Popen([MEMSIGHT, "attach", str(pid), "-f", "-o", self.path,
                                         *options], stderr=subprocess.PIPE,
                                        env=whole.environment(), text=True)
        self.first = ""
        while "memsight: recording" not in self.first: # remarks come before it
            line = self.process.stderr.readline()
            self.first += line
            if not line:
                break
        checks.that("memsight: recording" in self.first, self.first)

    def leave(self):
        self.process.send_signal(signal.SIGINT)
        _, rest = self.process.communicate(timeout=60)
        checks.that(self.process.returncode == 0, f"attach: {self.first} {rest}")

    def kill(self):
        """The one that would leave the process, too."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                  encoding="ascii") as children:
            others = [int(pid) for pid in children.read().split()]
        for pid in [*others, self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def database(self):
        whole.run([MEMSIGHT, "analyze", "-f", self.path])
        return whole.Database(self.path + ".db")


def losses_of(database):
    """But for samples of the moment in which code was changed: they say that they are not known."""
    return [loss for loss in database.losses()
            if loss != ("clock", "code that changed around them: not attributed")]


def trips(database):
    return dict(database.ask("SELECT name, sum(n_trips) FROM region_total GROUP BY name"))


def check_counts(folder, path):
    """What is called while it is recorded is counted, and what has begun before is not."""
    victim = Victim(path)
    victim.work()
    victim.ask("hold")
    attached = Attached(victim.pid, folder, *BEFORE)
    victim.work()
    checks.that(victim.ask("return") == "0", "nothing is wrong")
    victim.work()
    attached.leave()
    victim.work()
    checks.that(not changed_code(victim.pid), f"changed: {changed_code(victim.pid)}")
    database = attached.database()
    expected = {name: 2 * n for name, n in WORK.items()}
    # The four calls of f_hold were there before; each of them has called f_leaf since.
    expected["f_leaf"] += 4
    checks.that(trips(database) == expected, f"{path}: {trips(database)}")
    blocks = database.one("SELECT sum(own_blocks) FROM region_total WHERE name = 'f_take'")
    checks.that(blocks == 2000, f"{blocks} blocks of f_take")
    checks.that(not losses_of(database), f"{path}: {database.losses()}")
    victim.end("counts")


def check_inside(folder, path):
    """Calls that go on when it is left return to where they came from; so do coroutines."""
    victim = Victim(path)
    for word in ("hold", "coroutine"):
        attached = Attached(victim.pid, folder, *BEFORE)
        victim.ask(word)
        attached.leave()
        checks.that(not changed_code(victim.pid), f"{word}: {changed_code(victim.pid)}")
        database = attached.database()
        left = database.one("SELECT sum(n_left_open) FROM region_total")
        checks.that(left == (4 if word == "hold" else 2), f"{word}: {left} are left open")
    # Entered again, where the coroutine waits in a function of the recording before.
    attached = Attached(victim.pid, folder, *BEFORE)
    victim.work()
    checks.that(victim.ask("return") == "0" and victim.ask("return") == "0", "they return")
    victim.work()
    attached.leave()
    expected = {name: 2 * n for name, n in WORK.items()}
    expected["f_leaf"] += 5
    found = trips(attached.database())
    checks.that(found == expected, f"{path}: behind a recording: {found}")
    victim.end("inside")


def check_other_ways(folder, path):
    """Counted only; blocks of an allocator by its functions; forked children; several times."""
    victim = Victim(path)
    attached = Attached(victim.pid, folder, *BEFORE, "--trips-only")
    victim.work()
    checks.that(victim.ask("fork") == "0", "the child works")
    attached.leave()
    found = dict(attached.database().ask("SELECT name, n_trips FROM function_trips"))
    checks.that(found == {name: 2 * n for name, n in WORK.items()}, f"--trips-only: {found}")
    checks.that(not changed_code(victim.pid), "--trips-only: code is changed")
    attached = Attached(victim.pid, folder, "--alloc-function",
                        "f_take:size=arg1,name=own", "--alloc-function",
                        "f_give:free=arg1,name=own")
    victim.work()
    attached.leave()
    database = attached.database()
    blocks = database.ask("SELECT count(*), sum(size), count(freed_ns) FROM allocation"
                          " WHERE size = 100")
    checks.that(blocks[0][0] >= 1000 and blocks[0][0] == blocks[0][2], f"blocks: {blocks}")
    attached = Attached(victim.pid, folder, *BEFORE)
    checks.that(victim.ask("fork") == "0", "the child works")
    attached.leave()
    found = trips(attached.database())
    checks.that(found == WORK, f"fork: {found}")
    victim.end("other ways")


def check_killed(folder, path):
    """`memsight detach` behind a killed recorder, in the midst of calls; all threads go on."""
    victim = Victim(path)
    victim.ask("churn")
    for _ in range(2):
        attached = Attached(victim.pid, folder, *BEFORE)
        checks.that(bool(changed_code(victim.pid)), "code is changed")
        attached.kill()
        whole.run([MEMSIGHT, "detach", str(victim.pid)])
        checks.that(not changed_code(victim.pid), f"detach: {changed_code(victim.pid)}")
    for _ in range(2):
        attached = Attached(victim.pid, folder, *BEFORE)
        attached.leave()
        checks.that(not changed_code(victim.pid), f"leave: {changed_code(victim.pid)}")
    checks.that(victim.ask("rest") == "0", "threads that call all the time")
    victim.end("killed")


def check_plugins(folder, path):
    """They are loaded into it and asked, ended when it is left, and may come again."""
    victim = Victim(path)
    load = ["--load", STEPS, "--components", "steps,level"]
    for _ in range(2):
        attached = Attached(victim.pid, folder, *BEFORE, *load)
        victim.work()
        attached.leave()
        victim.work()
        database = attached.database()
        found = {row[:2]: row[2:] for row in database.ask(
            "SELECT component.name, coalesce(region_total.name, ''), sum(n), sum(own)"
            " FROM component_value JOIN component ON component.id = component_id"
            " LEFT JOIN region_total ON region_total.id = path_id GROUP BY 1, 2")}
        # Each begin and end is a step of the thread; one call inside has an end between.
        for name, own in ("f_leaf", 4000), ("f_one", 1000), ("f_take", 1000), ("f_deep", 14000):
            checks.that(found[("steps", name)] == (WORK[name], own),
                        f"{name}: {found[('steps', name)]}")
        checks.that(found[("level", "f_one")][0] == 2000, f"level: {found}")
        losses = losses_of(database)
        checks.that(found[("steps", "")][0] == 1 and not losses,
                    f"the process: {found} {losses}")
    victim.ask("churn")
    for _ in range(2):
        Attached(victim.pid, folder, *BEFORE, *load).leave()
    attached = Attached(victim.pid, folder, *BEFORE, *load)
    attached.kill()
    whole.run([MEMSIGHT, "detach", str(victim.pid)])
    checks.that(victim.ask("rest") == "0", "threads that ask all the time")
    victim.end("plug-ins")
    # What is tried before does not crash; in the program it does.
    victim = Victim(path, PLUGIN_DOES="register-crash")
    outcome = whole.Outcome([MEMSIGHT, "attach", str(victim.pid), "-f", "-o",
                             os.path.join(folder, "a.mst"), *BEFORE, *load])
    checks.that(outcome.status == 1 and "a plug-in of --load crashes in it" in outcome.messages,
                f"a crash: {outcome.status} {outcome.messages}")
    checks.that(not changed_code(victim.pid), "it is as it was")
    victim.work()
    victim.end("a plug-in that crashes")


def check_thrown(folder):
    """Exceptions that are on their way when the program is entered, and when it is left."""
    victim = Victim(THROWN)
    for _ in range(3 * CYCLES):
        attached = Attached(victim.pid, folder, *BEFORE, "--no-guess", "--source", "none")
        attached.leave()
    victim.end("exceptions")


def check_denied(folder, path):
    """A program that lets nobody make code is recorded without its functions, and that is said."""
    victim = Victim(path)
    if victim.ask("deny") != "0":
        print("not measured: this kernel has no PR_SET_MDWE")
        return victim.end("denied")
    attached = Attached(victim.pid, folder, *BEFORE)
    victim.work()
    attached.leave()
    database = attached.database()
    checks.that(not trips(database) and not changed_code(victim.pid), "nothing was changed")
    checks.that(any("left as they were" in reason for _, reason in database.losses()),
                f"losses: {database.losses()}")
    return victim.end("denied")


def check_usage():
    """Nothing is done to the process where nothing is chosen."""
    victim = Victim(VICTIMS[0])
    for options, words in ((["--function-include", "^g_nothing"], "no function"),
                           (["--function-include", "f_("], "f_("),
                           (["--trips-only"], "--trips-only counts")):
        outcome = whole.Outcome([MEMSIGHT, "attach", str(victim.pid), "-o", "/dev/null/none",
                                 *options])
        checks.that(outcome.status != 0 and words in outcome.messages,
                    f"{options}: {outcome.status} {outcome.messages}")
    victim.end("usage")


PYTHON = """
import re, json, sys
for line in sys.stdin:
    total = 0
    for i in range(1000):
        text = json.dumps({str(n): [n, str(n)] for n in range(i % 40)})
        total += len(re.sub("[0-3]", "x", text)) + sum(len(key) for key in json.loads(text))
        try:
            int(text)
        except ValueError:
            total += 1
    print(total)
"""
SQL = """with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
select count(*), sum(length(hex(i * 7))), max(i % 1013) from n;
"""


def check_real(folder, command, task):
    """A real program that works all the time is entered and left, all its functions with it."""
    program = shutil.which(command[0])
    if not program:
        print("not measured: no", command[0])
        return
    expected = subprocess.run(command, input=task, stdout=subprocess.PIPE, check=True, text=True,
                              env=whole.environment()).stdout
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=whole.environment())
    for i in range(CYCLES):
        process.stdin.write(3 * task)
        process.stdin.flush()
        attached = Attached(process.pid, folder, "--no-guess", "--module-include",
                            os.path.basename(os.path.realpath(program)),
                            *(["--trips-only"] if i % 3 == 2 else []))
        process.stdin.write(3 * task)
        process.stdin.flush()
        time.sleep(0.02)
        attached.leave()
    output = process.communicate()[0]
    checks.that(process.returncode == 0 and output == 6 * CYCLES * expected,
                f"{command[0]}: {process.returncode}, {output!r} instead of {expected!r}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for victim in VICTIMS:
            check_counts(folder, victim)
        check_inside(folder, VICTIMS[-1])
        check_other_ways(folder, VICTIMS[-1])
        check_killed(folder, VICTIMS[-1])
        check_plugins(folder, VICTIMS[-1])
        check_thrown(folder)
        check_denied(folder, VICTIMS[-1])
        check_usage()
        check_real(folder, [sys.executable, "-c", PYTHON], "go\n")
        check_real(folder, ["sqlite3", ":memory:"], SQL)
    checks.end()


if __name__ == "__main__":
    main()
