#!/usr/bin/env python3
"""Planted waste is found, with its size and place, and programs without it have no findings.
Arguments: memsight, victim-findings, the part: counted, sampled or pages."""
import json
import os
import sys
import tempfile

import json_schema
import whole

MEMSIGHT, PROGRAM, PART = sys.argv[1:4]
checks = whole.Checks()

# What is planted: the rule, its size where it is known exactly, and a part of its sentence.
COUNTED = {
    "leak": ("leak", 500 * 5000, "500 blocks of make_blocks"),
    "large_leak": ("leak", 20 * 1000000, "20 blocks of make_blocks"),
    "leak_by_paths": ("leak", 5 * 100 * 5000, "(5 call paths) were never freed"),
    "leak_text": ("leak", 300 * 9000, "300 blocks of leak_text victim-findings.c"),
    "leak_zeros": ("leak", 300 * 7000, "300 blocks of leak_zeros victim-findings.c"),
    "leak_in_thread": ("leak", 300 * 7000, "300 blocks of leak_here victim-findings.c"),
    "leak_grown": ("leak", 200 * 9000, "200 blocks of leak_grown victim-findings.c"),
    "leak_aligned": ("leak", 200 * 128 * 64, "200 blocks of leak_aligned victim-findings.c"),
    "half_leak": ("leak", 300 * 7000, "300 blocks of leak_here victim-findings.c"),
    "growth": ("growth", 1500 * 2000, "1,500 blocks of serve victim-findings.c"),
    "growth_in_thread": ("growth", 1200 * 5000, "< growth_of victim-findings.c"),
    "temporary": ("temporary", 60000, "blocks of temporary victim-findings.c"),
    "temporary_text": ("temporary", 40000, "blocks of temporary_text victim-findings.c"),
    "temporary_zeros": ("temporary", 40000, "blocks of temporary_zeros victim-findings.c"),
    "realloc_text": ("realloc", 29999, "30,000 blocks of grow_slowly victim-findings.c"),
    "realloc_list": ("realloc", 29999, "< realloc_list victim-findings.c"),
    "tiny": ("tiny blocks", 200000, "24 bytes on average"),
    "tiny_list": ("tiny blocks", 300000, "16 bytes on average"),
}
SAMPLED = {
    "hot": ("hot", None, "of the CPU time is at 64.0 KiB of hot victim-findings.c"),
    "hot_tree": ("hot", None, "of hot_tree victim-findings.c"),
    "cold": ("cold", 24 << 20, "of the CPU time: no access was seen after "),
    "cold_zeros": ("cold", 40 << 20, "40.0 MiB of cold_zeros victim-findings.c"),
    "false_sharing": ("false sharing", None, "of false_sharing victim-findings.c"),
    "shared_fields": ("false sharing", None, "of shared_fields victim-findings.c"),
    "shared_counters": ("false sharing", None, "of counters that two threads"),
}
PAGES = {
    "untouched": ("never touched", None, "of 40.0 MiB of untouched victim-findings.c"),
    "untouched_zeros": ("never touched", None, "of 30.0 MiB of untouched_zeros"),
    "untouched_tables": ("never touched", None, "of 40.0 MiB of untouched_tables"),
    "faults": ("page faults", None, "of fault_again victim-findings.c"),
    "faults_of_trim": ("page faults", None, "which hold 8.00 MiB at most"),
    "fragments": ("fragmentation", None, "free in the allocator"),
    "fragments_of_rounds": ("fragmentation", None, "free in the allocator"),
    "own_mappings": ("own mappings", None, "40.0 MiB of "),
    "own_pool": ("own mappings", None, "30.0 MiB of "),
}
# Programs without waste: what each does well stands beside one that does not.
CLEAN = {
    "counted": ["no_leak", "few_kept", "served", "one_buffer", "grown", "larger", "nothing"],
    "sampled": ["no_sharing", "evenly"],
    "pages": ["all_touched", "all_read"],
}
# Whether what a rule reads was recorded here: turns on a line are the machine's, and so are pages.
MEASURED = {
    "hot": "SELECT 1 FROM source WHERE measures = 'time' AND n_samples >= 100",
    "cold": "SELECT 1 FROM source WHERE measures = 'time' AND n_samples >= 300",
    "false sharing": "SELECT 1 FROM shared_line WHERE n_apart >= 8",
    "page faults": "SELECT 1 FROM source WHERE measures = 'fault' AND n_samples > 0",
    "never touched": "SELECT 1 FROM page_part",
    "fragmentation": "SELECT 1 FROM page_part",
    "own mappings": "SELECT 1 FROM page_part",
}


