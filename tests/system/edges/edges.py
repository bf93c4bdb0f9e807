"""What the edge cases of docs/edge-cases.md share. A case is a function that is marked @case and
named as a sentence; it runs a victim untraced and traced by compare(), then asks the database for
counts that it knows. A module of cases is a program: MODULE.py --list, or MODULE.py MEMSIGHT
BUILD-FOLDER [CASE...]."""
import os
import subprocess
import sys
import tempfile

from whole import SKIP, Checks, Database, Outcome, environment, run, skip

CASES = {}
NOBODY = 65534


def case(function):
    CASES[function.__name__] = function
    return function


class Traced(Database):
    """A victim that ran traced: .outcome is what others saw of it, .messages what memsight said."""

    def __init__(self, path, outcome):
        super().__init__(path)
        self.outcome = outcome
        self.messages = outcome.messages

    def n_blocks(self, size, **where):
        """How many blocks of a size there were; where: column = value, as in end_kind = 1."""
        conditions = "".join(f" AND {column} = {value}" for column, value in where.items())
        return self.one("SELECT count(*) FROM allocation WHERE size = ?" + conditions, size)

    def n_alive_twice(self):
        """Blocks that were born at an address at which another one was still alive."""
        return self.one("""SELECT count(*) FROM (
            SELECT allocated_ns, lag(coalesce(freed_ns, 9223372036854775807))
                OVER (PARTITION BY process_id, address ORDER BY allocated_ns, id) AS died_before
            FROM allocation) WHERE allocated_ns < died_before""")

    def why_not(self):
        """Programs that were not traced: {base name: why}."""
        return {os.path.basename(exe): why for exe, why in self.ask(
            "SELECT exe, why_not FROM process WHERE traced = 0")}


class Edge(Checks):
    """What a case works with."""

    def __init__(self, memsight, build):
        super().__init__()
        self.memsight, self.build = os.path.abspath(memsight), os.path.abspath(build)
        # Of meson: a library would be found by it that RUNPATH must lead to.
        os.environ.pop("LD_LIBRARY_PATH", None)
        self.scratch = tempfile.TemporaryDirectory(prefix="memsight-edges-")
        self.folder = self.scratch.name
        self.n_runs = 0

    def victim(self, name):
        return os.path.join(self.build, name)

    def ordinary_user(self):
        """Words before a command that make it an ordinary user's; the folder is opened to him.
        Skips where he does not reach the build folder or this one: they lie below folders of root's
        own."""
        if os.getuid() != 0:
            return []
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        os.chmod(self.folder, 0o777)
        reach = 'test -r "$1" && test -x "$2" && test -w "$3"'
        reached = Outcome([*words, "sh", "-c", reach, "sh", self.memsight, self.build, self.folder])
        if reached.status != 0:
            skip(f"{self.memsight} or {self.folder} is not open to other users")
        return words

    def compare(self, command, options=(), env=None, timeout=300, **more):
        """Run a command untraced and traced. Status, stdout and stderr must be the same.
        `options` are those of memsight record, `more` those of subprocess.run."""
        self.n_runs += 1
        untraced = Outcome(command, env=env, timeout=timeout, **more)
        traced = self.record(command, options, env, timeout, **more)
        for difference in traced.outcome.differs_from(untraced):
            self.that(False, "%s behaves as untraced: %s" % (" ".join(command), difference))
        return traced

    def record(self, command, options=(), env=None, timeout=300, **more):
        """Run it traced only."""
        self.n_runs += 1
        trace = os.path.join(self.folder, "%d.mst" % self.n_runs)
        outcome = Outcome([self.memsight, "record", "-o", trace, *options, "--", *command], env=env,
                          timeout=timeout, **more)
        if not os.path.exists(trace):
            raise SystemExit(f"no trace: {outcome.messages}{outcome.stderr!r}")
        run([self.memsight, "analyze", "-o", trace + ".db", trace])
        return Traced(trace + ".db", outcome)

    def compile(self, source, *options, compiler="cc", **more):
        """Compile a text; None where this compiler cannot do it here. The path of the result."""
        path = os.path.join(self.folder, "built-%d" % len(os.listdir(self.folder)))
        done = subprocess.run([compiler, "-x", "c++" if compiler.endswith("++") else "c", "-", "-o",
                               path, *options], input=source, text=True, capture_output=True,
                              env=environment(), check=False, **more)
        if done.returncode:
            print(f"{compiler} {' '.join(options)}: {done.stderr.strip()[-300:]}")
        return None if done.returncode else path


def unshared(*options):
    """A command that runs another one in namespaces of its own, or skip."""
    prefix = ["unshare", *([] if os.getuid() == 0 else ["-Ur"]), *options]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        skip("this user may not make namespaces: " + " ".join(prefix))
    return prefix


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return
    memsight, build, *names = sys.argv[1:]
    for name in names or CASES:
        edge = Edge(memsight, build)
        try:
            CASES[name](edge)
        except SystemExit as stop:
            if stop.code != SKIP or names:
                raise
        if edge.n_failed:
            sys.exit(f"{name}: {edge.n_failed} failed")
