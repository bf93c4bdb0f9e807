#!/usr/bin/env python3
"""All functions of real programs are entered: what they do is as without us, and at least 97 % of
the functions can be entered. Arguments: memsight, how often each is run, then names of programs to
leave it at those; prints a line for each."""
import json
import os
import subprocess
import sys
import tempfile

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
RUNS = int(sys.argv[2])
checks = whole.Checks()

SQL = ("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
       " SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO t SELECT i, printf('%x', i * 7919) FROM n;"
       " CREATE INDEX b ON t(b); SELECT count(*), max(b) FROM t WHERE b LIKE '%a%';"
       " SELECT a, b FROM t ORDER BY b LIMIT 20;")
PYTHON = ("import json, re, decimal\nfrom collections import Counter\n"
          "found = Counter(re.findall('[a-z]', 'the quick brown fox' * 50))\n"
          "print(json.dumps(sorted(found.items())))\n"
          "print(sum(decimal.Decimal(i) / 7 for i in range(200)))")
CMAKE = """set(all "")
foreach(i RANGE 200)
  math(EXPR n "${i} * ${i} % 97")
  string(REGEX REPLACE "[13579]" "o" text "number ${n}")
  list(APPEND all "${text}")
endforeach()
list(SORT all)
string(SHA256 sum "${all}")
string(JSON name GET [[{"a": {"b": "c"}}]] a b)
message("${sum} ${name}")
"""
REDIS = "".join(f"SET key{i} {i}\nLPUSH list {i}\nHSET hash f{i} {i}\n" for i in range(100)) + """
SORT list LIMIT 0 20 DESC
HLEN hash
GET key99
EVAL "return redis.call('GET', 'key7')" 0
SHUTDOWN NOSAVE
"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def make_repository(folder):
    path = os.path.join(folder, "repository")
    os.mkdir(path)
    env = whole.environment(GIT_AUTHOR_DATE="1700000000 +0000", GIT_CONFIG_GLOBAL="/dev/null",
                            GIT_COMMITTER_DATE="1700000000 +0000", HOME=folder)
    git = ["git", "-C", path, "-c", "user.name=a", "-c", "user.email=a@b"]
    whole.run([*git, "init", "-q"], env=env)
    for i in range(10):
        write(path, f"file{i % 3}", "".join(f"{n * i}\n" for n in range(200)))
        whole.run([*git, "add", "."], env=env)
        whole.run([*git, "commit", "-q", "-m", f"commit {i}"], env=env)
    return path


def run_redis(prefix, folder):
    """What the client is answered, and how the server ends."""
    socket = os.path.join(folder, "redis")
    server = subprocess.Popen([*prefix, "redis-server", "--port", "0", "--unixsocket", socket,
                               "--save", "", "--dir", folder], env=whole.environment(),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(3000):
        if os.path.exists(socket) or server.poll() is not None:
            break
        try:
            server.wait(0.01)
        except subprocess.TimeoutExpired:
            pass
    answers = subprocess.run(["redis-cli", "-s", socket], input=REDIS, capture_output=True,
                             text=True, check=False).stdout
    return server.wait(60), answers


def run_plain(command):
    def run(prefix, _):
        outcome = whole.Outcome([*prefix, *command])
        return outcome.status, outcome.stdout, outcome.stderr
    return run


def share_of(command):
    """How many functions there are, and can be entered."""
    rows = json.loads(whole.run([MEMSIGHT, "record", "--functions-dry-run", "--function-include",
                                 ".", "--format", "json", "--", *command]))
    return len(rows), sum(row["how"] is not None for row in rows)


def check(name, program, run, folder):
    n, n_entered = share_of([program])
    prefix = [MEMSIGHT, "record", "-q", "-f", "-o", os.path.join(folder, "all.mst"), "--source",
              "none", "--trips-only", "--function-include", ".", "--"]
    timed = [option for option in prefix if option != "--trips-only"]
    plain, n_bad = run([], folder), 0
    for i in range(RUNS):
        # Every call of everything with its time takes long: one run in ten.
        if run(timed if i % 10 == 0 else prefix, folder) != plain:
            n_bad += 1
    print(f"{name}: {n_entered} of {n} functions, {n_entered / n:.2%}; {RUNS} runs, {n_bad} of them"
          " other than without memsight")
    checks.that(n_bad == 0, f"{name}: {n_bad} of {RUNS} runs differ")
    checks.that(n_entered >= 0.97 * n, f"{name}: {n_entered} of {n} functions can be entered")


def main():
    wanted = sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        script = write(folder, "script.cmake", CMAKE)
        programs = {
            "sqlite3": run_plain(["sqlite3", ":memory:", SQL]),
            "python3": run_plain(["/usr/bin/python3", "-S", "-c", PYTHON]),
            "cmake": run_plain(["cmake", "-P", script]),
            "git": None,
            "redis-server": run_redis,
        }
        for name, run in programs.items():
            found = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True,
                                   text=True, check=False).stdout.strip()
            if name == "python3":
                found = "/usr/bin/python3"
            if not os.path.exists(found) or (wanted and name not in wanted):
                continue
            if name == "git":
                run = run_plain(["git", "-C", make_repository(folder), "log", "-p", "--stat"])
            check(name, found, run, folder)
    checks.end()


if __name__ == "__main__":
    main()
