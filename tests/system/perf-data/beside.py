"""beside.py MEMSIGHT VICTIM: what perf samples beside a recording lands in the blocks of its trace.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import whole

memsight, victim = map(os.path.abspath, sys.argv[1:3])
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
INNER = ("(touch.address & ~4095) >= allocation.address AND (touch.address & ~4095) + 4096 <="
         " allocation.address + allocation.size")
CLOCKS = [((), "perf's own clock"), (("-k", "mono"), "CLOCK_MONOTONIC"),
          (("-k", "raw"), "CLOCK_MONOTONIC_RAW")]
checks = whole.Checks()
scratch = tempfile.TemporaryDirectory(prefix="memsight-test-")


def record(folder, before=(), clock=(), source="none"):
    """A trace, the perf.data beside it, and what the victim said; None where perf is refused."""
    trace, data = os.path.join(folder, "x.mst"), os.path.join(folder, "perf.data")
    done = subprocess.run([
        *before, "perf", "record", "-q", "-o", data, "-e", "page-faults", "-c", "1", "-d", *clock,
        "--", memsight, "record", "-f", "-s", source, "-o", trace, "--", victim
    ], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=whole.environment(
        HOME=folder, TMPDIR=folder), cwd=folder, timeout=300, check=False)
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0 or "second" not in said:
        return None, None, done.stderr.decode(errors="replace").strip() or said
    return trace, data, dict(line.split() for line in said.strip().split("\n")[-3:])


def join(trace, data, before=()):
    return whole.Outcome([*before, memsight, "analyze", "--perf-data", data, trace],
                         env=whole.environment(HOME=os.path.dirname(trace),
                                               TMPDIR=os.path.dirname(trace)))


def check_join(trace, data, made, name, before=()):
    outcome = join(trace, data, before)
    said = outcome.stdout.decode()
    checks.that(outcome.status == 0 and said.startswith("%s: %s, a" % (data, name)),
                "%s: %s %s" % (name, said, outcome.messages))
    if outcome.status != 0:
        return
    database = whole.Database(trace + ".db")
    faults, lost = database.one("SELECT n_samples FROM source"), database.losses()
    if ("faults", "ring overrun") in lost:
        whole.skip(
            "%s of %s faults found the ring full" % (lost[("faults", "ring overrun")], faults))
    told = dict(
        database.ask(
            "SELECT frame.function, count(*) FROM touch JOIN allocation ON owner_kind = (SELECT id "
            "FROM"
            " owner WHERE name = 'heap') AND allocation.id = owner_id JOIN stack ON stack.id ="
            " allocation.stack_id JOIN frame ON frame.id = stack.frame_id WHERE " + INNER +
            " GROUP BY 1"))
    for site in made:
        wanted = int(made[site])
        checks.that(abs(told.get(site, 0) - wanted) <= wanted / 100,
                    "%s: %s has %s of %d pages" % (name, site, told.get(site), wanted))
    checks.that(sum(told.values()) == sum(map(int, made.values())) or
                abs(sum(told.values()) / sum(map(int, made.values())) - 1) < 0.01,
                "%s: %s in all, not %s" % (name, told, made))
    checks.that(database.one("SELECT count(*) FROM process") == 1, "%s: processes %s" % (
        name, database.ask("SELECT pid, exe FROM process")))
    facts = dict(database.ask("SELECT key, value FROM fact WHERE key GLOB 'perf_data.*'"))
    checks.that(facts.get("perf_data.clock") == name, "%s: %s" % (name, facts))
    error_ns = database.one("SELECT clock_error_ns FROM run")
    checks.that(error_ns >= int(facts["perf_data.error_ns"]) and error_ns < 10**9,
                "%s: error %s, %s" % (name, error_ns, facts))
    if name == "CLOCK_MONOTONIC_RAW":
        checks.that(facts["perf_data.offset_ns"] == "0" and "as the trace" in said, said)
    strangers = ("perf.data", "samples of processes that the trace does not have")
    checks.that(lost.get(strangers, 0) > 0, "memsight itself was sampled, too: %s" % lost)


def check_refused(trace, data, words, what):
    outcome = join(trace, data)
    checks.that(outcome.status == 1 and words in outcome.messages and
                outcome.messages.count("\n") == 1 and not outcome.stdout,
                "%s: %s %s" % (what, outcome.stdout, outcome.messages))


def folder(name):
    path = os.path.join(scratch.name, name)
    os.makedirs(path)
    return path


def check_nobody():
    """Where the user of this test may become another one who may read what was built."""
    if os.getuid() != 0 or subprocess.run([*NOBODY, memsight, "--version"], check=False,
                                          stdout=subprocess.DEVNULL).returncode != 0:
        return
    home = folder("nobody")
    os.chmod(scratch.name, 0o755)
    os.chown(home, 65534, 65534)
    trace, data, made = record(home, NOBODY)
    if trace:
        check_join(trace, data, made, "perf's own clock", NOBODY)
    else:
        print("as another user perf is refused:", made)


def main():
    if not shutil.which("perf"):
        whole.skip("no perf here: scripts/setup --all installs it")
    tried = whole.Outcome([
        "perf", "record", "-q", "-o",
        os.path.join(scratch.name, "try.data"), "-e", "page-faults", "-c", "1", "-d", "true"
    ])
    if tried.status != 0:
        whole.skip("perf record: %s" % tried.stderr.decode(errors="replace").strip())
    for i, (clock, name) in enumerate(CLOCKS):
        trace, data, made = record(folder(str(i)), (), clock)
        if not trace:
            raise SystemExit("perf record: " + made)
        check_join(trace, data, made, name)
    check_refused(os.path.join(scratch.name, "0", "x.mst"), data, "is not of the run",
                  "another run")
    check_refused(trace, trace, "is not a perf.data", "a trace as perf.data")
    check_refused(data, data, "is not a trace", "a perf.data as trace")
    check_refused(trace, data + "x", "perf.datax: No such file", "none")
    trace, data, made = record(folder("both"), (), (), "faults")
    if trace:
        check_refused(trace, data, "both sampled faults", "both")
    check_nobody()


main()
checks.end()
