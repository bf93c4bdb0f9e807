#!/usr/bin/env python3
"""What an allocation costs a program that is attached to, beside one that was started recorded, and
beside heaptrack in both ways. Arguments: memsight, attach-event.

Printed per way: the median of the program's own lines, ns of CPU time an event."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

MEMSIGHT, PROGRAM = map(os.path.abspath, sys.argv[1:3])
LINES, BEFORE = 8, 3


def numbers(file, n=None):
    lines = [file.readline() for _ in range(n)] if n else list(file)
    return [float(line) for line in lines if line[:1].isdigit()]


def started(command):
    done = subprocess.run([*command, PROGRAM, str(LINES)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True)
    return numbers(done.stdout.splitlines(keepends=True))


def attached(command):
    """Lines from between the first one that is dearer by a half and the end of the attach."""
    with subprocess.Popen([PROGRAM, str(100 * LINES)], stdout=subprocess.PIPE,
                          text=True) as program:
        bare = max(numbers(program.stdout, BEFORE))
        tool = subprocess.Popen([*command, str(program.pid)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        found = []
        while len(found) < LINES and tool.poll() is None:
            found += [ns for ns in numbers(program.stdout, 1) if ns > 1.5 * bare]
        program.kill()
        tool.wait()
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        trace, other = os.path.join(folder, "a.mst"), os.path.join(folder, "h")
        record = [MEMSIGHT, "record", "-q", "-f", "-o", trace, "--source", "none"]
        attach = [MEMSIGHT, "attach", "-q", "-f", "-o", trace, "--source", "none"]
        ways = [("without", started, []), ("record", started, record),
                ("attach", attached, attach)]
        if shutil.which("heaptrack"):
            ways += [("heaptrack", started, ["heaptrack", "-o", other]),
                     ("heaptrack -p", attached, ["heaptrack", "-o", other, "-p"])]
        for name, measure, command in ways:
            found = measure(command)
            print(f"{name:14} {statistics.median(found):6.1f} ns an event, least {min(found):.1f}, "
                  f"of {len(found)} lines" if found else f"{name:14} not measured")


main()
