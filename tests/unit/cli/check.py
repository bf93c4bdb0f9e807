#!/usr/bin/env python3
"""`memsight check`: what is kept, exceeded or not known, in every form, with its exit status.
Arguments: memsight, a program that leaks and dies as its arguments say, the wrapper for tests, a
static program without malloc, of which nothing is traced."""
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import json_schema
import whole

MEMSIGHT, PROGRAM, WRAPPER, BARE = map(os.path.abspath, sys.argv[1:5])
BLOCK = 1000  # bytes of each block that the program leaks
checks = whole.Checks()


def record(folder, name, *arguments, status=0):
    path = os.path.join(folder, name + ".mst")
    done = subprocess.run([MEMSIGHT, "record", "-q", "--source", "none", "-o", path, "--",
                           *arguments], env=whole.environment(), check=False)
    checks.that(done.returncode == status, f"{arguments} ended with {done.returncode}")
    return path


def check(*arguments):
    done = subprocess.run([MEMSIGHT, "check", *arguments], capture_output=True, text=True,
                          env=whole.environment(), check=False)
    return done.returncode, done.stdout, done.stderr


def verdicts(*arguments):
    """{(rule, against): result} and the exit status."""
    status, text, _ = check(*arguments, "--format", "json")
    answer = json.loads(text)
    json_schema.check(checks, answer, "check")
    worst = {entry["verdict"] for entry in answer["checks"]}
    checks.that(answer["verdict"] == ("exceeded" if "exceeded" in worst else
                                      "not known" if "not known" in worst else "kept"),
                f"the verdict of {worst}")
    checks.that(status == (worst != {"kept"}), f"{arguments}: {worst} ends with {status}")
    return {(entry["rule"], entry["against"]): entry for entry in answer["checks"]}


def check_limits(clean, leaking):
    kept = verdicts(clean, "--max-leaked", "0", "--max-peak", "1M", "--max-allocations", "1000",
                    "--max-rss", "1G")
    checks.that([rule for rule, _ in kept] == ["peak", "leaked", "rss", "allocations"], kept)
    checks.that({entry["verdict"] for entry in kept.values()} == {"kept"}, f"clean: {kept}")
    checks.that(kept["leaked", "limit"]["value"] == 0, "a clean program leaks")
    checks.that(kept["rss", "limit"]["value"] > 1 << 20, "no resident memory")

    found = verdicts(leaking, "--max-leaked", str(7 * BLOCK - 1))["leaked", "limit"]
    checks.that((found["verdict"], found["value"]) == ("exceeded", 7 * BLOCK), found)
    place = found["places"][0]
    checks.that(place["value"] == 7 * BLOCK and "leak" in place["text"], place)
    source = os.path.splitext(os.path.basename(place["file"] or ""))[0]
    checks.that(source == "victim-leaks" and place["line"] > 0, f"{place} has no line of its own")
    exact = verdicts(leaking, "--max-leaked", str(7 * BLOCK))["leaked", "limit"]
    checks.that(exact["verdict"] == "kept", "what is at its limit is kept")
    names = os.path.join(os.path.dirname(clean), "known.txt")
    with open(names, "w", encoding="utf-8") as file:
        file.write("leak:leak_one\n")
    known = verdicts(leaking, "--max-leaked", "0", "--suppressions", names)["leaked", "limit"]
    checks.that((known["verdict"], known["value"]) == ("kept", 0), known)
    status, text, _ = check(leaking, "--max-leaked", "0", "--max-peak", "1M")
    checks.that(status == 1 and "1 of 2 limits kept, 1 exceeded" in text, text)


def check_other_run(clean, leaking, more):
    grown = verdicts(leaking, "--against", clean)
    checks.that(("rss", "runs") not in grown, "resident memory of single runs is compared")
    leaked = grown["leaked", "runs"]
    checks.that((leaked["verdict"], leaked["before"], leaked["value"]) ==
                ("exceeded", 0, 7 * BLOCK), leaked)
    checks.that(leaked["places"][0]["value"] == 7 * BLOCK, leaked)
    back = verdicts(clean, "--against", leaking)
    checks.that({entry["verdict"] for entry in back.values()} == {"kept"}, "less is no change")
    for tolerance, verdict in [("14.2%", "exceeded"), ("14.3 %", "kept"), ("15", "kept")]:
        entry = verdicts(more, "--against", leaking, "--tolerance", tolerance)["leaked", "runs"]
        checks.that(entry["verdict"] == verdict, f"8 for 7 with {tolerance}: {entry}")


