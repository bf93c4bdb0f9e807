#!/usr/bin/env python3
"""--source signal: shares of time as the program measured them, threads that never allocate and
forked children, programs that use signals themselves, and no perf at all. Arguments: memsight,
victim-signal, victim-clock, the program that refuses perf (without it: the victims are linked
statically, where a thread is sampled from its first allocation on)."""
import os
import sys
import tempfile

from whole import Checks, Outcome, Recording

SHARES = """SELECT frame.function, sum(share), sum(share * share) FROM touch
JOIN sample ON sample.id = sample_id JOIN allocation ON allocation.id = owner_id
JOIN stack ON stack.id = allocation.stack_id JOIN frame ON frame.id = stack.frame_id
WHERE role = 1 AND owner_kind = 1 GROUP BY 1"""

UNKNOWN = """SELECT sum(share) FROM touch JOIN sample ON sample.id = sample_id
JOIN owner ON owner.id = owner_kind WHERE role = 1 AND owner.name = 'unknown'"""

TIMES = """SELECT symbol.name, sum(share * weight) FROM touch JOIN sample ON sample.id = sample_id
JOIN symbol ON symbol.id = owner_id WHERE role = 1 AND owner_kind = 4 GROUP BY 1"""

SIGNAL = ["--source", "signal"]


def numbers(text):
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def check_shares(checks, memsight, victim):
    """Four standard errors: one in 16,000 would be wrong by chance."""
    recording = Recording(memsight, [victim], SIGNAL)
    truth = numbers(recording.output)
    total = truth.pop("total")
    n = recording.one("SELECT n_samples FROM source WHERE name = 'signal'")
    checks.that(n >= 50, "%s samples of %.1f s" % (n, total / 1e9))
    found = {name: (sum_, squares) for name, sum_, squares in recording.ask(SHARES)}
    for name, ns in truth.items():
        sum_, squares = found.get(name, (0, 0))
        share, expected = sum_ / n, ns / total
        error = (max(squares / n - share * share, 0.25 / n) / n) ** 0.5
        print("%-12s %5.1f %% of %d samples, truly %5.1f %%, error %.1f" % (
            name, 100 * share, n, 100 * expected, 100 * error))
        checks.that(abs(share - expected) < 4 * error + 0.01, name + ": share of time")
    weight = recording.one("SELECT sum(weight) FROM sample")
    user, system = recording.ask("SELECT user_ns, system_ns FROM run")[0]
    print("stand for %.3f s of %.3f s" % (weight / 1e9, (user + system) / 1e9))
    checks.that(
        abs(weight - user - system) < 0.2 * (user + system) + 5e7, "samples stand for the CPU time")


def check_stacks(checks, memsight, victim):
    """It has none, and says so to who asks for them."""
    with tempfile.TemporaryDirectory() as folder:
        for how, is_told in [("none", False), ("fp", True), ("dwarf", True)]:
            done = Outcome([
                memsight, "record", *SIGNAL, "--sample-stacks", how, "--force", "-o",
                folder + "/a.mst", "--", "true"
            ])
            checks.that(("no call stacks of samples" in done.messages) == is_told
                        and done.status == 0, f"{how}: {done.messages}")


def check_threads(checks, memsight, victim):
    recording = Recording(memsight, [victim, "threads"], SIGNAL)
    found = dict(recording.ask(TIMES))
    for name, ns in numbers(recording.output).items():
        print("%-12s %.3f s of %.3f s" % (name, found.get(name, 0) / 1e9, ns / 1e9))
        checks.that(abs(found.get(name, 0) - ns) < 0.25 * ns + 3e7, name + ": CPU time")
    threads = recording.one("SELECT count(DISTINCT thread_id) FROM sample")
    checks.that(threads >= 3, "%s threads are sampled" % threads)


