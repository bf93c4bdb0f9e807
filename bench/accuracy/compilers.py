#!/usr/bin/env python3
"""Kernels as several compilers make them, single-stepped: what steps.py wants of real programs.
Arguments: the stepper, kernels.cc, a compiler for C++ [...]."""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

from steps import misses_of, say, step
from whole import skip

WAYS = [["-O0"], ["-O1"], ["-O2"], ["-O3"], ["-Os"], ["-O2", "-march=x86-64-v3"],
        ["-O2", "-fno-omit-frame-pointer"]]
STRETCHES, STEPS = 2, 7000


def can_run(ways):
    with open("/proc/cpuinfo", encoding="ascii") as info:
        return "-march=x86-64-v3" not in ways or " avx2 " in info.read()


def step_all(stepper, program, below):
    """The sums of all kernels."""
    n_kernels = subprocess.run([program], check=False).returncode
    seen = collections.Counter()
    for number in range(n_kernels):
        seen.update(step(stepper, [program, str(number)], STRETCHES, STEPS, seed=number + 1,
                         below=below))
    return seen


def main():
    stepper, source, *wanted = sys.argv[1:]
    compilers = [name for name in dict.fromkeys(wanted) if shutil.which(name)]
    misses = []
    if len(compilers) < len(wanted):
        print("not installed:", ", ".join(sorted(set(wanted) - set(compilers))))
    if not compilers:
        skip("no compiler for C++ is installed")
    with tempfile.TemporaryDirectory(prefix="memsight-accuracy-") as folder:
        for compiler in compilers:
            for ways in filter(can_run, WAYS):
                name = " ".join([os.path.basename(compiler), *ways])
                program = os.path.join(folder, name.replace(" ", ""))
                subprocess.run([compiler, "-std=c++17", *ways, source, "-o", program], check=True)
                for below in (False, True) if ways == ["-O0"] else (False,):
                    seen = step_all(stepper, program, below)
                    row = name + (", as --source signal samples it" if below else "")
                    say(row, seen)
                    misses += misses_of(row, seen)
                    if ways == ["-O0"]:
                        print("unknown: %.1f %%" % (100 * seen["unknown"] / seen["samples"]))
    for miss in misses:
        print("FAILED:", miss)
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