def check_repetitions(folder, clean, leaking, more):
    """Each run keeps a limit, and an interval that reaches the tolerance is no change."""
    path = os.path.join(folder, "all.db")
    whole.run([MEMSIGHT, "analyze", "-o", path, clean, leaking, more])
    program = path + ":" + os.path.basename(PROGRAM)
    worst = verdicts(program, "--max-leaked", str(7 * BLOCK))["leaked", "limit"]
    checks.that((worst["verdict"], worst["value"]) == ("exceeded", 8 * BLOCK), worst)
    pair = os.path.join(folder, "pair.db")
    whole.run([MEMSIGHT, "analyze", "-o", pair, clean, leaking])
    noisy = verdicts(program, "--against", pair + ":" + os.path.basename(PROGRAM))
    leaked = noisy["leaked", "runs"]
    checks.that(leaked["value"] == 5 * BLOCK and leaked["before"] == 3.5 * BLOCK, leaked)
    checks.that(leaked["half"] > 1.5 * BLOCK and leaked["verdict"] == "kept", leaked)
    checks.that(("rss", "runs") in noisy, "repetitions of resident memory are compared")


def check_unknown(folder, killed):
    leaked = verdicts(killed, "--max-leaked", "1G")["leaked", "limit"]
    checks.that(leaked["verdict"] == "not known" and "signal 9" in leaked["why_not_known"], leaked)
    bare = os.path.join(folder, "bare.mst")
    whole.run([MEMSIGHT, "record", "-q", "--no-alloc", "-o", bare, "--", PROGRAM, "7"])
    peak = verdicts(bare, "--max-peak", "1G", "--max-rss", "1G")
    checks.that(peak["peak", "limit"]["verdict"] == "not known" and
                peak["rss", "limit"]["verdict"] == "kept", peak)
    lossy = record(folder, "lossy", BARE)
    for options, verdict in [([], "not known"), (["--allow-losses"], "not known")]:
        entry = verdicts(lossy, "--max-peak", "1G", *options)["peak", "limit"]
        checks.that(entry["verdict"] == verdict, f"nothing was traced: {entry}")
    cut = os.path.join(folder, "cut.mst")
    whole.run([MEMSIGHT, "record", "-q", "--source", "none", "--max-size", "64K", "-o", cut, "--",
               "/usr/bin/python3", "-c", "x = [str(i) * 99 for i in range(99999)]"])
    commands = [["sh", "-c", f"{BARE}; true"], ["env", BARE]]
    for number, command in enumerate(commands):
        part = record(folder, f"part{number}", *command)
        for options, verdict in [([], "not known"), (["--allow-losses"], "kept")]:
            entry = verdicts(part, "--max-peak", "1G", *options)["peak", "limit"]
            checks.that(entry["verdict"] == verdict, f"a part was traced, {options}: {entry}")
    for rule, options, verdict in [("peak", [], "not known"), ("leaked", [], "not known"),
                                   ("allocations", [], "exceeded"),
                                   ("peak", ["--allow-losses"], "exceeded")]:
        entry = verdicts(cut, f"--max-{rule}", "0", *options)[rule, "limit"]
        checks.that(entry["verdict"] == verdict, f"events were lost, {rule} {options}: {entry}")
    above = verdicts(part, "--max-allocations", "0")["allocations", "limit"]
    checks.that(above["verdict"] == "exceeded", "more is more, whatever was lost")


def check_forms(folder, leaking):
    path = os.path.join(folder, "report.xml")
    limits = ["--max-leaked", "0", "--max-peak", "1M"]
    status, text, _ = check(leaking, *limits, "--format", "junit", "-o", path)
    suite = xml.etree.ElementTree.parse(path).getroot()
    checks.that(status == 1 and "exceeded" in text, "text beside a file")
    checks.that((suite.get("tests"), suite.get("failures")) == ("2", "1"), suite.attrib)
    failures = suite.findall("testcase/failure")
    checks.that(len(failures) == 1 and "leak_one" in failures[0].text, "the failure has its stack")
    checks.that(check(leaking, *limits, "--format", "junit", "-o", path)[0] == 1 and
                "--force" in check(leaking, *limits, "-o", path)[2], "a file is overwritten")
    _, text, _ = check(leaking, *limits, "--format", "github")
    lines = text.splitlines()
    checks.that(len(lines) == 1 and lines[0].startswith("::error file=") and ",line=" in lines[0]
                and "%0A" in lines[0], text)
    file = lines[0].split("file=")[1].split(",")[0]
    checks.that("/.." not in file and os.path.exists(file), f"a detour in a file's name: {file}")
    checks.that(check(leaking, "--max-leaked", "1M", "--format", "github")[:2] == (0, ""),
                "annotations of what is kept")


