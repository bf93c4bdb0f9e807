#!/usr/bin/env python3
"""In a program that nobody records each call of memsight.h is one load and a branch, however the
program was linked; and a call reaches the recorder. Arguments: memsight, programs made of cost.c.
"""
import re
import subprocess
import sys

from whole import Checks, Recording, run

checks = Checks()


def way_through(program, function):
    """The instructions that run when nothing is preloaded: no conditional jump is taken."""
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "--disassemble=" + function, program], check=True,
        stdout=subprocess.PIPE, text=True).stdout
    found = re.findall(r"^ +[0-9a-f]+:\t(\S+) *([^#\n]*)", listing, re.MULTILINE)
    way = []
    for name, operands in found:
        if name not in ("endbr64", "nop", "nopw", "nopl", "xchg"):
            way.append((name, operands.strip()))
        if name.startswith("ret"):
            return way
    raise SystemExit(f"{program}: {function} has no end: {listing}")


def main():
    memsight, *programs = sys.argv[1:]
    for program in programs:
        run([program])
        for function, n_calls in [("cost_push", 1), ("cost_push_pop", 2), ("cost_pause", 1),
                                  ("cost_block", 1)]:
            way = way_through(program, function)
            # Of what a static program has not the linker makes a constant.
            loads = [operands for name, operands in way
                     if "(%rip)" in operands or operands.startswith("$0x0,")]
            branches = [name for name, _ in way if name.startswith("j")]
            print(program.rsplit("/", 1)[-1], function, [name for name, _ in way])
            checks.that(len(loads) == n_calls, f"{function}: one load a call, not {loads}")
            checks.that(len(branches) == n_calls, f"{function}: one branch a call, not {branches}")
            checks.that(not any(name.startswith("call") for name, _ in way), f"{function}: no call")
        recording = Recording(memsight, [program], ["--source", "none"])
        checks.that(recording.one("SELECT sum(n_trips) FROM region_total") == 2,
                    f"{program}: two calls of push")
        checks.that(
            recording.one("SELECT value FROM total WHERE name = 'pauses'") == 1, "one pause")
    checks.end()


main()
