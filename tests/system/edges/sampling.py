#!/usr/bin/env python3
"""Samples: nothing is lost in silence, one clock, all threads, and what is refused says so in one
line."""
import os
import signal
import subprocess
import time

from edges import Traced, case, main
from whole import Outcome, environment, run, skip


def need(traced, name):
    """The source ran; a full ring is no reason to skip here: that is what is looked at."""
    error = traced.one("SELECT error FROM source WHERE name = ? AND error = 0", name)
    if error is None:
        skip(f"no {name} samples: {traced.one('SELECT remedy FROM source WHERE name = ?', name)}")


def ledger(traced, name):
    names = [
        "n_taken", "n_lost", "lost_is_exact", "is_complete", "n_throttles", "throttled_ns", "scale"
    ]
    rows = traced.ask(
        f"SELECT {', '.join('source_ledger.' + n for n in names)}, n_samples, n_withheld"
        " FROM source_ledger JOIN source ON source.id = source_id WHERE name = ?", name)
    return dict(zip([*names, "n_samples", "n_withheld"], rows[0]))


def recorded(edge, words, options=(), prefix=(), **more):
    """Like Edge.record, but with words before memsight, and without asking for success."""
    edge.n_runs += 1
    trace = os.path.join(edge.folder, f"s{edge.n_runs}.mst")
    outcome = Outcome([*prefix, edge.memsight, "record", "-o", trace, *options, "--", *words],
                      **more)
    if outcome.status != 0:
        return outcome, None
    run([edge.memsight, "analyze", "-o", trace + ".db", trace])
    return outcome, Traced(trace + ".db", outcome)


def check_ledger(edge, traced, name, least, most):
    """What was taken and what was lost is what happened."""
    sums = ledger(traced, name)
    print(name, sums, "true", least, "to", most)
    edge.that(sums["is_complete"] == 1, "the recorder told its ledger")
    edge.that(sums["n_samples"] == sums["n_taken"],
              f"rows {sums['n_samples']}, taken {sums['n_taken']}")
    lost = traced.one("SELECT sum(count) FROM loss WHERE source = ? AND reason = 'ring overrun'",
                      name)
    edge.that((lost or 0) == sums["n_lost"], f"a loss of {lost}, ledger {sums['n_lost']}")
    if sums["lost_is_exact"]:
        total = sums["n_taken"] + sums["n_lost"]
        edge.that(least <= total <= most, f"{total} taken and lost, {least} to {most} happened")
    return sums


