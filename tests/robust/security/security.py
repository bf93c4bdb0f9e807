"""Who attacks, and what does not happen: docs/security.md says what each case stands for.

usage: security.py MEMSIGHT BUILD_FOLDER_OF_THE_VICTIMS LIBTRACEALLOC CASE
"""
import os
import pathlib
import re
import socket
import stat
import subprocess
import sys
import tempfile

import whole

NOBODY = 65534
SHOW = ("import os, stat; p = os.environ['MEMSIGHT_RECORDING']; d = os.path.dirname(p);"
        "print(d, oct(stat.S_IMODE(os.stat(d).st_mode)))")


def record(memsight, folder, *command, options=(), **more):
    trace = folder / "t.mst"
    return trace, whole.Outcome(
        [memsight, "record", "--force", "-o", trace, *options, "--", *command], **more)


def files_are_for_their_owner_whatever_the_umask(tools, folder):
    wrong = []
    for umask in (0, 0o077):
        def loosen(umask=umask):
            os.umask(umask)
        trace, done = record(tools.memsight, folder, sys.executable, "-c", SHOW, preexec_fn=loosen)
        whole.run([tools.memsight, "analyze", "--force", trace], preexec_fn=loosen)
        mode = stat.S_IMODE(trace.stat().st_mode)
        if not done.stdout.endswith(b" 0o700\n"):
            wrong.append(f"umask {umask:o}: the recording's folder: {done.stdout!r}")
        if mode & 0o077:
            wrong.append(f"umask {umask:o}: the trace has mode {mode:o}")
    return wrong


def a_folder_that_others_may_rename_things_in_is_not_used(tools, folder):
    """With sudo -E, XDG_RUNTIME_DIR is another user's; somebody's own may be open to all."""
    base = folder / "base"
    base.mkdir()
    cases = [(os.geteuid(), 0o777, False), (os.geteuid(), 0o1777, True),
             (os.geteuid(), 0o700, True)]
    if os.geteuid() == 0:
        cases.append((NOBODY, 0o700, False))
    wrong = []
    for uid, mode, is_fit in cases:
        os.chmod(base, mode)
        os.chown(base, uid, -1)
        _, done = record(tools.memsight, folder, sys.executable, "-c", SHOW,
                         env=whole.environment(XDG_RUNTIME_DIR=str(base)))
        if done.stdout.startswith(os.fsencode(base)) != is_fit:
            wrong.append(f"owner {uid}, mode {mode:o}: {done.stdout!r}")
    return wrong


def another_user_who_takes_the_sockets_name_is_told_nothing(tools, folder):
    if os.geteuid() != 0:
        whole.skip("only root can be two users")
    path = str(folder / "socket")
    wrong = []
    for uid, name, is_served in [(NOBODY, "\0" + path, False), (NOBODY, path, False),
                                 (0, "\0" + path, True)]:
        os.chmod(folder, 0o777)
        if os.path.exists(path):
            os.unlink(path)
        os.setresuid(uid, uid, 0)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(name)
        listener.listen()
        os.setresuid(0, 0, 0)
        done = subprocess.Popen(["/bin/ls", "/"], stdout=subprocess.DEVNULL, env=whole.environment(
            LD_PRELOAD=tools.library, MEMSIGHT_RECORDING=path))
        listener.settimeout(20)
        connection, _ = listener.accept()
        connection.settimeout(20)
        said = connection.recv(4096)
        connection.close()
        listener.close()
        if done.wait(60) != 0:
            wrong.append(f"{uid}: the program failed")
        if bool(said) != is_served:
            wrong.append(f"a listener of user {uid} at {name!r} was told {len(said)} bytes")
    return wrong


def what_is_not_followed_sees_nothing_of_us(tools, folder):
    ask = ["/bin/sh", "-c", "env; true"]
    _, done = record(tools.memsight, folder, *ask, options=["--no-follow"])
    # What it has untraced is its own: also a path of this test's with our name in it.
    own = whole.Outcome(ask).stdout.splitlines()
    left = [
        line for line in done.stdout.splitlines() if line not in own and not line.startswith(b"_=")
    ]
    return [f"in the child's environment: {left}"] if left else []


