#!/usr/bin/env python3
"""Time in memory of every kind, in known proportions: each kind of owner has its share, and all of
them, in each report that tells of owners, are the whole. Arguments: memsight, the victim."""
import json
import re
import sys

from whole import Checks, Recording, run

# Of the victim's own startup and printing, and rounding of slices, beside the interval.
SLACK = 0.01


def shares(recording):
    """{kind of owner: (share, half width)} of the clock's time."""
    rows = recording.ask("""
        SELECT owner.name, sum(n), sum(n_sq) FROM owner_share JOIN owner ON owner.id = owner_kind
        JOIN source ON source.id = source_id AND source.name = 'clock' WHERE role = 1 GROUP BY 1""")
    n_samples = recording.one("SELECT n_samples FROM source WHERE name = 'clock'")
    found = {}
    for name, n, n_squares in rows:
        # Two samples of 1 and two of 0 added: as docs/database.md says.
        mean, squares = (n + 2) / (n_samples + 4), (n_squares + 2) / (n_samples + 4)
        found[name] = (n / n_samples, 1.96 * (max(squares - mean ** 2, 0) / (n_samples + 4)) ** 0.5)
    return n_samples, found


def check_whole(checks, recording, n_samples):
    """The shares of each source and role are those of all its samples."""
    for source, role, n in recording.ask(
            "SELECT source_id, role, sum(n) FROM owner_share GROUP BY 1, 2"):
        samples, touched = recording.ask(
            "SELECT count(DISTINCT sample_id), sum(share) FROM touch JOIN sample ON sample.id = "
            "sample_id"
            " WHERE source_id = ? AND role = ?", source, role)[0]
        checks.that(
            abs(n - touched) < 1e-6 * n,
            f"source {source}, role {role}: {n} in owner_share, {touched} in touch")
        checks.that(
            abs(n - samples) < 1e-3 * samples,
            f"source {source}, role {role}: shares of {samples} add up to {n}")
    text = run([memsight, "report", recording.path])
    line = next(line for line in text.splitlines() if line.startswith("owners"))
    # A part is a number, or from where to where it is when time has no samples.
    parts = re.findall(r"(?<=[a-z] )(\d+\.\d)(?:-(\d+\.\d))?(?= |$)", line.split("(")[0] + " ")
    low, high = (sum(float(part[side] or part[0]) for part in parts) for side in (0, 1))
    rounded = 0.05 * len(parts) + 0.05
    checks.that(low - rounded <= 100 <= high + rounded, f"owners of the first screen: {line}")
    rows = json.loads(
        run([memsight, "report", recording.path, "--objects", "--limit", "0", "--format", "json"]))
    total = sum(row["samples"] or 0 for row in rows) if rows and "samples" in rows[0] else None
    if total is not None:
        checks.that(
            abs(total - n_samples) < 0.02 * n_samples,
            f"--objects has {total} of {n_samples} samples")


def main():
    checks = Checks()
    recording = Recording(memsight, [victim], ["--source", "auto"])
    recording.need_source("clock")
    truth = dict(line.split() for line in recording.output.splitlines())
    total = int(truth.pop("total"))
    n_samples, found = shares(recording)
    print(n_samples, "samples;", ", ".join("%s %.1f ±%.1f" % (name, 100 * share, 100 * half)
                                            for name, (share, half) in sorted(found.items())))
    for name, spent in truth.items():
        share, half = found.get(name, (0, 0))
        true = int(spent) / total
        print("%-8s %5.1f %%: %5.1f ±%.1f" % (name, 100 * true, 100 * share, 100 * half))
        # 3/1.96 of the half width: one of eight kinds may well lie outside of a 95 % interval.
        checks.that(
            abs(share - true) <= 1.53 * half + SLACK, f"{name}: {share:.3f}, not {true:.3f}")
    checks.that(
        abs(sum(share for share, _ in found.values()) - 1) < 1e-3, "all owners are the whole")
    check_whole(checks, recording, n_samples)
    checks.end()


memsight, victim = sys.argv[1:3]
main()
