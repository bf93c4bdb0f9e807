#!/usr/bin/env python3
"""The library of memory kinds as a file: what it exports, imports and needs.

usage: check-library.py LIBTRACEALLOC_HEAP MAP
"""
import re
import subprocess
import sys

# What it may call beside memkind_*: nothing that prints, and of files only what makes the one that it lies in.
IMPORTS = set("""__errno_location __register_atfork _exit close dlsym fcntl fstat ftruncate getenv getrlimit lseek memcpy
    memfd_create memset memsight_1_heap_range mkostemp open posix_fallocate pwrite snprintf strcspn strerrordesc_np strlen
    syscall unlink write""".split())
OF_THE_RUNTIME = {"__cxa_finalize", "__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable"}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def names(library, kind):
    return {line.split()[-1].split("@")[0] for line in output("nm", "-D", kind, library).splitlines()}


def main(library, version_map):
    with open(version_map, encoding="utf-8") as file:
        mapped = set(re.findall(r"^\t(\w+);", file.read(), flags=re.M))
    exported, imported = names(library, "--defined-only"), names(library, "--undefined-only")
    faults = [f"{name}: exports and the map do not agree" for name in sorted(exported ^ mapped)]
    faults += [f"{name}: imported, but not on the allow-list" for name in
               sorted(imported - IMPORTS - OF_THE_RUNTIME - exported) if not name.startswith("memkind_")]
    faults += [f"{name}: a thread-local variable is found by a call" for name in
               sorted(set(re.findall(r"R_\w*(?:DTPMOD|DTPOFF|TLSDESC)\w*", output("readelf", "-rW", library))))]
    faults += ["no NODELETE flag"] if "NODELETE" not in output("readelf", "-dW", library) else []
    for fault in faults or ([] if exported else ["nothing is exported: was the library read at all?"]):
        print(fault)
    print(f"{len(exported)} exports, {len(imported)} imports: {len(faults)} wrong")
    return 1 if faults or not exported else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
