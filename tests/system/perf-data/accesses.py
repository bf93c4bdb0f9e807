"""accesses.py MEMSIGHT PART: synthetic recordings of PEBS, IBS and SPE, whose levels, latencies,
writes, objects and losses are known, through the whole way to the reports."""
import json
import os
import struct
import sys
import tempfile

import encode as e
import json_schema
import whole

memsight, part = sys.argv[1], sys.argv[2]
checks = whole.Checks()
scratch = tempfile.TemporaryDirectory(prefix="memsight-test-")
SEC = 10**9
NEAR, FAR = 0x7f0000000000, 0x7f1000000000  # two mappings of 1 MiB
MIB = 1 << 20


def word(op, number, lvl=2, snoop=2, tlb=2 | 8 | 16, lock=0, remote=0, hops=0):
    return (op | lvl << 5 | snoop << 19 | lock << 24 | tlb << 26 | number << 33 | remote << 37 |
            1 << 40 | hops << 43)


def report(path, kind):
    rows = json.loads(whole.run([memsight, "report", path, "--" + kind, "--format", "json"]))
    if rows and kind in ["accesses", "locality"]:
        json_schema.check_report(checks, rows, kind)
    return rows


def analyzed(path):
    """With real tables, which a database that a report makes for itself has not."""
    whole.run([memsight, "analyze", path])
    return whole.Database(path + ".db")


def process(file):
    file.comm(100, 100, "prog", 1 * SEC, is_exec=True)
    file.map(100, 100, 0x400000, 0x10000, "/opt/prog", 1 * SEC + 1)
    file.map(100, 100, NEAR, MIB, "//anon", 1 * SEC + 2, prot=3, flags=0x22)
    file.map(100, 100, FAR, MIB, "/dev/shm/far", 1 * SEC + 3, prot=3, flags=1)
    file.fork(100, 101, 100, 100, 1 * SEC + 4)


# PEBS of Sapphire Rapids: loads with latencies in three parts, stores by another event.
LEVELS = [(1, 0, 5, 50), (3, 0, 60, 30), (13, 0, 300, 15),
          (13, 1, 600, 5)]  # number, remote, cycles, %


def pebs():
    common = (e.IDENTIFIER | e.IP | e.TID | e.TIME | e.ADDR | e.CPU | e.DATA_SRC | e.WEIGHT_STRUCT |
              e.PHYS_ADDR | e.DATA_PAGE_SIZE)
    loads = e.Event(common, e.TYPE_RAW, 0x1cd, 10007, ids=[1], name="cpu/mem-loads,ldlat=3/P",
                    precise=2, config1=3)
    stores = e.Event(common, e.TYPE_RAW, 0x2cd, 20011, ids=[2], name="cpu/mem-stores/P", precise=2)
    for order in "<>":
        file = e.File([loads, stores], order)
        file.features = {6: file.string("x86_64"), 12: file.event_names()}
        process(file)
        time, n = 2 * SEC, 0
        for i in range(1000):
            number, remote, cycles, _ = next(level for level in LEVELS
                                             if i % 100 < sum(l[3] for l in
                                                              LEVELS[:LEVELS.index(level) + 1]))
            time += 1000
            base = FAR if remote else NEAR
            file.sample(loads, 100, 101, time, 0x401000,
                        base + 4096 + 8 * i, weight=cycles | 7 << 32 | 2 << 48, data_src=word(
                            2, number,
                            remote=remote), phys=0x100000 + i, page=4096 if i % 2 else 2 * MIB)
            n += 1
        for i in range(300):  # in turn; kernels before August 2022 call these loads
            file.sample(stores, 100, 100, time + 10 * i, 0x402000, NEAR + 64, weight=20,
                        data_src=word(2, 1, snoop=16 if i % 3 == 0 else 2))
            file.sample(stores, 100, 101, time + 10 * i + 5, 0x402008, NEAR + 72, weight=20,
                        data_src=word(2, 1, snoop=16 if i % 3 == 0 else 2))
        file.sample(loads, 100, 101, time + 5000, 0x401000, 0, data_src=word(2, 1))
        file.sample(loads, 100, 101, time + 5001, 0x401000, 0xffffffff81000000, data_src=word(2, 1))
        file.throttle(time + 5002, event=loads)
        file.throttle(time + 9002, is_end=True, event=loads)
        path = file.write(os.path.join(scratch.name, "pebs%d.data" % ord(order)))
        check_pebs(path)
        checks.that(report(path, "findings") == [], "5 % of another node stand out")
    far_loads()