def check_usage(leaking):
    for arguments, words in [([], "no limit"), (["--against", leaking, "--tolerance", "x%"], "x%"),
                             (["--against", leaking, "--tolerance", "-1"], "-1"),
                             (["--max-peak", "much"], "much")]:
        status, _, error = check(leaking, *arguments)
        checks.that(status == 2 and words in error and error.count("\n") == 1, error)


def check_width(folder, killed):
    """No line of text is wider than the terminal, or than 100 columns where there is none."""
    deep = os.path.join(folder, "a-folder-with-a-name-of-forty-characters" * 3)
    os.makedirs(deep)
    trace = os.path.join(deep, "run.mst")
    os.link(killed, trace)
    for columns in [80, 133, None]:
        env = whole.environment(**({"COLUMNS": str(columns)} if columns else {}))
        if not columns:
            env.pop("COLUMNS", None)
        text = subprocess.run([MEMSIGHT, "check", trace, "--max-leaked", "0", "--max-peak", "1"],
                              capture_output=True, text=True, env=env, check=False).stdout
        widest = max(map(len, text.splitlines()))
        checks.that(widest <= (columns or 100) and "signal 9" in text, f"{columns}: {text}")


def check_wrapper():
    binaries = os.path.dirname(MEMSIGHT)
    environment = whole.environment(PATH=binaries + ":" + os.environ["PATH"])
    for argument, status in [("0", 0), ("7", 1), ("exit", 3)]:
        done = subprocess.run([WRAPPER, PROGRAM, argument], capture_output=True, text=True,
                              env=environment, check=False)
        checks.that(done.returncode == status, f"{argument}: {done.returncode} {done.stderr}")
        checks.that(done.stdout == "done\n", f"the test's own output: {done.stdout}")
    with tempfile.TemporaryDirectory(prefix="memsight-check-") as folder:
        for _ in range(2):
            subprocess.run([WRAPPER, PROGRAM, "7"], capture_output=True, check=False,
                           env={**environment, "MEMSIGHT_TRACES": folder})
        kept = [name for name in os.listdir(folder) if name.endswith(".mst")]
        checks.that(len(kept) == 2 and all(name.startswith(os.path.basename(PROGRAM) + ".")
                                           for name in kept), f"MEMSIGHT_TRACES has {kept}")


def check_examples():
    """The commands of the examples for servers, as those run them: a clean test passes, a leaking
    one fails."""
    environment = whole.environment(PATH=os.path.dirname(MEMSIGHT) + ":" + os.environ["PATH"])
    for example in sorted(os.listdir(os.path.dirname(WRAPPER))):
        if not example.endswith(".yml"):
            continue
        with open(os.path.join(os.path.dirname(WRAPPER), example), encoding="utf-8") as file:
            lines = [line.strip().removeprefix("- ") for line in file]
        commands = [line for line in lines if re.match("(if .*; then )?memsight ", line)]
        checks.that(len(commands) >= 2, f"{example}: {commands}")
        for argument, status in [("0", 0), ("7", 1)]:
            with tempfile.TemporaryDirectory(prefix="memsight-check-") as folder:
                script = "\n".join(commands).replace("./test", f"'{PROGRAM}' {argument}")
                whole.run([MEMSIGHT, "record", "-q", "-o", "base.mst", "--", PROGRAM, argument],
                          cwd=folder)
                done = subprocess.run(["sh", "-e", "-c", script], cwd=folder, env=environment,
                                      capture_output=True, text=True, check=False)
                checks.that(done.returncode == status,
                            f"{example} {argument}: {done.returncode} {done.stdout}{done.stderr}")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-check-") as folder:
        clean, leaking, more = (record(folder, f"run{n}", PROGRAM, str(n)) for n in (0, 7, 8))
        check_limits(clean, leaking)
        check_other_run(clean, leaking, more)
        check_repetitions(folder, clean, leaking, more)
        check_unknown(folder, record(folder, "killed", PROGRAM, "kill", status=128 + 9))
        check_forms(folder, leaking)
        check_width(folder, os.path.join(folder, "killed.mst"))
        check_usage(leaking)
    check_wrapper()
    check_examples()
    checks.end()


main()