def a_program_that_scribbles_over_the_pool_harms_only_its_own_trace(tools, folder):
    wrong = []
    before = set(os.listdir(folder))
    for seed in range(1, 1 + int(os.environ.get("ROUNDS", "3"))):
        trace, done = record(tools.memsight, folder, tools.build / "victim-hostile", str(seed), "2",
                             options=["--wait=child"], timeout=120)
        if done.status != 9:
            wrong.append(f"seed {seed}: status {done.status}: {done.messages}{done.stderr[-2000:]}")
        if not re.search(r"[1-9][0-9,]* lost|damage", done.messages):
            wrong.append(f"seed {seed}: not a word of it: {done.messages}")
        analysed = whole.Outcome([tools.memsight, "analyze", "--force", trace], timeout=300)
        if analysed.status != 0:
            wrong.append(
                f"seed {seed}: analyze: {analysed.status}: "
                f"{analysed.messages}{analysed.stderr[-2000:]}"
            )
    extra = set(os.listdir(folder)) - before - {"t.mst", "t.mst.db"}
    return wrong + ([f"files that nobody asked for: {extra}"] if extra else [])


def nobody_is_waited_for_because_a_program_names_him(tools, folder):
    """Who lives on: a kernel thread, init, ourselves, a process of no recording, and one that has a
    pool: that of another recording has the same name."""
    wrong = []
    pool = ("import mmap, os, time; fd = os.memfd_create('memsight-pool'); os.ftruncate(fd, 4096);"
            "pool = mmap.mmap(fd, 4096); print(flush=True); time.sleep(3600)")
    others = [subprocess.Popen(["sleep", "3600"]),
              subprocess.Popen([sys.executable, "-c", pool], stdout=subprocess.PIPE)]
    others[1].stdout.readline()
    named = [str(pid) for pid in (2, 1, os.getpid(), *(other.pid for other in others))]
    for options in ([], ["--source", "none"]):
        try:
            trace, done = record(tools.memsight, folder, tools.build / "victim-claims", *named,
                                 options=options, timeout=60)
        except subprocess.TimeoutExpired:
            wrong.append(f"{options}: the recording waits for others")
            continue
        whole.run([tools.memsight, "analyze", "--force", trace])
        numbers = {
            pid
            for pid, in whole.Database(f"{trace}.db").ask(
                "SELECT pid FROM process WHERE number > 1")
        }
        if done.status != 9 or numbers != {0}:
            wrong.append(f"{options}: status {done.status}, processes {numbers}: {done.messages}")
    for other in others:
        if other.poll() is not None:
            wrong.append("somebody has ended early: nothing was tested")
        other.kill()
        other.communicate()
    return wrong


def names_do_not_command_the_terminal(tools, folder):
    # Samples enough that its stack is a row: it has the thread's name.
    trace, _ = record(tools.memsight, folder, tools.build / "victim-names",
                      options=["--freq", "20000"])
    database = folder / "n.db"
    whole.run([tools.memsight, "analyze", "--force", "-o", database, trace])
    wrong = []
    requests = [["report", database, *options]
                for options in ([], ["--regions"], ["--marks"], ["--objects"], ["--threads"],
                                ["--processes"], ["--sites"], ["--leaks"])]
    requests.append(["query", database, "SELECT name FROM object_name UNION SELECT name FROM mark"
                     " UNION SELECT name FROM thread_name"])
    for request in requests:
        done = subprocess.run([tools.memsight, *map(str, request)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=whole.environment(), check=False)
        found = re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", done.stdout + done.stderr)
        if done.returncode != 0 or found:
            wrong.append(
                f"{request[0]} {request[2:]}: status {done.returncode}, {found}: "
                f"{done.stderr[-300:]}"
            )
    return wrong


CASES = [
    files_are_for_their_owner_whatever_the_umask,
    a_folder_that_others_may_rename_things_in_is_not_used,
    another_user_who_takes_the_sockets_name_is_told_nothing,
    what_is_not_followed_sees_nothing_of_us,
    a_program_that_scribbles_over_the_pool_harms_only_its_own_trace,
    nobody_is_waited_for_because_a_program_names_him, names_do_not_command_the_terminal
]


class Tools:
    def __init__(self, memsight, build, library):
        self.memsight, self.build, self.library = memsight, pathlib.Path(build), library


def main():
    *paths, wanted = sys.argv[1:]
    case = {each.__name__: each for each in CASES}[wanted]
    with tempfile.TemporaryDirectory(prefix="memsight-security-") as name:
        wrong = case(Tools(*paths), pathlib.Path(name))
    print("\n".join(wrong) or "as expected")
    return 1 if wrong else 0


sys.exit(main())