def far_loads():
    """Of 1000 loads 200 are served by another node: that stands out, with what they were at."""
    loads = e.Event(e.IP | e.TID | e.TIME | e.ADDR | e.DATA_SRC, e.TYPE_RAW, 0x1cd, 10007,
                    name="cpu/mem-loads,ldlat=3/P", precise=2, config1=3)
    file = e.File([loads], "<")
    file.features = {6: file.string("x86_64"), 12: file.event_names()}
    process(file)
    for i in range(1000):
        is_far = i % 5 == 0
        file.sample(loads, 100, 101, 2 * SEC + 1000 * i, 0x401000,
                    (FAR if is_far else NEAR) + 4096 + 8 * i,
                    data_src=word(2, 13, remote=int(is_far)))
    path = file.write(os.path.join(scratch.name, "remote.data"))
    rows = report(path, "findings")
    checks.that(len(rows) == 1 and rows[0]["rule"] == "remote" and rows[0]["size"] == 0.2 and
                0.1 < rows[0]["low"] < 0.2 < rows[0]["high"] < 0.3 and
                "most of them at mapping of /dev/shm/far" in rows[0]["text"] and
                rows[0]["next"] == "--locality", f"findings: {rows}")


def check_pebs(path):
    database = analyzed(path)
    rows = {(row["source"], row["what"]): row for row in report(path, "locality")}
    for number, remote, cycles, percent in LEVELS:
        name = ("remote " * remote + {1: "L1", 3: "L3", 13: "RAM"}[number])
        row = rows[("pebs: loads", "accesses: " + name)]
        extra = 2 if number == 1 else 0  # address 0 and the kernel's
        checks.that(row["samples"] == 10 * percent + extra, "%s: %s" % (name, row))
        checks.that(
            abs(row["share"] - (10 * percent + extra) / 1002) < 1e-9, "%s: %s" % (name, row))
        checks.that(row["mean cycles"] == cycles, "%s: %s" % (name, row))
        whole_sum = sum(c * 10 * p for _, _, c, p in LEVELS)
        checks.that(abs(row["of all cycles"] - cycles * 10 * percent / whole_sum) < 1e-9,
                    "%s: %s" % (name, row))
    row = rows[("pebs: stores", "accesses: L1")]
    checks.that((row["samples"], row["writes"], row["HitM"]) == (600, 600, 200), "stores %s" % row)
    objects = {(row["source"], row["object"].split(" of ")[-1], row["kind"]): row
               for row in report(path, "accesses")}
    row = objects[("pebs: loads", "/dev/shm/far", "mapping")]
    checks.that((row["samples"], row["levels"], row["writes"]) == (50, "remote RAM 100%", 0),
                "far: %s" % row)
    row = objects[("pebs: loads", "anonymous memory", "mapping")]
    checks.that((row["samples"], row["levels"]) == (950, "L1 53%, L3 32%, RAM 16%"),
                "near: %s" % row)
    checks.that(not whole.disagreement(memsight, path + ".db"),
                whole.disagreement(memsight, path + ".db"))
    checks.that(database.ask("SELECT count(*), min(latency_2), max(latency_2), min(latency_3),"
                             " min(physical_address), count(page_bytes), min(page_bytes),"
                             " max(page_bytes) FROM access_detail WHERE latency_2 IS NOT NULL") ==
                [(1000, 7, 7, 2, 0x100000, 1000, 4096, 2 * MIB)], "details")
    losses = database.losses()
    checks.that({reason: count
                 for (source, reason), count in losses.items()} == {
                     "address 0: read through null, or not known to the hardware": 1,
                     "address in the kernel": 1, "throttled": 1
                 }, "losses %s" % losses)
    checks.that(database.ask("SELECT n_taken, n_throttles, throttled_ns, n_zero, n_kernel FROM"
                             " source_ledger ORDER BY source_id") == [(1002, 1, 4000, 1, 1),
                                                                      (600, 0, 0, 0, 0)], "ledger")
    sharing = report(path, "sharing")
    row = [row for row in sharing if row["line"] == hex(NEAR + 64)]
    # Counted from when the first thread comes back, up to the last turn that the other one
    # followed.
    checks.that(row and row[0]["sharing"] == "different bytes" and row[0]["HitM"] == 200 and
                row[0]["writes"] == 597, "sharing %s" % sharing)
    # The same from the rows: no aggregate says anything else.
    checks.that(database.one("SELECT sum(n) FROM access_total") == database.one(
        "SELECT count(*) FROM touch"), "sums")
    part = json.loads(
        whole.run([
            memsight, "report", path, "--accesses", "--from", "1.0009s", "--to", "1.0011s",
            "--format", "json"
        ]))
    wanted = database.ask(
        "SELECT source_id, count(*) FROM touch JOIN sample ON sample.id = sample_id"
        " WHERE time_ns >= 1000900000 AND time_ns < 1001100000 GROUP BY 1")
    checks.that(sum(row["samples"] for row in part) == sum(n for _, n in wanted) > 0,
                "a part: %s, not %s" % (part, wanted))


