"""`memsight avail` and `memsight doctor` say what is so: each claim is tried."""
import os
import re
import subprocess
import sys
import tempfile

from whole import Checks, Outcome, environment

COLUMNS = re.compile(r"^  (\S+)\s+(no: )?(.*)$")


def listing(memsight, prefix=(), **more):
    """{section: {name: (is there, text)}}"""
    text = Outcome([*prefix, memsight, "avail"], **more).stdout.decode()
    sections, section = {}, None
    for line in text.splitlines():
        if line and not line.startswith(" "):
            section = sections.setdefault(line, {})
        elif COLUMNS.match(line):
            name, no, about = COLUMNS.match(line).groups()
            section[name] = (not no, about)
    return sections


def check_sources(checks, memsight, sections, folder):
    for name, (is_there, about) in sections["sources"].items():
        if name in ("watch", "signal", "spe"):
            continue  # need to be told what to watch, or are asked for by name
        outcome = Outcome([
            memsight, "record", "-f", "--strict", "-s", name, "-o",
            os.path.join(folder, "a.mst"), "--", "true"
        ])
        checks.that((outcome.status == 0) == is_there,
                    f"{name}: {is_there} {about}, but {outcome.messages}")
        checks.that(is_there or len(about) > 20, f"{name}: says why not: {about}")


def check_kinds(checks, memsight, sections, folder):
    for name, (is_there, about) in sections["heap kinds"].items():
        if name.startswith("pmem"):
            continue
        outcome = Outcome([memsight, "record", "-f", "-s", "none", "--heap", f"{name},64M", "-o",
                           os.path.join(folder, "a.mst"), "--", "true"])
        checks.that((outcome.status == 0) == is_there,
                    f"{name}: {is_there} {about}, but {outcome.messages}")


def check_counters(checks, memsight, sections, folder):
    trace = os.path.join(folder, "c.mst")
    names = list(sections["counters"])
    Outcome([
        memsight, "record", "-f", "-s", "none", "--counters", ",".join(names), "-o", trace, "--",
        "true"
    ])
    counted = Outcome([memsight, "query", "--format", "csv", trace,
                       "SELECT name FROM counter"]).stdout.decode().split()
    for name in names:
        checks.that((name in counted) == sections["counters"][name][0],
                    f"{name}: {sections['counters'][name]}")


def check_ids(checks, memsight, sections):
    ids = Outcome([memsight, "avail", "--ids"]).stdout.decode().splitlines()
    there = [name for section, items in sections.items()
             if not section.startswith(("settings", "config files"))
             for name, (is_there, _) in items.items() if is_there]
    checks.that(ids == there, f"{ids} and {there}")


def check_settings(checks, memsight):
    sections = listing(memsight, env=environment(MEMSIGHT_FREQ="500",
                                                 MEMSIGHT_OPTIONS="--stacks fp"))
    settings = next(items for section, items in sections.items() if section.startswith("settings"))
    checks.that(re.search(r"MEMSIGHT_FREQ\s+997\s+now 500 \(variable\)", settings["freq"][1]),
                settings["freq"])
    checks.that("now fp (MEMSIGHT_OPTIONS)" in settings["stacks"][1], settings["stacks"])
    checks.that("now" not in settings["buffer-size"][1], settings["buffer-size"])


def check_doctor(checks, memsight, no_perf):
    fine = Outcome([memsight, "doctor"])
    refused = Outcome([no_perf, memsight, "doctor"])
    text = refused.stdout.decode()
    print(fine.stdout.decode(), text)
    checks.that(
        re.search(r"^fine\s+allocations\s+recorded by \S+libtracealloc.so$", fine.stdout.decode(),
                  re.MULTILINE), "the library is found")
    checks.that(refused.status == 1 and re.search(r"^MISSING\s+clock ", text, re.MULTILINE), text)
    checks.that(re.search(r"^MISSING\s+clock .*\n\s+-> \S", text, re.MULTILINE),
                "what would give it is said")
    problems = Outcome([memsight, "doctor", "--problems"]).stdout.decode()
    checks.that("fine " not in problems, problems)
    sections = listing(memsight, [no_perf])
    checks.that(not sections["sources"]["clock"][0] and not sections["counters"]["page-faults"][0],
                f"{sections}")


def main():
    memsight, no_perf = map(os.path.abspath, sys.argv[1:])
    checks = Checks()
    sections = listing(memsight)
    with tempfile.TemporaryDirectory(prefix="memsight-avail-") as folder:
        check_sources(checks, memsight, sections, folder)
        check_kinds(checks, memsight, sections, folder)
        check_counters(checks, memsight, sections, folder)
    check_ids(checks, memsight, sections)
    check_settings(checks, memsight)
    check_doctor(checks, memsight, no_perf)
    nodes = subprocess.run(["cat", "/sys/devices/system/node/online"], stdout=subprocess.PIPE,
                           text=True, check=False)
    checks.that(
        "," in nodes.stdout or "-" in nodes.stdout
        or list(sections["nodes"]) == [nodes.stdout.strip()], f"{sections['nodes']}")
    checks.end()


main()