def check_variables(checks, memsight, victim):
    """Code without optimisation: with the bytes below the stack pointer all of it is known. Without
    these a tenth was not."""
    recording = Recording(memsight, [victim, "variables"], SIGNAL)
    n = recording.one("SELECT n_samples FROM source WHERE name = 'signal'")
    unknown = recording.one(UNKNOWN) or 0
    found = {name: sum_ for name, sum_, squares in recording.ask(SHARES)}
    print("variables: of %d samples unknown %.1f, on the heap %s" % (n, unknown, found))
    checks.that(n >= 20, "variables: %d samples" % n)
    checks.that(unknown <= 0.03 * n, "variables: %.1f of %d samples unknown" % (unknown, n))


def check_signals(checks, memsight, victim):
    """What a program sees of its signals is the same with and without us."""
    for part in ["own", "mask", "child", "held", "errno"]:
        recording = Recording(memsight, [victim, part], SIGNAL)
        plain = Outcome([victim, part])
        checks.that(recording.output == plain.stdout.decode(), "%s: %r and without us %r" % (
            part, recording.output, plain.stdout))
        losses = {reason: count for (source, reason), count in recording.losses().items()
                  if source == "signal"}
        print(part, losses)
        if part == "own":
            checks.that(any("itself" in reason for reason in losses), "own: told why it stopped")
        blocked = sum(count for reason, count in losses.items() if "blocked" in reason)
        if part == "child":
            own = recording.ask(
                "SELECT count(*) FROM loss WHERE reason LIKE '%itself%' AND process_id = 1")
            checks.that(own == [(0,)], "child: what it does is not its parent's")
            n = recording.one("SELECT count(*) FROM sample WHERE process_id = 1")
            checks.that(n >= 15, "child: %d samples of the parent" % n)
        if part == "held":
            checks.that(20 <= blocked <= 400, "held: %d ms blocked" % blocked)
        if part == "mask":
            checks.that(150 <= blocked <= 400, "mask: %d ms blocked" % blocked)
            n = recording.one("SELECT n_samples FROM source WHERE name = 'signal'")
            checks.that(n >= 5, "mask: sampled before and after")


def check_without_perf(checks, memsight, victim, no_perf):
    """Where perf is refused the remedy names this source, and it works there."""
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        trace = os.path.join(folder, "run.mst")
        refused = Outcome([no_perf, memsight, "record", "-o", trace, "--", victim, "errno"])
        checks.that("--source signal" in refused.messages, "the remedy: %s" % refused.messages)
        done = Outcome(
            [no_perf, memsight, "record", "-f", "-o", trace, *SIGNAL, "--", victim, "errno"])
        checks.that(done.status == 0 and b"errno 77" in done.stdout,
                    "without perf: %s" % done.messages)
        report = Outcome(
            [memsight, "query", trace, "SELECT n_samples FROM source WHERE name = 'signal'"])
        print(report.stdout.decode())
        n = int(report.stdout.split()[-1])
        checks.that(n >= 10, "without perf: %d samples" % n)


def check_messages(checks, memsight, victim):
    for text, word in [("auto,signal", "clock"), ("clock,signal", "twice"), ("signal@0", "rate")]:
        done = Outcome([memsight, "record", "--source", text, victim, "errno"])
        checks.that(done.status == 2 and word in done.messages, "%s: %s" % (text, done.messages))
    done = Outcome([memsight, "record", "--no-alloc", *SIGNAL, victim, "errno"])
    checks.that(done.status == 2 and "--no-alloc" in done.messages,
                "--no-alloc: %s" % done.messages)


def main():
    memsight, victim, victim_clock, *no_perf = sys.argv[1:]
    checks = Checks()
    check_shares(checks, memsight, victim_clock)
    check_signals(checks, memsight, victim)
    if not no_perf:
        checks.end()
    check_stacks(checks, memsight, victim)
    check_threads(checks, memsight, victim)
    check_variables(checks, memsight, victim)
    check_without_perf(checks, memsight, victim, no_perf[0])
    check_messages(checks, memsight, victim)
    checks.end()


main()