def ibs():
    event = e.Event(e.IDENTIFIER | e.IP | e.TID | e.TIME | e.CPU | e.RAW, 11, 1 << 19, 100000,
                    ids=[1], name="ibs_op//")
    file = e.File([event])
    file.features = {6: file.string("x86_64"), 16: file.pmus({11: "ibs_op"})}
    process(file)
    valid, miss, l2_miss = 1 << 17 | 1 << 18, 1 << 7, 1 << 20
    kinds = [(0, 0, 600), (1 | valid, 0, 200), (2 | valid, 0, 100),
             (1 | valid | miss | l2_miss | 250 << 32, 3, 60),
             (1 | valid | miss | l2_miss | 700 << 32, 3 | 1 << 4, 40)]
    time = 2 * SEC
    for data3, data2, count in kinds:
        for i in range(count):
            time += 1000
            raw = struct.pack("<IQQQQQQQ", 0xfff, 1 << 17, 0x401000, 0, data2, data3,
                              NEAR + 8 * i, 0x5000 + i)
            file.sample(event, 100, 100, time, 0x401000, raw=raw)
    file.sample(event, 100, 100, time + 1, 0x401000, raw=b"abcd")  # too few registers
    path = file.write(os.path.join(scratch.name, "ibs.data"))
    database = analyzed(path)
    rows = {row["what"]: row for row in report(path, "locality")}
    told = {what: (row["samples"], row["writes"], row["mean cycles"]) for what, row in rows.items()}
    checks.that(told == {"accesses: L1": (300, 100, None), "accesses: RAM": (60, 0, 250),
                         "accesses: remote RAM": (40, 0, 700)}, "levels %s" % told)
    checks.that(not whole.disagreement(memsight, path + ".db"),
                whole.disagreement(memsight, path + ".db"))
    checks.that(database.one("SELECT n_samples FROM source WHERE name = 'ibs'") == 1001, "samples")
    checks.that(list(database.losses().values()) == [601], "losses %s" % database.losses())
    checks.that(
        database.one("SELECT count(*) FROM access_detail WHERE physical_address >= 0x5000") == 400,
        "physical addresses")


def packet(head, payload, size):
    return bytes([head]) + payload.to_bytes(size, "little")


def spe():
    event = e.Event(e.IDENTIFIER | e.TID | e.TIME | e.CPU, 8, 1, 1024, ids=[1], name="arm_spe_0//")
    file = e.File([event])
    file.features = {6: file.string("aarch64"), 16: file.pmus({8: "arm_spe_0"})}
    process(file)
    data = b""
    for store, source, total, count in ((0, 0x0, 14, 70), (0, 0xe, 410, 20), (1, None, 30, 10)):
        for i in range(count):
            data += packet(0xb0, 0x401000, 8) + packet(0x99, 10, 2) + packet(0x98, total, 2)
            data += packet(0x52, 0x6, 2) + packet(0x49, store, 1) + packet(0xb2, NEAR + 8 * i, 8)
            data += packet(0x43, source, 1) if source is not None else b""
            data += packet(0x65, 101, 4) + packet(0x71, 5000 + i, 8)
    data += packet(0xb0, 0x401000, 8) + packet(0x4a, 0, 1) + packet(0x71, 9000, 8)  # a branch
    file.aux_info(4, [8])
    cut = len(data) // 2 + 3  # a record lies across both pieces
    file.aux_record(0, cut, time=2 * SEC)
    file.aux(data[:cut], 0, cpu=3)
    file.aux_record(cut, len(data) - cut, flags=1 | 8, time=3 * SEC)
    file.aux(data[cut:], cut, cpu=3)
    path = file.write(os.path.join(scratch.name, "spe.data"))
    database = analyzed(path)
    rows = {row["what"]: row for row in report(path, "locality")}
    told = {what: (row["samples"], row["writes"], row["mean cycles"]) for what, row in rows.items()}
    checks.that(told == {"accesses: L1": (80, 10, 6), "accesses: RAM": (20, 0, 400)},
                "levels %s" % told)
    checks.that(not whole.disagreement(memsight, path + ".db"),
                whole.disagreement(memsight, path + ".db"))
    checks.that(database.ask("SELECT owner.name, tid, count(*) FROM touch JOIN owner ON owner.id ="
                             " owner_kind JOIN sample ON sample.id = sample_id JOIN thread ON"
                             " thread.id = thread_id GROUP BY 1, 2") == [("mapping", 101, 100)],
                "owners")
    checks.that(database.ask("SELECT n_aux_truncated, n_aux_collision, n_no_memory FROM"
                             " source_ledger") == [(1, 1, 1)], "ledger %s" % database.ask(
                                 "SELECT * FROM source_ledger"))


{"pebs": pebs, "ibs": ibs, "spe": spe}[part]()
checks.end()
