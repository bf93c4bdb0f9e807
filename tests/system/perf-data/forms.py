"""forms.py DUMP: what a file says comes back the same in both byte orders, as a file and out of a
pipe, with attributes of every size that Linux has had, several events, and without the ids that
newer ones write."""
import itertools
import os
import random
import subprocess
import sys
import tempfile

import encode as e
import whole

dump = sys.argv[1]
checks = whole.Checks()
SIZES = [64, 72, 80, 96, 104, 112, 120, 128, 136, 144]


def read(data):
    with tempfile.NamedTemporaryFile(prefix="memsight-test-") as file:
        file.write(data)
        file.flush()
        done = subprocess.run([dump, file.name], stdout=subprocess.PIPE, check=False)
    found = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        kind, *fields = line.split("\t")
        found.setdefault(kind, []).append(fields)
    return found


def features(file):
    return {3: file.string("host"), 4: file.string("6.1.0-test"), 6: file.string("x86_64"),
            8: file.string("A CPU"), 10: file.pack("Q", 4096),
            11: file.strings(["perf", "record", "a b"]), 12: file.event_names(),
            16: file.pmus({4: "cpu", 11: "ibs_op"}), 21: file.pack("QQ", 10, 99),
            29: file.clock(4, 1000, 2000)}


def build(order, pipe, size, seed):
    """Two events of different fields; what it wants told, by kind of line."""
    chance = random.Random(seed)
    common = e.IDENTIFIER | e.IP | e.TID | e.TIME | e.ADDR | e.CPU | e.PERIOD
    events = [
        e.Event(common | e.CALLCHAIN | e.RAW | e.WEIGHT_STRUCT | e.DATA_SRC | e.PHYS_ADDR,
                e.TYPE_RAW, 0x1cd, 10007, ids=[0x101, 0x102], name="loads", size=size, precise=2,
                config1=3),
        e.Event(common | e.WEIGHT | e.DATA_SRC | e.READ, 11, 1 << 19, 4096, ids=[0x201], name="ops",
                size=size, read_format=4)
    ]
    file = e.File(events, order, pipe)
    file.features = features(file)
    wanted = {"sample": [], "map": [], "comm": [], "fork": [], "exit": [], "lost": []}
    file.comm(7, 7, "first")
    wanted["comm"].append(["7", "7", "0", "first"])
    for i in range(40):
        at = chance.randrange(2)
        event = events[at]
        said = dict(pid=chance.randrange(1, 2**31), tid=chance.randrange(1, 2**31),
                    time=chance.getrandbits(63), ip=chance.getrandbits(64),
                    addr=chance.getrandbits(64), cpu=chance.randrange(2**16),
                    period=chance.getrandbits(40), weight=chance.getrandbits(64),
                    data_src=chance.getrandbits(64))
        raw = chance.randbytes(chance.randrange(60))
        file.sample(event, raw=raw, chain=[chance.getrandbits(64) for _ in range(i % 5)],
                    phys=chance.getrandbits(52), read=[chance.getrandbits(64), event.ids[0]],
                    misc=e.MISC_KERNEL if i % 3 == 0 else e.MISC_USER, **said)
        wanted["sample"].append([
            str(at), hex(event.ids[0]), str(said["pid"]), str(said["tid"]), str(said["time"]),
            hex(said["ip"]), hex(said["addr"]), str(said["period"]), hex(said["data_src"]),
            str(said["weight"] if at else said["weight"] & 0xffffffff), str(said["cpu"]),
            str(0 if at else len(e.padded(b"1234" + raw)) - 4), str(int(i % 3 == 0))])
    build_id = chance.randbytes(20)
    file.map(7, 8, 0x400000, 0x2000, "/bin/a", 50, 0x1000, event=events[1])
    file.map(7, 8, 0x7f0000000000, 0x3000, "/lib/b.so", 51, build_id=build_id)
    wanted["map"] += [["7", "8", "0x400000", "0x2000", "0x1000", "0x5", "/bin/a", ""],
                      ["7", "8", "0x7f0000000000", "0x3000", "0", "0x5", "/lib/b.so",
                       build_id.hex()]]
    file.fork(9, 9, 7, 8, 60)
    file.exit(9, 9, 70)
    wanted["fork"].append(["9", "9", "7", "8", "60"])
    wanted["exit"].append(["9", "9", "9", "9", "70"])
    file.lost(12345, 80)
    wanted["lost"].append(["12345"])
    file.record(99, 0, b"12345678")  # of a perf to come
    file.round()
    return file, wanted


def no_zero(value):
    """C's %#x has no 0x before a zero."""
    return "0" if value == "0x0" else value


def compare(found, wanted, text):
    for kind, lines in wanted.items():
        lines = [[no_zero(field) for field in line] for line in lines]
        checks.that(found.get(kind, []) == lines, "%s: %s: %s, not %s" % (
            text, kind, found.get(kind), lines))


seed = 0
for order, pipe, size in itertools.product("<>", (False, True), SIZES):
    seed += 1
    text = "%s %s attr of %d bytes" % (order, "pipe" if pipe else "file", size)
    file, wanted = build(order, pipe, size, seed)
    found = read(file.bytes())
    compare(found, wanted, text)
    names = [(event[1], event[2], event[4], event[6], event[7]) for event in found["event"]]
    checks.that(
        names == [("4", "0x1cd", "loads", "2", "10007"), ("11", "0x80000", "ops", "0", "4096")],
        "%s: events %s" % (text, names))
    info = {fields[0]: fields[1:] for fields in found["info"]}
    wanted_info = {"host_name": ["host"], "kernel": ["6.1.0-test"], "cpu_model": ["A CPU"],
                   "memory": [str(4096 * 1024)], "command": ["perf record a b "],
                   "times": ["10", "99"], "clock": ["4", "1000", "2000"],
                   "form": ["pipe" if pipe else "file",
                            "native" if order == "<" else "swapped"]}
    checks.that({key: info.get(key) for key in wanted_info} == wanted_info,
                "%s: %s" % (text, info))
    checks.that(found["damage"] == [["0", "0", "0", "0", "1", "0"]],
                "%s: damage %s" % (text, found["damage"]))

# As perf of 2010 wrote: an id behind the address, and nothing behind other records.
old = e.Event(e.IP | e.TID | e.TIME | e.ADDR | e.ID, e.TYPE_RAW, 1, 100, flags=0, ids=[5], size=64)
other = e.Event(e.IP | e.TID | e.TIME | e.ADDR | e.ID, e.TYPE_RAW, 2, 100, flags=0, ids=[6],
                size=64)
for order in "<>":
    file = e.File([old, other], order)
    file.comm(3, 3, "old")
    file.sample(other, pid=3, tid=4, time=5, ip=6, addr=7)
    found = read(file.bytes())
    compare(found, {"comm": [["3", "3", "0", "old"]], "sample": [
        ["1", "0x6", "3", "4", "5", "0x6", "0x7", "0", "0x0", "0", "-1", "0", "0"]]}, "of old")

# An id of no event.
file = e.File([e.Event(e.IDENTIFIER | e.IP | e.TIME, ids=[1]), e.Event(e.IDENTIFIER | e.IP | e.TIME,
                                                                       ids=[2])])
file.sample(e.Event(e.IDENTIFIER | e.IP | e.TIME, ids=[3]), ip=1)
checks.that(read(file.bytes())["damage"] == [["0", "0", "0", "1", "0", "0"]], "of no event")
checks.end()