@case
def what_a_stopped_recorder_loses_is_counted(edge):
    """It sleeps while 60,000 pages are touched: more than its rings hold."""
    trace = os.path.join(edge.folder, "stopped.mst")
    recorder = subprocess.Popen([
        edge.memsight, "record", "-q", "--no-alloc", "--source", "faults", "-o", trace, "--", "sh",
        "-c", 'read line; exec "$0" faults 60000',
        edge.victim("victim-sampling")
    ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment())
    time.sleep(0.5)
    os.kill(recorder.pid, signal.SIGSTOP)
    recorder.stdin.write("\n")
    recorder.stdin.close()
    n_faults = int(recorder.stdout.readline())
    time.sleep(0.2)
    os.kill(recorder.pid, signal.SIGCONT)
    recorder.wait(timeout=120)
    said = recorder.stderr.read()
    edge.that(recorder.returncode == 0, f"status {recorder.returncode}: {said}")
    run([edge.memsight, "analyze", "-o", trace + ".db", trace])
    traced = Traced(trace + ".db", Outcome(["true"]))
    need(traced, "faults")
    sums = check_ledger(edge, traced, "faults", 60000, n_faults + 4000)
    edge.that(sums["n_lost"] > 0, "nothing was lost: the rings are larger than thought")
    edge.that(sums["scale"] > 1, f"scale {sums['scale']}")
    report = run([edge.memsight, "report", "--losses", trace + ".db"])
    edge.that("found the ring full" in report, report)
    edge.that("lost" in run([edge.memsight, "report", trace + ".db"]), "the summary says it")


@case
def a_tiny_ring_loses_nothing_in_silence(edge):
    """No locked memory but what the kernel gives each user: rings are as small as they get."""
    prefix = edge.ordinary_user()
    words = [edge.victim("victim-sampling"), "faults", "60000"]
    outcome, traced = recorded(edge, words, ["--no-alloc", "--source", "faults"],
                               [*prefix, "prlimit", "--memlock=0:0"], cwd=edge.folder,
                               env=environment(HOME=edge.folder, TMPDIR=edge.folder))
    edge.that(outcome.status == 0, f"{outcome.messages} {outcome.stderr}")
    need(traced, "faults")
    check_ledger(edge, traced, "faults", 60000, int(outcome.stdout) + 4000)


@case
def at_the_limit_of_the_rate_all_time_is_accounted_for(edge):
    """Samples, lost ones, throttled time and what is told to have no samples together are the CPU
    time, however late the machine's timers are: the kernel skips the interrupts that it missed
    without a word."""
    outcome, traced = recorded(edge, [edge.victim("victim-sampling"), "spin", "1500"],
                               ["--no-alloc", "--source", "clock@100000"])
    edge.that(outcome.status == 0, f"{outcome.messages} {outcome.stderr}")
    need(traced, "clock")
    sums = check_ledger(edge, traced, "clock", 0, 1 << 60)
    weight, unsampled, user, system = traced.ask(
        "SELECT weight, unsampled_ns, user_ns, system_ns FROM source_ledger JOIN source ON "
        "source.id = source_id"
        " JOIN run ON run.id = source.run_id WHERE name = 'clock'")[0]
    told = weight * sums["scale"] + (unsampled or 0)
    print(f"{weight} x {sums['scale']} + {unsampled} of {user} + {system}")
    edge.that(unsampled is not None, "time without samples is known")
    # The kernel divides CPU time by its ticks: what that may err by is no time without samples.
    noise = 2.2 * (max(user, 10e6) * max(system, 10e6) / (user + system) * 10e6) ** 0.5
    edge.that(told >= 0.99 * user - noise, f"{told} of {user} +- {noise}")
    edge.that(told <= 1.05 * (user + system), f"{told} of {user} + {system}")
    if unsampled > 0.01 * told:
        edge.that("have no samples" in run([edge.memsight, "report", traced.path]),
                  "the summary says it")
        edge.that("no samples for" in run([edge.memsight, "report", "--losses", traced.path]),
                  "the ledger says it")
        least, most = traced.ask(
            "SELECT share_low, share_high FROM kind_share WHERE owner_kind = 4")[0]
        edge.that(most - least >= unsampled / told,
                  f"{unsampled} of {told} may be anybody's: {least} to {most}")


# The function stores into its block only; what it reads is its return address, on the stack.
ORDER = """SELECT count(*), sum(owner.name = 'heap' AND allocation.allocated_ns <= sample.time_ns
    AND coalesce(allocation.freed_ns, 9e18) >= sample.time_ns AND
    touch.address BETWEEN allocation.address AND allocation.address + allocation.size - 1)
    FROM touch JOIN sample ON sample.id = sample_id JOIN source ON source.id = source_id
    JOIN owner ON owner.id = owner_kind JOIN frame ON frame.id = touch.frame_id
    LEFT JOIN allocation ON allocation.id = owner_id AND owner.name = 'heap'
    WHERE frame.function = 'touch_block' AND touch.address IS NOT NULL AND source.name = ? AND role
        = ? AND coalesce(is_write, 1)"""


def check_clock(edge, more):
    """Each touch of a block is one between its birth and its death, by the same clock."""
    outcome, traced = recorded(edge, [edge.victim("victim-sampling"), "order", "1500", *more],
                               ["--source", "clock@5000,faults"])
    edge.that(outcome.status == 0, f"{outcome.messages} {outcome.stderr}")
    need(traced, "faults")
    n, n_inside = traced.ask(ORDER, "faults", 3)[0]
    print(f"faults: {n_inside} of {n} inside the life of their block")
    edge.that(n > 300000, f"{n} faults")
    edge.that(n_inside >= 0.999 * n,
              f"{n - n_inside} of {n} faults outside the life of their block")
    n, n_inside = traced.ask(ORDER, "clock", 0)[0]
    print(f"clock: {n_inside} of {n} inside the life of their block")
    edge.that(n > 20 and n_inside >= 0.999 * n, f"{n - (n_inside or 0)} of {n} samples outside")
    # Numbers are given as owners are decided: for few, when the thread's next event has come.
    backwards, n = traced.ask("""SELECT sum(step < 0), count(*) FROM (SELECT time_ns - lag(time_ns)
        OVER (PARTITION BY source_id, thread_id ORDER BY id) AS step FROM sample)""")[0]
    edge.that(backwards <= n / 1000, f"{backwards} of {n} samples are before the one before")
    error_ns = traced.one("SELECT clock_error_ns FROM run")
    edge.that(0 < error_ns < 1000000, f"an error bound of {error_ns} ns")


@case
def samples_fall_into_the_life_of_their_block(edge):
    check_clock(edge, [])


@case
def samples_of_a_thread_sent_from_cpu_to_cpu_fall_into_the_life_of_their_block(edge):
    if os.cpu_count() < 2:
        skip("one CPU only")
    check_clock(edge, ["move"])


def check_missed(edge, traced, n):
    """Samples, and those that never came, are the time of n threads of 20 ms. Returns the loss."""
    weight, unsampled, period, n_missed = traced.ask(
        "SELECT weight * scale, unsampled_ns, period, (SELECT coalesce(sum(count), 0) FROM loss"
        " WHERE loss.source = 'clock' AND reason LIKE 'samples that never came%') FROM"
        " source_ledger JOIN source ON source.id = source_id WHERE name = 'clock'")[0]
    told = weight + unsampled
    print(f"{weight:.0f} ns sampled, {unsampled} not: a loss of {n_missed}")
    edge.that(told >= 0.9 * 20e6 * n, f"{told} ns of {n} threads")
    edge.that(n_missed == (unsampled // period if unsampled > 0.01 * told else 0),
              f"{unsampled} ns without samples of {told}, a loss of {n_missed}")
    return n_missed


@case
def every_thread_of_a_storm_has_samples(edge):
    """20 ms of CPU time are 18 periods and more. What never came is a loss."""
    outcome, traced = recorded(edge, [edge.victim("victim-sampling"), "storm", "100", "20", "4"],
                               ["--source", "clock"])
    edge.that(outcome.status == 0, f"{outcome.messages} {outcome.stderr}")
    need(traced, "clock")
    tids = {int(line) for line in outcome.stdout.split()}
    found = {
        tid
        for tid, in traced.ask(
            "SELECT DISTINCT tid FROM sample JOIN thread ON thread.id = thread_id"
            " JOIN source ON source.id = source_id WHERE source.name = 'clock'")
    }
    edge.that(
        len(tids) == 100 and tids <= found,
        f"{len(tids - found)} of {len(tids)} threads have no sample")
    check_missed(edge, traced, len(tids))


@case
def samples_that_never_come_are_a_loss(edge):
    """Threads of 2 ms end before the first sample of 5 ms: all they did may be anybody's."""
    outcome, traced = recorded(edge, [edge.victim("victim-sampling"), "storm", "100", "2", "4"],
                               ["--source", "clock", "--freq", "200"])
    edge.that(outcome.status == 0, f"{outcome.messages} {outcome.stderr}")
    need(traced, "clock")
    edge.that(check_missed(edge, traced, 10) >= 30, "100 threads of 2 ms, 40 periods")
    edge.that("samples that never came" in run([edge.memsight, "report", "--losses", traced.path]),
              "--losses names it")
    edge.that("losses: none" not in run([edge.memsight, "report", traced.path]), "the head says it")


@case
def time_of_the_kernel_stands_apart(edge):
    """--count both: system calls are owner kernel, and are charged to the instruction that called.
    """
    outcome, traced = recorded(edge, [edge.victim("victim-sampling"), "calls", "300"],
                               ["--source", "clock", "--count", "both"])
    edge.that(outcome.status == 0, f"{outcome.messages} {outcome.stderr}")
    need(traced, "clock")
    if traced.one("SELECT exclude_kernel FROM source WHERE name = 'clock'"):
        skip("kernel samples are not permitted here")
    edge.that(
        traced.one("SELECT unit FROM source WHERE name = 'clock'") == "ns of CPU time", "unit")
    n, n_kernel, n_owned = traced.ask("""SELECT count(*), sum(is_kernel), sum(is_kernel AND (SELECT
        min(phase = 3 OR owner_kind = (SELECT id FROM owner WHERE name = 'kernel')) FROM touch
        WHERE sample_id = sample.id AND role = 1)) FROM sample JOIN source ON source.id = source_id
        WHERE source.name = 'clock'""")[0]
    print(f"{n_kernel} of {n} samples in the kernel")
    edge.that(n_kernel > 0.1 * n, f"{n_kernel} of {n} in the kernel")
    edge.that(n_owned == n_kernel,
              f"{n_owned} of {n_kernel} are the kernel's, or of what it interrupted")
    n_called = traced.one(
        """SELECT count(*) FROM touch JOIN sample ON sample.id = sample_id JOIN frame
        ON frame.id = touch.frame_id WHERE is_kernel AND role = 1 AND frame.path LIKE '%libc%'""")
    edge.that(n_called > 0.8 * n_kernel, f"{n_called} of {n_kernel} at the instruction that called")
    report = run([edge.memsight, "report", traced.path])
    edge.that("CPU time" in report and "user CPU time" not in report, report)


def refused(edge, options, says, prefix=(), env=None):
    """One line says it and the run goes on; with --strict the program does not start."""
    words = ["sh", "-c", f"echo ran > {edge.folder}/ran; true"]
    outcome, traced = recorded(edge, words, options, prefix, env=env, cwd=edge.folder)
    edge.that(outcome.status == 0 and traced is not None,
              f"{options}: {outcome.status} {outcome.messages}")
    lines = [line for line in outcome.messages.splitlines() if says in line]
    edge.that(len(lines) == 1, f"{options}: '{says}' in {outcome.messages!r}")
    os.remove(os.path.join(edge.folder, "ran"))
    outcome, _ = recorded(edge, words, [*options, "--strict"], prefix, env=env, cwd=edge.folder)
    edge.that(outcome.status == 2, f"{options} --strict: {outcome.status} {outcome.messages}")
    edge.that("--strict" in outcome.messages and says in outcome.messages, outcome.messages)
    edge.that(not os.path.exists(os.path.join(edge.folder, "ran")),
              f"{options} --strict started the program")


def sysctl(name):
    try:
        with open(f"/proc/sys/kernel/{name}", encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return None


@case
def a_rate_above_the_limit_becomes_the_limit_and_says_so(edge):
    limit = sysctl("perf_event_max_sample_rate")
    if limit is None or limit >= 100000:
        skip("every rate is allowed here")
    refused(edge, ["--source", "clock@100000"], "perf_event_max_sample_rate")


@case
def kernel_samples_that_are_not_permitted_are_left_out_and_said(edge):
    prefix = edge.ordinary_user()
    if (sysctl("perf_event_paranoid") or 0) != 2:
        skip("perf_event_paranoid is not 2")
    refused(edge, ["--source", "clock", "--count", "both"], "user code only", prefix,
            environment(HOME=edge.folder, TMPDIR=edge.folder))


@case
def what_makes_no_sense_is_wrong_usage(edge):
    for options, says in [(["--source", "clocks"], "is not one of"),
                          (["--source", "clock,clock"], "twice"),
                          (["--source", "auto@5"], "no rate of its own"),
                          (["--budget", "0"], "--budget"), (["--budget", "2x"], "--budget"),
                          (["--source", "none,clock"], "no other"),
                          (["--freq", "10", "--period", "10"], "exclude")]:
        outcome, _ = recorded(edge, ["true"], options)
        edge.that(outcome.status == 2 and says in outcome.messages,
                  f"{options}: {outcome.messages}")


@case
def a_budget_is_kept_and_told(edge):
    outcome, traced = recorded(edge, [edge.victim("victim-sampling"), "spin", "2000"],
                               ["--no-alloc", "--source", "clock", "--budget", "2%"])
    edge.that(outcome.status == 0, f"{outcome.messages} {outcome.stderr}")
    need(traced, "clock")
    facts = dict(
        traced.ask("SELECT key, value FROM fact WHERE key LIKE 'memsight.%' AND at_end = 0"))
    counts = dict(traced.ask("SELECT name, value FROM counter"))
    print(facts.get("memsight.budget_rate_hz"), facts.get("memsight.sample_cost_ns"), counts)
    edge.that(facts.get("memsight.budget") == "2%", f"{facts}")
    n = traced.one("SELECT n_samples FROM source WHERE name = 'clock'")
    # By what a sample costs, never more often than pays.
    most = 2.4 * 0.02 * 1e9 / int(facts["memsight.sample_cost_ns"])
    edge.that(0 < n <= most, f"{n} samples, at most {most:.0f}")
    edge.that("budget 2%" in run([edge.memsight, "report", traced.path]), "the report tells it")


if __name__ == "__main__":
    main()
