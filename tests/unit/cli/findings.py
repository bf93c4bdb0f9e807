#!/usr/bin/env python3
"""Planted waste is found, with its size and place, and programs without it have no findings.
Arguments: memsight, victim-findings."""
import json
import os
import sys
import tempfile

import whole

MEMSIGHT, PROGRAM = sys.argv[1:3]
checks = whole.Checks()

# What is planted: the rule, its size where it is known exactly, and a part of its sentence.
PLANTED = {
    "leak": ("leak", 500 * 5000, "500 blocks of make_blocks"),
    "large_leak": ("leak", 20 * 1000000, "20 blocks of make_blocks"),
    "leak_by_paths": ("leak", 5 * 100 * 5000, "(5 call paths) were never freed"),
    "leak_text": ("leak", 300 * 9000, "300 blocks of leak_text victim-findings.c"),
    "leak_zeros": ("leak", 300 * 7000, "300 blocks of leak_zeros victim-findings.c"),
    "leak_in_thread": ("leak", 300 * 7000, "300 blocks of leak_here victim-findings.c"),
    "leak_grown": ("leak", 200 * 9000, "200 blocks of leak_grown victim-findings.c"),
    "leak_aligned": ("leak", 200 * 128 * 64, "200 blocks of leak_aligned victim-findings.c"),
    "half_leak": ("leak", 300 * 7000, "300 blocks of leak_here victim-findings.c"),
    "temporary_text": ("temporary", 40000, "blocks of temporary_text victim-findings.c"),
    "temporary_zeros": ("temporary", 40000, "blocks of temporary_zeros victim-findings.c"),
    "tiny_list": ("tiny blocks", 300000, "16 bytes on average"),
    "untouched_zeros": ("never touched", None, "of 30.0 MiB of untouched_zeros"),
    "untouched_tables": ("never touched", None, "of 40.0 MiB of untouched_tables"),
    "hot": ("hot", None, "of the CPU time is at 64.0 KiB of hot victim-findings.c"),
    "temporary": ("temporary", 60000, "blocks of temporary victim-findings.c"),
    "tiny": ("tiny blocks", 200000, "24 bytes on average"),
    "untouched": ("never touched", None, "of 40.0 MiB of untouched victim-findings.c"),
    "fragments": ("not in blocks", None, "free in the allocator"),
    "false_sharing": ("false sharing", None, "of false_sharing victim-findings.c"),
}
CLEAN = ["no_leak", "few_kept", "one_buffer", "larger", "all_touched", "nothing", "no_sharing",
         "evenly", "grown", "all_read"]
SAMPLED = {"hot", "false sharing"}  # what samples show: how many there are is the machine's

OF_PAGES = {"never touched", "not in blocks"}  # known where the kernel shows pages


def findings(folder, name):
    trace = os.path.join(folder, name + ".mst")
    whole.run([MEMSIGHT, "record", "-q", "-o", trace, "--", PROGRAM, name])
    rows = json.loads(whole.run([MEMSIGHT, "report", trace, "--findings", "--format", "json"]))
    return trace, rows


def check_planted(folder, name, rule, size, part):
    trace, rows = findings(folder, name)
    own = [row for row in rows if row["rule"] == rule]
    looks = json.loads(whole.run([MEMSIGHT, "report", trace, "--resident", "--format", "json"]))
    turns = whole.run([MEMSIGHT, "query", "--format", "json", trace,
                       "SELECT 1 FROM shared_line WHERE owner_kind = 1 AND n_apart >= 8"])
    is_seen = json.loads(turns) if rule in SAMPLED else looks or rule not in OF_PAGES
    if not own and not is_seen:
        print(f"not measurable here: {name}: neither turns on lines nor pages were seen: {rows}")
        return
    checks.that(own and part in own[0]["text"], f"{name}: {rows}")
    for row in own[:1]:
        checks.that(size is None or row["size"] == row["low"] == row["high"] == size,
                    f"{name}: size {row}")
        checks.that(row["low"] <= row["size"] <= row["high"], f"{name}: interval {row}")
        checks.that(row["threshold"] and row["next"].startswith("--"), f"{name}: {row}")
        screen = " ".join(whole.run([MEMSIGHT, "report", trace]).split())
        checks.that(" ".join(row["text"].split())[:60] in screen,
                    f"{name}: not on the first screen: {screen[:900]}")
        whole.run([MEMSIGHT, "report", trace, row["next"]])


def check_clean(folder, name):
    trace, rows = findings(folder, name)
    rows = [row for row in rows if row["rule"] != "hot"]
    checks.that(not rows, f"{name}: {rows}")
    text = whole.run([MEMSIGHT, "report", trace, "--findings"])
    checks.that(rows or "Nothing stands out" in text or "hot:" in text, f"{name}: {text}")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for name, (rule, size, part) in PLANTED.items():
            check_planted(folder, name, rule, size, part)
        for name in CLEAN:
            check_clean(folder, name)
    checks.end()


main()
