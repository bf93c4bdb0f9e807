"""What the checks inside of an emulated machine share. They run as the guest's root."""
import os
import pathlib
import subprocess
import sys
import time

from whole import Checks, Database, Outcome, environment, run

NOBODY = 65534
# of victim-pages; of each block the whole pages
N_LARGE, LARGE_BYTES, LARGE_PAGES = 4, 4 << 20, 1023
N_SMALL, SMALL_BYTES = 512, 6000
CHILD_BYTES = 300000
TOO_LATE = "image not traced: the recorder answered too late"


def pages(*nodes):
    """What victim-pages prints of blocks that lie on these nodes, in equal parts."""
    def line(name, n):
        return name + "".join(f" {node} {n // len(nodes)}" for node in nodes)
    return [line("large", N_LARGE * LARGE_PAGES), line("small", N_SMALL)]


def write(path, text):
    pathlib.Path(path).write_text(text, encoding="ascii")


class Guest(Checks):
    """memsight, the victims, and a folder of the present user."""

    def __init__(self):
        super().__init__()
        self.memsight, self.victim, self.heap_victim = sys.argv[1:4]
        self.folder = "/tmp/root"
        os.mkdir(self.folder)
        os.environ["TMPDIR"] = self.folder
        write("/proc/sys/kernel/numa_balancing",
              "0")  # the kernel shall not move pages while they are counted
        write("/sys/kernel/mm/transparent_hugepage/enabled",
              "madvise")  # faults are of single pages

    def path(self, name):
        return os.path.join(self.folder, name)

    def record(self, options, command, **variables):
        """An Outcome; the trace is not looked at."""
        return Outcome(
            [self.memsight, "record", "-f", "-o",
             self.path("run.mst"), *options, "--", *command], env=environment(**variables),
            cwd=self.folder)

    def recorded(self, options, command):
        """An Outcome and its database. An emulated CPU that waits for a real one may answer a
        program after the second that it waits at most; that is told as a loss, and means nothing
        here: once more."""
        path = self.path("run.db")
        for _ in range(5):
            outcome = self.record(options, command)
            if os.path.exists(path):
                os.unlink(path)
            run([self.memsight, "analyze", "-o", path, self.path("run.mst")])
            database = Database(path)
            if ("tracealloc", TOO_LATE) not in database.losses():
                break
            print(f"once more: {TOO_LATE}")
        return outcome, database

    def mapped(self, *what):
        """A database of `victim-pages map WHAT`, whose pages are looked at three times while it
        reads them; and the last report of them."""
        trace, database = self.path("map.mst"), self.path("map.db")
        with subprocess.Popen([self.memsight, "record", "-q", "-f", "-o", trace, "--source",
                               "pages", "--pages", "1h", "--", self.victim, "map", *what],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=environment()) as recorder:
            self.that(recorder.stdout.readline() == b"ready\n", f"{what}: the victim has begun")
            for _ in range(3):
                # Between two looks it must have read all once.
                run([self.memsight, "ctl", trace, "look"])
                time.sleep(1)
            recorder.stdin.close()
        self.that(recorder.returncode == 0, f"{what}: {recorder.returncode}")
        if os.path.exists(database):
            os.unlink(database)
        run([self.memsight, "analyze", "-o", database, trace])
        return Database(database)

    def adds_up(self, database, uncounted):
        """Parts of each look on demand are VmRSS and the bytes that it does not have. VmRSS of a
        small process is kept in batches of pages, and this kernel does not know pages of zeros."""
        rows = database.ask(
            "SELECT uncounted, abs(resident - uncounted - rss) FROM page_snapshot WHERE reason ="
            " 'tick' AND id > (SELECT min(id) FROM page_snapshot) ORDER BY id DESC LIMIT 3")
        self.that(len(rows) == 3 and all(row[0] == uncounted and row[1] < 1 << 20 for row in rows),
                  f"{uncounted} uncounted, not: {rows}")

    def of_function(self, database, table, columns, function, where="1"):
        """The rows of a table whose call stacks have that function, each only once."""
        return database.ask(
            f"WITH RECURSIVE path(id, up) AS (SELECT DISTINCT stack_id, stack_id FROM {table} UNION"
            " SELECT path.id, parent_id FROM path JOIN stack ON stack.id = up WHERE parent_id IS"
            f" NOT NULL) SELECT DISTINCT {columns} FROM {table} WHERE kind = 'mapping' AND {where}"
            " AND stack_id IN (SELECT path.id FROM path JOIN stack ON stack.id = up JOIN frame ON"
            " frame.id = frame_id WHERE function = ?)", function)

    def same(self, what, options, command, plain=None):
        """Recorded with these options a command says the same as without us (or as the Outcome
        plain)."""
        plain = plain or Outcome(command, cwd=self.folder)
        placed = self.record(["-q", *options], command)
        for difference in plain.differs_from(placed):
            self.that(False, f"{what}: {difference:.800} {placed.messages}")
        return placed

    def refuses(self, options, *words):
        """One line that has these words, and the program does not start."""
        marker = self.path("has-run")
        outcome = self.record(options, ["touch", marker])
        self.that(
            outcome.status != 0 and outcome.messages.count("\n") == 1 and not os.path.exists(marker)
            and all(word in outcome.messages for word in words),
            f"{options}: {outcome.status} {outcome.messages}")

    def says(self, outcome, *words):
        text = outcome.stdout.decode() + outcome.messages
        for word in words:
            self.that(word in text, f"{word!r} is not in: {text}")

    def step(self, function, *values, user=None):
        """Do one check, as an ordinary user where asked for, and say how long it took."""
        began = time.monotonic()
        if user is None:
            function(self, *values)
        else:
            self.n_failed += self.as_user(user, function, values)
        print(f"{time.monotonic() - began:5.1f} s  {function.__name__}{values or ''}"
              f"{'' if user is None else f' as uid {user}'}", flush=True)

    def as_user(self, user, function, values):
        pid = os.fork()
        if pid == 0:
            status = 255
            try:
                self.become(user)
                function(self, *values)
                status = min(self.n_failed, 254)
            finally:
                sys.stdout.flush()
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def become(self, user):
        self.n_failed = 0
        self.folder = f"/tmp/user-{user}"
        os.makedirs(self.folder, exist_ok=True)
        os.chown(self.folder, user, user)
        os.environ.update(HOME=self.folder, TMPDIR=self.folder)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        # exec of the tool itself, in case that this process is not "dumpable" any more, is up to
        # it.


def fact(database, key, at_end=0):
    return database.one("SELECT value FROM fact WHERE key = ? AND at_end = ?", "memsight." + key,
                        at_end)


def avail(guest):
    return Outcome([guest.memsight, "avail"])


def doctor(guest):
    return Outcome([guest.memsight, "doctor"])


def main(function):
    guest = Guest()
    try:
        function(guest)
    except (OSError, subprocess.SubprocessError, SystemExit) as error:
        guest.that(False, f"{type(error).__name__}: {error}")
    guest.end()
