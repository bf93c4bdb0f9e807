#!/usr/bin/env python3
"""clang-format has nothing to change."""
import re
import shutil
import subprocess

import tree

VERSION = "14"  # Debian 12's; others lay out differently


def main():
    program = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    if not program:
        tree.skip("clang-format is not installed")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+)", said)
    if not found or found.group(1) != VERSION:
        tree.skip(f"needs clang-format {VERSION}, this is: {said.strip()}")
    files = tree.sources(".c", ".h")
    result = subprocess.run([program, "--dry-run", *map(str, files)], cwd=tree.ROOT, text=True,
                            capture_output=True, check=False)
    wrong = re.findall(r"^(\S+?):(\d+):\d+: warning: code should be clang-formatted", result.stderr,
                       re.MULTILINE)
    if result.returncode and not wrong:
        print(result.stderr)
        tree.finish(["clang-format failed"], f"{len(files)} files")
    first = {}
    for name, line in wrong:
        first.setdefault(name, line)
    tree.finish([f"{name}:{line}: run clang-format -i {name}" for name, line in first.items()],
                f"{len(files)} files")


main()
