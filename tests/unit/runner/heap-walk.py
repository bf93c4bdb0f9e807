"""The walk over glibc's heap from outside, against a program that knows what lives in its own, and
over programs of others, whose heaps must be whole."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

VICTIM, WALK = sys.argv[1:3]

# What is done before it stops, environment, and arenas at least.
HEAPS = [
    ("plain", {}, 1),
    ("plain fast", {}, 1),
    ("plain threads ended", {}, 5),
    ("threads mapped aligned fast", {}, 5),
    ("threads mapped aligned", {"MALLOC_ARENA_MAX": "2"}, 2),
    ("foreign", {}, 1),
    ("plain foreign fast", {}, 1),
    ("blocked", {}, 1),
    ("plain blocked threads mapped", {}, 5),
    ("plain threads", {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}, 5),
    ("plain threads mapped", {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=100"}, 5),
    ("plain threads mapped", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4096"}, 5),
    ("plain", {"GLIBC_TUNABLES": "glibc.malloc.mxfast=0"}, 1),
    ("threads", {"MALLOC_PERTURB_": "165"}, 5),
    ("", {}, 1),
]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def walk(pid, folder):
    """Counts, and sizes of blocks by their address."""
    path = folder / "walked"
    done = subprocess.run([WALK, str(pid), path], capture_output=True, text=True)
    if done.returncode == 77:
        skip(done.stdout.strip())
    assert done.returncode == 0, (done.stdout, done.stderr)
    counts = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    return counts, read(path)


def read(path):
    lines = path.read_text().splitlines()
    return {int(at, 16): int(size, 16) for at, size in map(str.split, lines)}


def check_heap(steps, extra, n_arenas, folder):
    path = folder / "truth"
    victim = subprocess.Popen([VICTIM, path, *steps.split()], env={**os.environ, **extra})
    try:
        _, status = os.waitpid(victim.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{steps}: the victim ended with {status}"
        counts, blocks = walk(victim.pid, folder)
    finally:
        victim.kill()
        victim.wait()
    truth = read(path)
    missed, wrong = truth.keys() - blocks.keys(), blocks.keys() - truth.keys()
    print(f"{steps or 'nothing'} {extra}: {len(truth)} live, {len(missed)} missed, "
          f"{len(wrong)} wrong, {counts}")
    assert not missed and not wrong, ([f"{at:x} {truth[at]:x}" for at in sorted(missed)[:9]],
                                      [f"{at:x} {blocks[at]:x}" for at in sorted(wrong)[:9]])
    assert truth == blocks, "sizes differ"
    assert counts["refused"] == "0" and counts["missing"] == "0" and not counts["why"].strip()
    assert int(counts["arenas"]) >= n_arenas, counts


def check_program(command, folder):
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "ready\n", command
        program.send_signal(signal.SIGSTOP)
        os.waitpid(program.pid, os.WUNTRACED)
        counts, blocks = walk(program.pid, folder)
    finally:
        program.kill()
        program.communicate()
    print(command[0], counts)
    assert counts["refused"] == "0" and counts["missing"] == "0" and not counts["why"].strip()
    assert len(blocks) > 50, counts


PROGRAMS = [
    [sys.executable, "-c", "import json, decimal, threading, time\n"
     "x = [dict(a=str(i)) for i in range(100000)]; b = [bytes(300000) for _ in range(50)]\n"
     "t = [threading.Thread(target=time.sleep, args=(99,), daemon=True) for _ in range(5)]\n"
     "[i.start() for i in t]; print('ready', flush=True); input()"],
    ["perl", "-e", "my %h = map { $_ => \"x\" x ($_ % 900) } 1..50000; $| = 1; "
     "print \"ready\\n\"; <STDIN>"],
    ["bash", "-c", "for i in {1..5000}; do a[$i]=$i$i; done; unset a[7]; echo ready; read x"],
]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for heap in HEAPS:
            check_heap(*heap, folder)
        for command in PROGRAMS:
            check_program(command, folder)


main()
