"""make-corpus.py FOLDER: small perf.data files of every form into a folder: how
tests/robust/fuzz/corpus-perf-data was made."""
import os
import sys

import encode as e

folder = sys.argv[1]
COMMON = e.IDENTIFIER | e.IP | e.TID | e.TIME | e.ADDR


def fill(file, events):
    file.comm(7, 7, "name", is_exec=True)
    file.map(7, 7, 0x1000, 0x2000, "/bin/true", 5)
    file.map(7, 7, 0x8000, 0x2000, "/lib/b", 6, build_id=bytes(range(20)))
    for event in events:
        file.sample(event, pid=7, tid=7, time=9, ip=0x1001, addr=0x8000, raw=b"abcd" * 6,
                    chain=[1, 2], read=[1, event.ids[0]], regs=[1, 2], stack=b"12345678")
    file.fork(8, 8, 7, 7, 10)
    file.lost(3)
    file.exit(8, 8, 11)
    file.throttle(12)
    file.round()


def features(file):
    return {2: file.build_id("/bin/true", bytes(20)), 3: file.string("h"), 7: file.pack("II", 2, 2),
            11: file.strings(["perf", "x"]), 12: file.event_names(),
            14: file.pack("IIQQ", 1, 0, 9, 8) + file.string("0-1"), 16: file.pmus({11: "ibs_op"}),
            29: file.clock(4, 1, 2)}


for order, name in (("<", "little"), (">", "big")):
    for pipe in (False, True):
        events = [
            e.Event(COMMON | e.RAW | e.CALLCHAIN | e.REGS_USER | e.STACK_USER, ids=[1], regs=3,
                    name="a"),
            e.Event(COMMON | e.READ | e.WEIGHT_STRUCT, ids=[2, 3], name="b", read_format=4)
        ]
        file = e.File(events, order, pipe)
        file.features = features(file)
        fill(file, events)
        file.write(os.path.join(folder, name + ("-pipe" if pipe else "-file")))

event = e.Event(COMMON, ids=[1])
file = e.File([event])
file.aux_info(4, [8, 9])
file.aux_record(0, 16)
file.aux(b"\x49\x00\xb2" + bytes(13))
file.record(e.TIME_CONV, 0, file.pack("QQQ", 3, 4, 5))
file.write(os.path.join(folder, "aux"))

# zstd: one frame of one raw block, as RFC 8878 has it: magic, descriptor of one segment, size,
# block.
inner = e.File([event])
fill(inner, [event])
data = bytes(inner.records)
frame = (bytes.fromhex("28b52ffd60") + (len(data) - 256).to_bytes(2, "little") +
         (len(data) << 3 | 1).to_bytes(3, "little") + data)
for number, name in ((81, "zstd"), (83, "zstd2")):
    file = e.File([event])
    cut = len(frame) // 2
    for part in (frame[:cut], frame[cut:]):
        file.record(number, 0, part if number == 81 else
                    file.pack("Q", len(part)) + e.padded(part))
    file.write(os.path.join(folder, name))
