"""What an ordinary user meets under Debian's own kernel: perf_event_paranoid 3, and Yama. Each
remedy that is told is done, and must be enough."""
import os
import re
import struct

from guest import N_LARGE, N_SMALL, NOBODY, doctor, write

PARANOID = "/proc/sys/kernel/perf_event_paranoid"
YAMA = "/proc/sys/kernel/yama/ptrace_scope"
CAPABILITIES = {"cap_ipc_lock": 14, "cap_sys_admin": 21, "cap_perfmon": 38}


def count_blocks(guest, database):
    return database.one(
        "SELECT count(*) FROM allocation WHERE size IN (4194304, 6000)") == N_LARGE + N_SMALL


def setting(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


def allocations_go_on_without_samples(guest):
    """The kernel's default: no samples. One line says what would help; blocks and output are all
    there."""
    guest.that(setting(PARANOID) == 3, f"Debian's kernel has {setting(PARANOID)} and not 3")
    placed, database = guest.recorded(["-s", "auto"], [guest.victim])
    guest.that(placed.status == 0 and placed.stdout.startswith(b"cpus "),
               f"{placed.status} {placed.stdout}")
    first = placed.messages.splitlines()[0]
    guest.that(
        "perf_event_paranoid is 3" in first and "sudo sysctl kernel.perf_event_paranoid=2" in first
        and "--source signal" in first and "setcap" not in first, first)
    guest.that(count_blocks(guest, database), "blocks are missing")
    guest.that(database.one("SELECT count(*) FROM sample") == 0, "samples that nobody could take")
    guest.that(database.losses() == {}, f"{database.losses()}")
    guest.says(doctor(guest), "sudo sysctl kernel.perf_event_paranoid=2")


def the_signal_source_needs_no_permission(guest):
    placed, database = guest.recorded(["-s", "signal"], [guest.victim, "fork"])
    first = placed.messages.splitlines()[0]
    guest.that("--source signal" not in first and "no task records" in first, first)
    guest.that(database.one("SELECT count(*) FROM sample") > 0, "no sample")
    guest.that(count_blocks(guest, database), "blocks are missing")


def samples_are_taken(guest, database=None):
    """Of this run, or of one that is made for it."""
    database = database or guest.recorded([], [guest.victim, "fork"])[1]
    for source in ["clock", "faults"]:
        n = database.one(
            "SELECT count(*) FROM sample JOIN source ON source.id = source_id WHERE name = ?",
            source)
        guest.that(n > 0, f"no sample of {source}")


def known_share(database):
    """The part of the clock's touches that have an owner."""
    return database.one(
        "SELECT sum(share * (owner.name <> 'unknown')) / sum(share) FROM touch JOIN sample ON"
        " sample.id = sample_id JOIN source ON source.id = source_id JOIN owner ON"
        " owner.id = owner_kind WHERE role = 1 AND source.name = 'clock'") or 0


def samples_are_decoded(guest, private):
    """Where memory may not be read (Yama), code comes from the mapped files: also in a trace that
    shall keep no registers, and on a machine that has none of the files."""
    _, database = guest.recorded(["--private"] if private else [], [guest.victim, "fork"])
    samples_are_taken(guest, database)
    n = database.one(
        "SELECT count(*) FROM sample JOIN source ON source.id = source_id WHERE name = 'clock'")
    guest.that(n >= 10 and known_share(database) > 0.5,
               f"{known_share(database)} of {n} samples are known")
    guest.that(database.losses() == {}, f"{database.losses()}")
    unreadable = database.one(
        "SELECT sum(value) FROM counter WHERE name = 'code pages not readable'") or 0
    guest.that(unreadable < n / 2,
               f"{unreadable} code pages could not be read")  # it may have ended by then


def doctor_tells_whether_code_can_be_read(guest, can_be):
    guest.that(("kernel.yama.ptrace_scope=1" in doctor(guest).stdout.decode()) != can_be,
               "of doctor on Yama")


def the_settings_of_avail_are_true(guest):
    """`samples' is there exactly when samples can be taken."""
    text = guest.record(["-q", "-s", "none"], [guest.memsight, "avail"]).stdout.decode()
    is_there = re.search(r"^  samples +(no: )?", text, re.MULTILINE).group(1) is None
    opened = guest.record(["-q", "--strict", "-s", "clock"], ["true"]).status == 0
    guest.that(is_there == opened, f"avail says {is_there}, but {opened}")


def with_capabilities(guest, names):
    """A copy of the tool that has them, as setcap makes it (VFS_CAP_REVISION_2, effective)."""
    folder = f"/tmp/{'-'.join(names)}"
    os.mkdir(folder)
    build = os.path.dirname(guest.memsight)
    for name in ["memsight", "memsight-kinds", "libtracealloc.so", "libtracealloc_heap.so"]:
        with open(os.path.join(build, name), "rb") as source, open(os.path.join(folder, name),
                                                                   "wb") as copy:
            copy.write(source.read())
        os.chmod(copy.name, 0o755)
    bits = sum(1 << CAPABILITIES[name] for name in names)
    os.setxattr(os.path.join(folder, "memsight"), "security.capability",
                struct.pack("<5I", 0x02000001, bits & 0xffffffff, 0, bits >> 32, 0))
    return os.path.join(folder, "memsight")


def run_all(guest, with_samples):
    """In the order of what root allows; the last setting of Yama cannot be taken back.
    `with_samples': more checks, of what an ordinary user gets once the remedy is done."""
    plain = guest.memsight
    guest.step(allocations_go_on_without_samples, user=NOBODY)
    guest.step(the_signal_source_needs_no_permission, user=NOBODY)
    guest.step(the_settings_of_avail_are_true, user=NOBODY)
    guest.memsight = with_capabilities(guest, ["cap_perfmon", "cap_ipc_lock"])
    guest.step(the_settings_of_avail_are_true, user=NOBODY)
    write(PARANOID, "2")
    guest.step(samples_are_taken, user=NOBODY)
    guest.memsight = plain
    for check in with_samples:
        guest.step(check, user=NOBODY)
    for scope in ["1", "2", "3"]:
        write(YAMA, scope)
        print(f"Yama's ptrace_scope is {scope}")
        guest.step(doctor_tells_whether_code_can_be_read, scope == "1", user=NOBODY)
        guest.step(samples_are_decoded, False, user=NOBODY)
        guest.step(samples_are_decoded, True, user=NOBODY)
