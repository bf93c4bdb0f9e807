#!/usr/bin/env python3
"""What recording costs work that is made of short processes, beside heaptrack and strace -f.

usage: bench-short.py MEMSIGHT [--rounds N] [--configure SOURCE-FOLDER] [--markdown]

Four kinds of work in a shell: a bare fork, /bin/true, what configure does most, $(echo | sed), and
half a configure: test -f, cat, sed, expr and cc on tiny files. --configure adds the real one of a
source folder (GNU hello: apt-get source hello). Every round runs each work plain and under each
tool in turn; printed is the median of the wall times, its ratio to the plain run of the same round,
and the same ratio of user and system time. The start and end of the tool itself are part of it. A
tool that is not installed is left out, and said.
"""
import argparse
import os
import shutil
import statistics
import sys
import tempfile

from measure import Failed, run

FORK = """i=0
while [ $i -lt 300 ]; do (:); i=$((i+1)); done
"""
TRUE = """i=0
while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done
"""
SUBSTITUTE = """i=0
while [ $i -lt 300 ]; do x=$(echo a$i | sed s/a/b/); i=$((i+1)); done
"""
CONFIGURE = """i=0
while [ $i -lt 40 ]; do
	test -f /nonexistent$i; x=$(echo "check $i" | sed 's/check/checked/'); n=$(expr $i + 1)
	printf 'int main(void) { return %d; }\\n' $i >c$i.c
	cat c$i.c >>all.log; grep -q main c$i.c; cc -c c$i.c -o c$i.o 2>>all.log; rm -f c$i.c c$i.o
	i=$((i+1))
done
"""


def works(args, folder):
    """Name and command of each work; its current folder is an empty one."""
    texts = {"fork": FORK, "true": TRUE, "$(echo | sed)": SUBSTITUTE, "like configure": CONFIGURE}
    for number, (name, text) in enumerate(texts.items()):
        path = os.path.join(folder, f"{number}.sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        yield name, ["sh", path]
    if args.configure:
        yield "configure", [os.path.join(os.path.abspath(args.configure), "configure"), "--quiet"]


def tools(args, folder):
    """Name and what stands before the command."""
    out = os.path.join(folder, "out")
    yield "plain", []
    yield "memsight", [args.memsight, "record", "-q", "-f", "-o", out + ".mst"]
    yield "memsight --no-alloc", [args.memsight, "record", "-q", "-f", "--no-alloc",
                                  "-o", out + ".mst"]
    if shutil.which("heaptrack"):
        yield "heaptrack", ["heaptrack", "-o", out]
    if shutil.which("strace"):
        yield "strace -f", ["strace", "-f", "-o", out]


def measure(args, folder, work):
    """Wall and CPU time of each tool, in rounds."""
    times = {name: [] for name, _ in tools(args, folder)}
    for _ in range(args.rounds):
        for name, before in tools(args, folder):
            with tempfile.TemporaryDirectory(dir=folder) as cwd:
                times[name].append(run(before + work, cwd=cwd)[:2])
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("memsight")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--configure")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    args.memsight = os.path.abspath(args.memsight)
    for name in ("heaptrack", "strace"):
        if not shutil.which(name):
            print(f"{name} is not installed", file=sys.stderr)
    form = "| {} | {} | {} | {} | {} |" if args.markdown else "{:16} {:20} {:>8} {:>6} {:>6}"
    print(form.format("work", "tool", "s", "ratio", "CPU"))
    if args.markdown:
        print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for title, command in works(args, folder):
            times = measure(args, folder, command)
            for name, mine in times.items():
                wall, cpu = (statistics.median(m[i] / p[i] for m, p in zip(mine, times["plain"]))
                             for i in (0, 1))
                seconds = statistics.median(m[0] for m in mine)
                print(form.format(title, name, f"{seconds:.2f}", f"{wall:.2f}", f"{cpu:.2f}"),
                      flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(str(failed))