def findings(folder, name):
    trace = os.path.join(folder, name + ".mst")
    done = whole.Outcome([MEMSIGHT, "record", "-q", "-o", trace, "--", PROGRAM, name])
    is_killed = name in ("growth", "growth_in_thread", "served")
    checks.that(done.status in ((143, -15) if is_killed else (0,)), f"{name}: {done.status}")
    rows = json.loads(whole.run([MEMSIGHT, "report", trace, "--findings", "--format", "json"]))
    json_schema.check(checks, rows, "findings")
    return trace, rows


def is_measured(trace, rule):
    sql = MEASURED.get(rule)
    return not sql or json.loads(whole.run([MEMSIGHT, "query", "--format", "json", trace, sql]))


def check_numbers(name, row, size):
    checks.that(size is None or row["size"] == row["low"] == row["high"] == size,
                f"{name}: size {row}")
    checks.that(row["low"] <= row["size"] <= row["high"] <= row["whole"], f"{name}: {row}")
    checks.that(abs(row["weight"] - row["low"] / row["whole"]) < 1e-4, f"{name}: {row}")
    checks.that(row["threshold"] and row["next"].startswith("--") and row["whole_is"],
                f"{name}: {row}")


def check_table(name, trace, rows):
    """The table has the same findings, in the same order; a sentence has one place for a name."""
    stored = json.loads(whole.run([
        MEMSIGHT, "query", "--format", "json", trace,
        "SELECT number, rule, text, size, owner_kind FROM finding ORDER BY number"
    ]))
    checks.that([(row["rule"], row["size"]) for row in stored] ==
                [(row["rule"], row["size"]) for row in rows], f"{name}: {stored} {rows}")
    checks.that([row["number"] for row in stored] == list(range(1, len(rows) + 1)), f"{stored}")
    for row in stored:
        checks.that(row["text"].count("{}") == (row["owner_kind"] != 0), f"{name}: {row}")


def check_planted(folder, name, planted, is_first):
    rule, size, part = planted
    trace, rows = findings(folder, name)
    own = [row for row in rows if row["rule"] == rule]
    if not own and not is_measured(trace, rule):
        print(f"not measurable here: {name}: {rows}")
        return
    checks.that(own and part in own[0]["text"], f"{name}: {rows}")
    if not own:
        return
    check_numbers(name, own[0], size)
    if is_first:
        check_table(name, trace, rows)
        screen = " ".join(whole.run([MEMSIGHT, "report", trace]).split())
        checks.that(" ".join(own[0]["text"].split())[:60] in screen,
                    f"{name}: not on the first screen: {screen[:900]}")
        whole.run([MEMSIGHT, "report", trace, own[0]["next"]])


def check_clean(folder, name):
    trace, rows = findings(folder, name)
    rows = [row for row in rows if row["rule"] != "hot"]
    checks.that(not rows, f"{name}: {rows}")
    text = whole.run([MEMSIGHT, "report", trace, "--findings"])
    checks.that(rows or "Nothing stands out" in text or "hot:" in text, f"{name}: {text}")


def main():
    planted = {"counted": COUNTED, "sampled": SAMPLED, "pages": PAGES}[PART]
    seen = set()
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for name, what in planted.items():
            check_planted(folder, name, what, what[0] not in seen)
            seen.add(what[0])
        for name in CLEAN[PART]:
            check_clean(folder, name)
    checks.end()


main()
