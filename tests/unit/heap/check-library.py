#!/usr/bin/env python3
"""The library of memory kinds as a file: what it exports, imports and needs.

usage: check-library.py LIBTRACEALLOC_HEAP MAP
"""
import re
import subprocess
import sys

# What our own sources may call: nothing that prints, and of files only what makes the one that it
# lies in.
IMPORTS = set("""
    _IO_list_lock _IO_list_resetlock _IO_list_unlock __errno_location __libc_single_threaded
    __register_atfork _exit close dlsym fcntl fstat ftruncate getenv getrlimit lseek memcpy
    memfd_create memset memsight_1_heap_depth memsight_1_heap_range mkostemp open
    posix_fallocate pwrite snprintf strcspn strerrordesc_np strlen syscall sysconf unlink write
""".split())
# And libmemkind.a, taken in. What of it maps memory, forks or prints finds ours (heap/stand-in.c),
# and is not here.
OF_MEMKIND = set("""
    __assert_fail __cxa_atexit __isoc99_fscanf __isoc99_sscanf __sched_cpucount __snprintf_chk
    __sprintf_chk __stack_chk_fail __strcat_chk __tls_get_addr abort clock_gettime closedir
    dlclose dlopen fclose fopen gettimeofday memchr memmove mprotect opendir readdir readlink
    sched_getaffinity sched_getcpu sched_setaffinity sched_yield secure_getenv sigfillset
    sigprocmask statvfs strchr strcmp strcpy strerror_r strncmp strncpy strtoul strtoull
""".split())
# Other libraries bring a constructor, memory and time into each process.
NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2"}
OF_THE_RUNTIME = {
    "__cxa_finalize", "__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable"
}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def names(library, kind):
    return {
        line.split()[-1].split("@")[0]
        for line in output("nm", "-D", kind, library).splitlines()
    }


def main(library, version_map):
    with open(version_map, encoding="utf-8") as file:
        mapped = set(re.findall(r"^\t(\w+);", file.read(), flags=re.M))
    exported, imported = names(library, "--defined-only"), names(library, "--undefined-only")
    faults = [f"{name}: exports and the map do not agree" for name in sorted(exported ^ mapped)]
    faults += [
        f"{name}: imported, but not on the allow-list"
        for name in sorted(imported - IMPORTS - OF_MEMKIND - OF_THE_RUNTIME - exported)
        if not name.startswith("pthread_")
    ]
    faults += [
        f"{name}: another library is needed" for name in sorted(
            set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", library))) - NEEDED)
    ]
    faults += ["no NODELETE flag"] if "NODELETE" not in output("readelf", "-dW", library) else []
    for fault in faults or ([]
                            if exported else ["nothing is exported: was the library read at all?"]):
        print(fault)
    print(f"{len(exported)} exports, {len(imported)} imports: {len(faults)} wrong")
    return 1 if faults or not exported else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
