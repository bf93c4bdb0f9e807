#!/usr/bin/env python3
"""Every header compiles alone and twice; memsight.h also as C++. Arguments: the compiler and its
options."""
import concurrent.futures
import shutil
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


def compile_as_cpp(compiler):
    """What is wrong with memsight.h in C++, as a list; none where there is no such compiler."""
    if not shutil.which(compiler):
        return []
    result = subprocess.run([
        compiler, "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I",
        str(tree.ROOT / "include"), "-x", "c++", "-"
    ], text=True, check=False, input='#include "memsight.h"\n' * 2, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    return [f"memsight.h as C++ with {compiler}:\n{result.stdout}"] if result.returncode else []


def main():
    if not sys.argv[1:] or not shutil.which(sys.argv[1]):
        print(
            "check-headers.py COMPILER [OPTION...]: name a C compiler that is installed, such as cc"
        )
        sys.exit(2)
    headers = tree.sources(".h", folders=tree.PARTS)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = [problem for problem in pool.map(compile_header, headers) if problem]
    problems += compile_as_cpp("g++") + compile_as_cpp("clang++")
    tree.finish(problems, f"{len(headers)} headers")


main()
