#!/usr/bin/env python3
"""The interposer as a file: what it exports, imports and needs.

usage: check-library.py LIBTRACEALLOC HOOKS_DEF API_DEF MAP
"""
import re
import subprocess
import sys

# What it may call. Nothing that allocates, locks on the hot path, prints or exits.
IMPORTS = {
    "__errno_location": "errno of failed calls",
    "__environ": "the environment of execv and execvp",
    "environ": "the environment of execv and execvp",
    "__libc_stack_end": "where the environment is before libc knows it; weak",
    "dl_iterate_phdr": "at start only",
    "dladdr": "at start, and for an operator new that finds no memory",
    "dladdr1": "at start, and when a library was loaded; weak",
    "dlerror": "at start only: what we did not find is no error of the program's",
    "dlopen": "for plug-ins; without loading, for an operator new that finds no memory",
    "getauxval": "at start only",
    "memcpy": "",
    "memset": "",
    "memcmp": "",
    "strlen": "",
    "strnlen": "",
    "strcmp": "",
    "strncmp": "",
    "strchr": "",
    "_setjmp": "around a plug-in of --load",
    "longjmp": "out of a plug-in of --load that crashes",
    "snprintf": "names of plug-ins of --load, and why one is left out",
    "strcspn": "likewise",
    "pthread_key_delete": "when the program wants the last key",
    "__register_atfork": "at start only; weak",
    "pthread_setspecific": "when a thread starts and ends",
    "__cxa_finalize": "of the C runtime; weak",
    "_ITM_deregisterTMCloneTable": "of the C runtime; weak",
    "_ITM_registerTMCloneTable": "of the C runtime; weak",
}
TLS_MAX_BYTES = 64
# Of the C library that it needs: since then libpthread and libdl are part of it.
GLIBC_NEWEST = (2, 34)


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def symbols(library):
    exported, imported = set(), set()
    for line in output("nm", "-D", library).splitlines():
        kind, name = line.split()[-2:]
        (imported if kind in "Uwv" else exported).add(name.split("@")[0])
    return exported, imported


def newer_versions(library):
    """Imports of versions that an older or another C library would not have; GLIBC_PRIVATE is one.
    """
    for line in output("nm", "-D", "--undefined-only", library).splitlines():
        name, _, version = line.split()[-1].partition("@")
        number = re.fullmatch(r"@?GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
        if version and (not number or (int(number[1]), int(number[2])) > GLIBC_NEWEST):
            yield f"{name}: version {version}, newest allowed is GLIBC_%d.%d" % GLIBC_NEWEST


def dynamic_tls(library):
    """Relocations of thread-local variables that are looked up by a call, which may allocate."""
    return sorted(
        set(
            re.findall(r"R_\w*(?:DTPMOD|DTPOFF|TLSDESC|TLS_DTP)\w*",
                       output("readelf", "-rW", library))))


# The callee looks at who called it (RTLD_NEXT), or comes back on another stack: we may not stand
# between.
JUMPS = ["syscall", "dlsym", "dlmopen"]


def no_jumps(library):
    if "Advanced Micro Devices X86-64" not in output("readelf", "-hW", library):
        return []
    code = {
        name: output("objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", library)
        for name in JUMPS
    }
    return [f"{name}: its real function is called, and not jumped to" for name in JUMPS
            if not re.search(r"\bjmp +\*", code[name])]


def hooked(path):
    text = re.sub(r"/\*.*?\*/", "", open(path).read(), flags=re.S)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return set(
        re.findall(r"^TA_(?:HEAP|LIBC|REAL|NEW|DELETE|API)\((\w+)[,)]", "\n".join(lines),
                   flags=re.M))


def mapped(path):
    return set(re.findall(r"^\t(\w+);", open(path).read(), flags=re.M))


def main(library, hooks_def, api_def, version_map):
    exported, imported = symbols(library)
    segments = output("readelf", "-lW", library)
    dynamic = output("readelf", "-dW", library)
    tls = re.search(r"^\s*TLS\s+(\S+\s+){4}(0x[0-9a-f]+)", segments, flags=re.M)
    listed = hooked(hooks_def) | hooked(api_def)
    faults = []
    if not exported:
        faults.append("nothing is exported: was the library read at all?")
    for name in sorted(exported ^ listed):
        faults.append(f"{name}: exported and on the list of hooks do not agree")
    for name in sorted(mapped(version_map) ^ listed):
        faults.append(f"{name}: the export map and the list of hooks do not agree")
    for name in sorted(imported - set(IMPORTS)):
        faults.append(f"{name}: imported, but not on the allow-list")
    if not tls or int(tls.group(2), 16) > TLS_MAX_BYTES:
        faults.append(f"static TLS: {tls and tls.group(2)}, at most {TLS_MAX_BYTES} bytes")
    if "STATIC_TLS" not in dynamic:
        faults.append("no STATIC_TLS flag: thread-local variables are not initial-exec")
    if "NODELETE" not in dynamic:
        faults.append("no NODELETE flag: dlclose could unmap hooks that run")
    faults += [
        f"{name}: a thread-local variable is found by a call" for name in dynamic_tls(library)
    ]
    faults += newer_versions(library)
    faults += no_jumps(library)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
