"""hardware.py DUMP PART: what processors write into their own formats, against what others say of
recorded bytes, and against an encoder of the documented layouts."""
import os
import re
import struct
import subprocess
import sys
import tempfile

import whole

dump, part = sys.argv[1], sys.argv[2]
folder = os.environ.get("MEMSIGHT_PERF_DATA", "/work/shared/perfdata")
checks = whole.Checks()


def recorded(name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        whole.skip("%s is not here: recordings of others are no part of the project" % path)
    return path


def told(*arguments):
    out = subprocess.run([dump, *arguments], stdout=subprocess.PIPE, check=True).stdout.decode()
    return [line.split("\t") for line in out.splitlines()]


# Columns of told("data-src").
WORD, OP, LEVEL, HIT, SNOOP, TLB, LOCKED, BLOCKED, REMOTE, HOPS, WRITE = range(11)


def data_src():
    """All pairs of a word and perf's own decode of it."""
    pairs = [line.rstrip("\n").split("\t")[:2] for line in open(recorded("data_src_pairs.txt"))
             if not line.startswith("#")]
    checks.that(len(pairs) == 22, "%d pairs" % len(pairs))
    for word, text in pairs:
        [found] = told("data-src", word)
        said = dict(re.findall(r"(OP|LVL|SNP|TLB|LCK|BLK) +([^|(]*)", text.replace("(1 hop) ", "")))
        said = {key: value.strip() for key, value in said.items()}

        def same(key, value, ours):
            if key in said:
                checks.that(value == ours, "%s: %s is %r, not %r" % (word, key, ours, value))
        def known(text):
            return "" if text == "N/A" else text
        same("OP", known(said["OP"]).lower().replace(" simd", ""), found[OP])
        level = known(said.get("LVL", "")).replace("Remote Cache", "remote cache")
        same("LVL", level, (found[LEVEL] + " " + found[HIT]).strip())
        same("SNP", {"None": "none", "HitM": "HitM", "N/A": ""}.get(said.get("SNP")), found[SNOOP])
        same("TLB", known(said.get("TLB", "")).replace("Walker", "walker"), found[TLB])
        same("LCK", {"No": "0", "Yes": "1", "N/A": None}.get(said.get("LCK")) or found[LOCKED],
             found[LOCKED])
        same("BLK", {"Addr": "address", "Data": "data", "N/A": ""}.get(said.get("BLK")),
             found[BLOCKED])
        checks.that(found[WRITE] == {"LOAD": "0", "STORE": "1"}.get(said["OP"].split()[0], "-1"),
                    "%s: writes %s" % (word, found[WRITE]))
        if "Remote" in said.get("LVL", ""):
            checks.that(found[REMOTE] == "-1", "%s: here or remote is not told" % word)


def word(op=2, lvl=0, snoop=1, lock=1, tlb=1, number=0, remote=0, snoopx=0, blk=1, hops=0):
    return "%x" % (op | lvl << 5 | snoop << 19 | lock << 24 | tlb << 26 | number << 33
                   | remote << 37 | snoopx << 38 | blk << 40 | hops << 43)


def fields():
    """Every level, of later kernels too, and the rest of the word, from the layout of perf_event.h.
    """
    for number, name in {1: "L1", 2: "L2", 3: "L3", 4: "L4", 5: "L2 MHB", 6: "memory-side cache",
                         8: "uncached", 9: "CXL", 10: "I/O", 11: "cache", 12: "LFB/MAB", 13: "RAM",
                         14: "PMEM"}.items():
        for remote in (0, 1):
            [found] = told("data-src", word(lvl=2, number=number, remote=remote))
            checks.that((found[LEVEL], found[HIT], found[REMOTE]) ==
                        ("remote " * remote + name, "hit", str(remote)), "level %s" % found)
    for lvl, name, remote in ((0x80, "RAM", 0), (0x100, "remote RAM", 1), (0x200, "remote RAM", 1),
                              (0x400, "remote cache", 1), (0x1000, "I/O", 0)):
        [found] = told("data-src", word(lvl=lvl | 4))
        checks.that((found[LEVEL], found[HIT], found[REMOTE]) == (name, "miss", str(remote)),
                    "bits %s" % found)
    for hops in range(1, 5):
        [found] = told("data-src", word(lvl=2, number=11, remote=1, hops=hops))
        checks.that(found[HOPS] == str(hops), "hops %s" % found)
    for snoop, snoopx, name in ((2, 0, "none"), (4, 0, "hit"), (8, 0, "miss"), (16, 0, "HitM"),
                                (1, 1, "forwarded"), (1, 2, "peer"), (1, 0, "")):
        [found] = told("data-src", word(snoop=snoop, snoopx=snoopx))
        checks.that(found[SNOOP] == name, "snoop %s" % found)
    for tlb, name in ((1, ""), (2 | 8, "L1 hit"), (4 | 16, "L2 miss"), (2 | 32, "walker hit"),
                      (2 | 8 | 16, "L1 or L2 hit")):
        [found] = told("data-src", word(tlb=tlb))
        checks.that(found[TLB] == name, "tlb %s" % found)
    for op, name, write in ((2, "load", "0"), (4, "store", "1"), (8, "prefetch", "-1"),
                            (16, "exec", "-1"), (2 | 4, "load and store", "-1"), (1, "", "-1")):
        [found] = told("data-src", word(op=op))
        checks.that((found[OP], found[WRITE]) == (name, write), "op %s" % found)


# Columns of accesses.
(IP, MEMORY, HAS_ADDRESS, ADDRESS, HAS_PHYSICAL, PHYSICAL, LATENCY, TOTAL, SIZE, TICKS, CONTEXT,
 KERNEL, SOURCE) = range(13)


def ibs_raw(caps=0x3ff, rip=0, data=0, data2=0, data3=0, linear=0, physical=0):
    return struct.pack("<IQQQQQQQ", caps, 1 << 17, rip, data, data2, data3, linear, physical).hex()


def ibs():
    """The recorded one is no memory operation; the rest are registers as amd-ibs.h lays them out.
    """
    text = open(recorded("ibs-fetch-and-op-raw.txt")).read().split("0x920b0")[1]
    record = bytes(int(byte, 16) for line in re.findall(r"^\.  [0-9a-f]{4}: ((?: [0-9a-f]{2})+)",
                                                        text, re.M) for byte in line.split())
    [found] = told("ibs", record[-0x44:].hex())
    checks.that((found[IP], found[MEMORY], found[HAS_ADDRESS]) == ("0x7fffecd43aef", "0", "0"),
                "the recorded op: %s" % found)

    load, store, miss, l2_miss, valid, physical_valid = 1, 2, 1 << 7, 1 << 20, 1 << 17, 1 << 18
    cases = [
        # data2, data3, level, hit, write, remote, latency
        (0, load, "L1", "hit", "0", "0", 0),
        (0, store, "L1", "hit", "1", "0", 0),
        (0, load | miss, "L2", "hit", "0", "0", 37),
        (1, load | miss | l2_miss, "L3 or remote cache", "hit", "0", "-1", 37),
        (3, load | miss | l2_miss, "RAM", "hit", "0", "0", 37),
        (3 | 1 << 4, load | miss | l2_miss, "remote RAM", "hit", "0", "1", 37),
        (2, load | miss | l2_miss, "remote cache", "hit", "0", "1", 37),
        (7, load | miss | l2_miss, "I/O", "hit", "0", "0", 37),
        (3, store | miss | l2_miss, "", "", "1", "-1", 0),
        (0, store | miss | l2_miss | 1 << 16, "LFB/MAB", "hit", "1", "0", 0),
        (0, load | 1 << 14, "uncached", "hit", "0", "0", 0)
    ]
    later = [(8 & 7 | 1 << 6, load | miss | l2_miss, "CXL", "hit", "0", "0", 37),
             (6, load | miss | l2_miss, "PMEM", "hit", "0", "0", 37),
             (1, load | miss | l2_miss, "L3", "hit", "0", "0", 37),
             (5, load | miss | l2_miss, "remote cache", "hit", "0", "1", 37)]
    for caps, (data2, data3, level, hit, write, remote, latency) in (
            [(0x3ff, case) for case in cases] + [(0xfff, case) for case in later]):
        raw = ibs_raw(caps, 0x401000, 0, data2, data3 | valid | physical_valid | 4 << 22 | 37 << 32,
                      0x7f0000001234, 0x123456789)
        [found] = told("ibs", raw)
        [source] = told("data-src", found[SOURCE])
        checks.that((source[LEVEL], source[HIT], source[WRITE], source[REMOTE], int(
            found[LATENCY])) == (level, hit, write, remote, latency),
                    "%#x %#x: %s %s" % (data2, data3, source, found))
        checks.that((found[IP], found[MEMORY], found[ADDRESS], found[PHYSICAL], found[SIZE]) ==
                    ("0x401000", "1", "0x7f0000001234", "0x123456789", "8"), "%s" % found)
    for tlb, name in ((0, "L1 hit"), (1 << 2, "L2 hit"), (3 << 2, "L2 miss")):
        [found] = told("ibs", ibs_raw(data3=load | valid | tlb))
        checks.that(told("data-src", found[SOURCE])[0][TLB] == name, "tlb %s" % found)
    [found] = told("ibs", ibs_raw(data3=load, linear=0x1234, physical=0x99))
    checks.that((found[MEMORY], found[HAS_ADDRESS], found[ADDRESS], found[HAS_PHYSICAL]) ==
                ("1", "0", "0", "0"), "an address that is not valid: %s" % found)
    [found] = told("ibs", ibs_raw(rip=0x401000, data=1 << 38, data3=load | valid))
    checks.that(found[IP] == "0", "a rip that is not valid: %s" % found)
    [found] = told("ibs", ibs_raw(data3=load | valid | 1 << 15))
    checks.that(told("data-src", found[SOURCE])[0][LOCKED] == "1", "locked: %s" % found)
    checks.that(told("ibs", ibs_raw()[:-2])[0][0] == "error", "too few bytes")


def by_perf(text):
    """perf's dump of the packets as one dict for each record."""
    records, record, n_bad = [], {}, 0
    for line in re.findall(r"^\.  [0-9a-f]{8}:  (?:[0-9a-f]{2} ?)+ +(\S.*)$", text, re.M):
        words = line.split()
        if words[0] == "PC":
            record["pc"], record["el"] = int(words[1], 16), words[2]
        elif words[0] == "VA":
            record["va"] = int(words[1], 16)
        elif words[0] == "LAT":
            record[words[2]] = int(words[1])
        elif words[0] in ("LD", "ST"):
            record["op"] = words[0]
        elif words[0] == "EV":
            record["events"] = set(words[1:])
        elif words[0] == "CONTEXT":
            record["context"] = int(words[1], 16)
        elif words[0] == "TS":
            record["ts"] = int(words[1])
            records.append(record)
            record = {}
        elif words[0] == "END":
            records.append(record)
            record = {}
        elif "Bad" in line:
            n_bad += 1
    return records, n_bad


def extended(address):
    return address | 0xff << 56 if address >> 55 & 1 else address


def spe():
    """Recorded bytes, 2 of which its publication has damaged, as perf dumps them; cut at every
    byte."""
    path = recorded("spe-aux-1624.bin")
    wanted, n_bad = by_perf(
        open(recorded("spe-rebuilt-1624.expected.txt"), errors="replace").read())
    found = told("spe", path)
    used, n_damaged = found.pop()[1:]
    checks.that(len(wanted) >= 28 and len(found) == len(wanted), "%d records, not %d" % (
        len(found), len(wanted)))
    checks.that(sum("pc" in record for record in wanted) == 29, "29 PCs")
    checks.that(sum("va" in record for record in wanted) == 17, "17 data addresses")
    for access, record in zip(found, wanted):
        checks.that(int(access[IP], 16) == extended(record.get("pc", 0)), "PC of %s: %s" % (
            record, access))
        checks.that(int(access[HAS_ADDRESS]) == ("va" in record) and
                    int(access[ADDRESS], 16) == extended(record.get("va", 0)), "VA of %s: %s" % (
                        record, access))
        checks.that(
            int(access[TOTAL]) == record.get("TOT", 0), "latency of %s: %s" % (record, access))
        checks.that(int(access[TICKS]) == record.get("ts", 0), "time of %s: %s" % (record, access))
        checks.that(
            int(access[MEMORY]) == ("op" in record), "operation of %s: %s" % (record, access))
        checks.that(
            int(access[KERNEL]) == (record.get("el", "el0") != "el0"), "level of %s" % record)
        if record.get("op"):
            [source] = told("data-src", access[SOURCE])
            checks.that(source[OP] == {"LD": "load", "ST": "store"}[record["op"]],
                        "%s: %s" % (record, source))
            if "L1D-REFILL" in record.get("events", ()):
                checks.that(source[HIT] == "miss" or source[LEVEL] == "L3", "%s: %s" % (
                    record, source))
    checks.that((int(used), int(n_damaged)) == (1624, n_bad), "%s bytes, %s damaged of %s" % (
        used, n_damaged, n_bad))
    for cut in range(0, 1625, 7):
        checks.that(told("spe", path, str(cut))[:-1] == found, "cut at %d" % cut)


def packet(head, payload, size):
    return bytes([head]) + payload.to_bytes(size, "little")


def spe_record(store=False, source=None, events=0x6, va=0x7f0000001000, pc=0x400100, total=90,
               issue=10, context=None, pa=None, ts=1000, op=None):
    data = packet(0xb0, pc, 8) + packet(0x99, issue, 2) + packet(0x98, total, 2)
    data += packet(0x52, events, 2)  # EVENTS of 2 bytes
    if op is None:
        data += packet(0x49, int(store), 1)
    else:
        data += packet(0x48 | op, 0, 1)
    data += packet(0xb2, va, 8) if va is not None else b""
    data += packet(0xb3, pa, 8) if pa is not None else b""
    data += packet(0x43, source, 1) if source is not None else b""
    data += packet(0x65, context, 4) if context is not None else b""
    return data + b"\0\0" + packet(0x71, ts, 8)


def spe_made():
    """Packets as the Arm ARM lays them out: data sources, events, contexts, other operations,
    headers with extensions, and bytes that are no packets."""
    cases = [
        (dict(source=0x0), "L1", "hit", 0), (dict(source=0x8), "L2", "hit", 0),
        (dict(source=0xb), "L3", "hit", 0), (dict(source=0xe), "RAM", "hit", 0),
        (dict(source=0xd), "remote cache", "hit", 1), (dict(source=0x9), "L2", "hit", 0),
        (dict(events=0x4), "L1", "hit", 0), (dict(events=0xc), "L1", "miss", 0),
        (dict(events=0x100), "L3", "hit", 0), (dict(events=0x300), "L3", "miss", 0),
        (dict(events=0x400), "remote cache", "hit", 1),
        (dict(store=True, source=0xe, events=0x4), "L1", "hit", 0)]
    data = b"".join(spe_record(ts=1000 + i, **case) for i, (case, *_) in enumerate(cases))
    data += b"\x20\x00" + b"\xff\xee"  # an alignment, and two bytes of nothing
    data += spe_record(op=2, va=None, ts=2000) + spe_record(context=4321, pa=0xabcdef000, ts=2001)
    with tempfile.NamedTemporaryFile(prefix="memsight-test-") as file:
        file.write(data)
        file.flush()
        found = told("spe", file.name)
    checks.that(found.pop() == ["end", str(len(data)), "2"], "the end")
    for access, (case, level, hit, remote) in zip(found, cases):
        [source] = told("data-src", access[SOURCE])
        checks.that((source[LEVEL], source[HIT], source[REMOTE]) == (
            ("remote cache" if remote else level), hit, str(remote)), "%s: %s" % (case, source))
        checks.that(source[WRITE] == str(int(case.get("store", False))), "%s: %s" % (case, source))
        checks.that((access[LATENCY], access[TOTAL]) == ("80", "90"), "latency %s" % access)
    checks.that((found[-2][MEMORY], found[-2][HAS_ADDRESS]) == ("0", "0"), "a branch")
    checks.that((found[-1][CONTEXT], found[-1][PHYSICAL], found[-1][TICKS]) ==
                ("4321", "0xabcdef000", "2001"), "a context")


{"data-src": data_src, "fields": fields, "ibs": ibs, "spe": spe, "spe-made": spe_made}[part]()
checks.end()
