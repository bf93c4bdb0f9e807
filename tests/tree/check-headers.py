#!/usr/bin/env python3
"""Every header compiles alone and twice. Arguments: the compiler and its options."""
import concurrent.futures
import subprocess
import sys

import tree

COMPILE = [*sys.argv[1:], "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
           "-Wno-unused-function", "-Wno-unused-const-variable", "-fsyntax-only",
           "-I", str(tree.ROOT), "-x", "c", "-"]


def compile_header(path):
    line = f'#include "{path}"\n'
    # The declaration keeps a header that holds only macros from being an empty translation unit.
    result = subprocess.run(COMPILE, input=line * 2 + "int check_header;\n", text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return f"{path}:\n{result.stdout}" if result.returncode else None


def main():
    headers = tree.sources(".h", folders=tree.MAY_INCLUDE)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = [problem for problem in pool.map(compile_header, headers) if problem]
    tree.finish(problems, f"{len(headers)} headers")


main()
