#!/usr/bin/env python3
"""ctl set: what changes while a recording goes on. Arguments: memsight, victim-paces."""
import os
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()
N_THREADS, SPAN_MS = 3, 250


class Recorded:
    """The victim, which waits between its halves."""

    def __init__(self, folder, name, *options, sampled=("-s", "clock")):
        self.trace = os.path.join(folder, name + ".mst")
        self.go = os.path.join(folder, name + ".go")
        self.process = subprocess.Popen(
            [MEMSIGHT, "record", "-q", *sampled, "-o", self.trace, *options, "--", VICTIM,
             str(N_THREADS if sampled[1] == "clock" else 1),
             str(SPAN_MS if sampled[1] == "clock" else 1), self.go],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=whole.environment())
        self.process.stdout.readline()

    def set(self, text):
        done = subprocess.run([MEMSIGHT, "ctl", self.trace, "set", text], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=whole.environment())
        return done.returncode, done.stdout + done.stderr

    def expect(self, text, said, status=0):
        found = self.set(text)
        checks.that(found[0] == status and said in found[1] and len(found[1].splitlines()) == 1,
                    f"set {text}: {found}")

    def end(self):
        """The database, and the CPU time of the two halves."""
        with open(self.go, "w", encoding="ascii"):
            pass
        out = self.process.communicate(timeout=60)[0]
        whole.run([MEMSIGHT, "analyze", "-f", self.trace])
        return whole.Database(self.trace + ".db"), [int(word) for word in out.split()]


def check_rate(folder, text, period):
    """The time that samples stand for is the CPU time, before the change and behind it."""
    recorded = Recorded(folder, text.replace("=", "-"))
    status, said = recorded.set(text)
    database, spent = recorded.end()
    database.need_source("clock")
    if "source tasks" in said or "max_sample_rate" in said:
        whole.skip(said)
    checks.that(status == 0 and said.startswith(f"{text} (was "), f"set {text}: {said}")
    marks = database.ask("SELECT time_ns, name FROM mark")
    checks.that([row[1] for row in marks] == ["set " + said.strip()], f"marks {marks}")
    if len(marks) != 1:
        return
    for half, place in enumerate(("<", ">=")):
        n, weight, least, most = database.ask(
            "SELECT count(*), sum(weight), min(weight), max(weight) FROM sample JOIN source ON"
            f" source.id = source_id WHERE name = 'clock' AND time_ns {place} ?", marks[0][0])[0]
        # What is left of a period when a thread ends, of each; and part of it is system time.
        share = (weight or 0) / spent[half]
        room = 0.12 + N_THREADS * (most or 0) / spent[half]
        checks.that(abs(share - 1) < room, f"{text}: {n} samples of half {half} stand for {share}"
                    f" of its CPU time")
        checks.that(half == 0 or least == most == period, f"{text}: weights {least} to {most}")
    checks.that(not database.losses(), f"losses {database.losses()}")


def check_others(folder):
    """What else can be changed; and what is refused, each with its reason."""
    recorded = Recorded(folder, "others", "--trigger", "live>1G", "--trigger", "rss>90%",
                        "--cooldown", "1h", sampled=("-s", "none"))
    for text, said in (("trigger=live>2G", "trigger=live>2G (was live>1G)\n"),
                       ("trigger=rss>1k", "(was rss>90%)"), ("cooldown=60s", "(was 3600s)"),
                       ("pages=50ms", "(was at peaks and ends)"), ("pages=100ms", "(was 50ms)"),
                       ("recorder-threads=3", "(was 1)"), ("recorder-threads=0", "(was 3)")):
        recorded.expect(text, said)
    for text, said in (
            ("trigger=idle>5s", "without a --trigger of this kind"), ("trigger=live<5", "such as"),
            ("recorder-threads=17", "no number up to 16"), ("cooldown=1", "no time of a second"),
            ("pages=off", "no time of 10ms"),
            ("freq=100", "no source that samples by time"), ("freq=0", "between 1 and 100000"),
            ("freq=", "between 1 and 100000"), ("period=5", "between 10000"),
            ("budget=2%", "without --budget"), ("sample-bytes=1M", "without --sample-bytes"),
            ("stacks=fp", "programs took it over"), ("source=clock", "sources were opened"),
            ("windows=1s", "by hand"), ("buffer-size=1G", "as they are"),
            ("frek=1", "is freq meant?"), ("nothing-like-it=1", "freq, period, budget")):
        recorded.expect(text, said, status=1)
    for text in ("freq", "=5"):
        recorded.expect(text, "needs KEY=VALUE", status=2)
    whole_line = recorded.process.stderr.readline()
    checks.that("trigger rss>1k" in whole_line, f"the new bound: {whole_line}")
    database = recorded.end()[0]
    marks = [row[0] for row in database.ask("SELECT name FROM mark WHERE name LIKE 'set %'")]
    checks.that(len(marks) == 7, f"marks {marks}")


def check_picks(folder):
    """The interval of picks, and a budget."""
    recorded = Recorded(folder, "picks", "--sample-bytes", "64K", sampled=("-s", "none"))
    recorded.expect("sample-bytes=256K", "(was 65536)")
    recorded.expect("sample-bytes=64K", "(was 262144)")
    for text in ("32K", "96K", "8G", "x"):
        recorded.expect("sample-bytes=" + text, "it ", status=1)
    recorded.end()
    recorded = Recorded(folder, "budget", "--sample-bytes", "64K", "--budget", "2%",
                        sampled=("-s", "none"))
    recorded.expect("budget=1%", "budget=1% (was 2%)")
    recorded.expect("budget=80%", "is not a part", status=1)
    recorded.expect("sample-bytes=128K", "--budget chooses", status=1)
    recorded.end()


with tempfile.TemporaryDirectory(prefix="memsight-test-") as place:
    check_others(place)
    check_picks(place)
    check_rate(place, "freq=199", 5025125)
    check_rate(place, "period=200000", 200001)
checks.end()
