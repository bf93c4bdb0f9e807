#!/usr/bin/env python3
"""attach of programs in bubblewrap containers: of root from outside, and of anyone inside.

The container has a root of its own that cannot be written, without any file of memsight, and
namespaces of its own: of mounts, PIDs, users, network and System V objects.

usage: containers.py MEMSIGHT VICTIM
"""
import os
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:])
checks = whole.Checks()
N_MARKED, N_OLD, MARK_BYTES, OLD_BYTES = 1000, 100, 4321, 777
ROOT = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
        "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--dir", "/own",
        "--ro-bind", VICTIM, "/own/victim"]


def wrap(*command, places=()):
    return ["bwrap", *ROOT, *places, "--remount-ro", "/", "--unshare-all", "--die-with-parent",
            "--new-session", *command]


def find_victim():
    """The PID that has it, as we see it; of its own namespace it is another."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") != "/own/victim":
                continue
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                spaces = [line.split()[1:] for line in file if line.startswith("NSpid:")][0]
        except OSError:
            continue
        if spaces[0] == pid and len(spaces) == 2:
            return pid, spaces[1]
    return None, None


def analyzed(path):
    whole.run([MEMSIGHT, "analyze", "-f", path])
    return whole.Database(path + ".db")


def check_blocks(database):
    old = database.one(
        "SELECT count(*) FROM allocation JOIN call ON call.id = call WHERE call.name = 'before the"
        " attach' AND freed_ns IS NOT NULL AND size BETWEEN ? AND ?", OLD_BYTES, OLD_BYTES + 23)
    marked = database.one("SELECT count(*) FROM allocation WHERE size = ?", MARK_BYTES)
    checks.that(marked == N_MARKED, f"{marked} of {N_MARKED} blocks")
    checks.that(old >= N_OLD, f"{old} of {N_OLD} from before; {database.losses()}")


def check_outside(folder):
    """No file of ours can be seen in there: the library comes by memory, and is known as ours."""
    victim = subprocess.Popen(wrap("/own/victim"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)

    def ask(word):
        victim.stdin.write(word + "\n")
        victim.stdin.flush()
        return victim.stdout.readline().strip()

    checks.that(victim.stdout.readline().strip() == "ready", "the victim began")
    checks.that(ask("calm") == "calm", "it rests")
    pid, inside = find_victim()
    checks.that(pid is not None and pid != inside, f"PIDs {pid} outside, {inside} inside")
    path = os.path.join(folder, "outside.mst")
    attached = subprocess.Popen([MEMSIGHT, "attach", pid, "-f", "-o", path], text=True,
                                stderr=subprocess.PIPE, env=whole.environment())
    first = attached.stderr.readline()
    checks.that("recording" in first, first)
    checks.that(ask("mark") == "marked" and ask("old") == "given back", "no blocks")
    left = subprocess.run([MEMSIGHT, "detach", pid], capture_output=True, text=True, check=False)
    checks.that(left.returncode == 0, left.stderr)
    _, rest = attached.communicate(timeout=60)
    checks.that(attached.returncode == 0, f"{attached.returncode}: {rest}")
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        checks.that("memfd:memsight" not in file.read(), "shared memory is left")
    end, _ = victim.communicate("end\n", timeout=60)
    checks.that(end.strip() == "0 wrong", f"the program was disturbed: {end}")
    database = analyzed(path)
    check_blocks(database)
    paths = [row[0] for row in database.ask("SELECT DISTINCT path FROM module")]
    checks.that(not [path for path in paths if path.startswith("/proc/")], f"{paths}")
    checks.that(any("libtracealloc.so" in path for path in paths), f"{paths}")


INSIDE = """
mkfifo /tmp/words
/own/victim < /tmp/words > /tmp/said & victim=$!
exec 3> /tmp/words
wait_for() { until grep -q "$1" "$2"; do kill -0 $victim || exit 9; sleep 0.02; done; }
wait_for ready /tmp/said
"$1" attach $victim -f -o "$2" 2> /tmp/line & attached=$!
until grep -q recording /tmp/line; do kill -0 $attached || { cat /tmp/line >&2; exit 8; }
    sleep 0.02; done
echo mark >&3
wait_for marked /tmp/said
echo old >&3
wait_for given /tmp/said
"$1" detach $victim || exit 7
wait $attached || { cat /tmp/line >&2; exit 6; }
echo end >&3
wait $victim
grep -q '^0 wrong' /tmp/said
"""


def check_inside(folder):
    """All of it in the container, as whoever we are outside."""
    build = os.path.dirname(os.path.abspath(MEMSIGHT))
    path = os.path.join(folder, "inside.mst")
    done = subprocess.run(
        wrap("sh", "-c", INSIDE, "sh", MEMSIGHT, path,
             places=("--tmpfs", "/tmp", "--ro-bind", build, build, "--bind", folder, folder)),
        capture_output=True, text=True, check=False, timeout=120)
    checks.that(done.returncode == 0, f"inside: {done.returncode}, {done.stderr}")
    if done.returncode == 0:
        check_blocks(analyzed(path))


def main():
    try:
        probe = subprocess.run(wrap("true"), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        whole.skip("no bwrap (package bubblewrap)")
    if probe.returncode:
        whole.skip(f"bwrap makes no container here: {probe.stderr.strip()}")
    with tempfile.TemporaryDirectory() as folder:
        if os.getuid() == 0:
            check_outside(folder)
        check_inside(folder)
    checks.end()


main()
