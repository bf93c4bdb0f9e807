"""Writes perf.data files from what a test says: both byte orders, as a file or as what a pipe
wrote, after tools/perf/Documentation/perf.data-file-format.txt and linux/perf_event.h. It shares
nothing with the reader."""
import struct

# PERF_SAMPLE_*
IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD = (1 << bit for bit in range(9))
RAW = 1 << 10
REGS_USER, STACK_USER, WEIGHT, DATA_SRC, IDENTIFIER = (1 << bit for bit in (12, 13, 14, 15, 16))
PHYS_ADDR, DATA_PAGE_SIZE, WEIGHT_STRUCT = 1 << 19, 1 << 22, 1 << 24

# PERF_RECORD_*
(MMAP, LOST, COMM, EXIT, THROTTLE, UNTHROTTLE, FORK, SAMPLE, MMAP2, AUX, ITRACE_START,
 LOST_SAMPLES) = (
    1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)
HEADER_ATTR, BUILD_ID, FINISHED_ROUND, AUXTRACE_INFO, AUXTRACE, EVENT_UPDATE, TIME_CONV, FEATURE = (
    64, 67, 68, 70, 71, 78, 79, 80)

MISC_KERNEL, MISC_USER, MISC_EXEC, MISC_BUILD_ID = 1, 2, 1 << 13, 1 << 14

# Bits of perf_event_attr's flags.
EXCLUDE_KERNEL, FREQ, SAMPLE_ID_ALL, USE_CLOCKID = 1 << 5, 1 << 10, 1 << 18, 1 << 25

TYPE_SOFTWARE, TYPE_RAW = 1, 4
SW_CPU_CLOCK, SW_PAGE_FAULTS, SW_DUMMY = 0, 2, 9


def padded(data, to=8):
    return data + b"\0" * (-len(data) % to)


class Event:
    """An event with its attributes; its ids are told to the file."""

    def __init__(self, sample_type, type=TYPE_RAW, config=0, period=1, flags=SAMPLE_ID_ALL, ids=(),
                 name="", size=136, precise=0, clock=None, config1=0, regs=0, read_format=0):
        self.sample_type, self.type, self.config, self.period = sample_type, type, config, period
        self.flags, self.ids, self.name, self.size = flags | precise << 15, list(ids), name, size
        self.clock, self.config1, self.regs, self.read_format = clock, config1, regs, read_format
        if clock is not None:
            self.flags |= USE_CLOCKID


class File:
    """The file grows in .records; .bytes() gives the whole. order: "<" or ">"."""

    def __init__(self, events, order="<", pipe=False, features=None):
        self.events, self.order, self.pipe = events, order, pipe
        self.features = features or {}
        self.records = bytearray()

    def pack(self, form, *values):
        return struct.pack(self.order + form, *values)

    # ---- Heads ----

    def attr(self, event):
        flags = event.flags.to_bytes(8, "little")
        if self.order == ">":  # bit fields begin at a byte's other end
            flags = bytes(int("{:08b}".format(byte)[::-1], 2) for byte in flags)
        whole = (self.pack("IIQQQQ", event.type, event.size, event.config, event.period,
                           event.sample_type, event.read_format) + flags +
                 self.pack("IIQQQQIiQIHHIIQQ", 0, 0, event.config1, 0, 0, event.regs, 0,
                           event.clock or 0, 0, 0, 0, 0, 0, 0, 0, 0))
        return whole[:event.size].ljust(event.size, b"\0")

    def string(self, text):
        data = padded(text.encode() + b"\0", 64)
        return self.pack("I", len(data)) + data

    def strings(self, texts):
        return self.pack("I", len(texts)) + b"".join(self.string(text) for text in texts)

    def pmus(self, names):
        """PMU_MAPPINGS from {type: name}."""
        return self.pack("I", len(names)) + b"".join(
            self.pack("I", number) + self.string(name) for number, name in names.items())

    def clock(self, clock_id, wall_ns, clock_ns):
        return self.pack("IIQQ", 1, clock_id, wall_ns, clock_ns)

    def build_id(self, path, build_id):
        body = self.pack("i", -1) + padded(
            build_id + b"\0" *
            (20 - len(build_id)) + bytes([len(build_id)]), 24) + padded(path.encode() + b"\0")
        return self.pack("IHH", BUILD_ID, 1 << 15 | MISC_USER, 8 + len(body)) + body

    def event_names(self):
        size = self.events[0].size
        return self.pack("II", len(self.events), size) + b"".join(
            self.attr(event)[:size].ljust(size, b"\0") + self.pack("I", len(event.ids)) +
            self.string(event.name) + b"".join(self.pack("Q", i) for i in event.ids)
            for event in self.events)

    # ---- Records ----

    def record(self, type, misc, body):
        """A record as it is."""
        self.records += self.pack("IHH", type, misc, 8 + len(body)) + body

    def trailer(self, event, pid, tid, time, cpu):
        if not event.flags & SAMPLE_ID_ALL:
            return b""
        has, ident = event.sample_type, event.ids[0] if event.ids else 0
        return ((self.pack("II", pid, tid) if has & TID else b"") +
                (self.pack("Q", time) if has & TIME else b"") +
                (self.pack("Q", ident) if has & ID else b"") +
                (self.pack("II", cpu, 0) if has & CPU else b"") +
                (self.pack("Q", ident) if has & IDENTIFIER else b""))

    def kernel_record(self, type, misc, body, pid=0, tid=0, time=0, cpu=0, event=None):
        self.record(type, misc, body + self.trailer(event or self.events[0], pid, tid, time, cpu))

    def comm(self, pid, tid, name, time=0, is_exec=False, **more):
        self.kernel_record(COMM, MISC_EXEC if is_exec else 0,
                           self.pack("II", pid, tid) + padded(name.encode() + b"\0"), pid, tid,
                           time, **more)

    def fork(self, pid, tid, parent, parent_tid, time, **more):
        self.kernel_record(FORK, 0, self.pack("IIIIQ", pid, parent, tid, parent_tid, time), parent,
                           parent_tid, time, **more)

    def exit(self, pid, tid, time, **more):
        self.kernel_record(EXIT, 0, self.pack("IIIIQ", pid, pid, tid, tid, time), pid, tid, time,
                           **more)

    def map(self, pid, tid, address, size, path, time=0, offset=0, prot=5, flags=2, build_id=None,
            **more):
        identity = self.pack("IIQQ", 8, 1, 77, 0)
        if build_id:
            identity = padded(bytes([len(build_id), 0, 0, 0]) + build_id, 24).ljust(24, b"\0")
        self.kernel_record(MMAP2, MISC_USER | (MISC_BUILD_ID if build_id else 0),
                           self.pack("IIQQQ", pid, tid, address, size, offset) + identity +
                           self.pack("II", prot, flags) + padded(path.encode() + b"\0"), pid, tid,
                           time, **more)

    def lost(self, count, time=0, event=None):
        self.kernel_record(LOST, 0, self.pack("QQ", 0, count), time=time, event=event)

    def throttle(self, time, is_end=False, event=None):
        event = event or self.events[0]
        ident = event.ids[0] if event.ids else 0
        self.kernel_record(UNTHROTTLE if is_end else THROTTLE, 0,
                           self.pack("QQQ", time, ident, ident), time=time, event=event)

    def round(self):
        self.record(FINISHED_ROUND, 0, b"")

    def sample(self, event, pid=1, tid=1, time=0, ip=0, addr=0, cpu=0, period=1, weight=0,
               data_src=0, phys=0, page=0, raw=b"", chain=(), misc=MISC_USER, regs=(), stack=b"",
               read=()):
        has, ident = event.sample_type, event.ids[0] if event.ids else 0
        body = bytearray()
        for bit, made in (
                (IDENTIFIER, lambda: self.pack("Q", ident)), (IP, lambda: self.pack("Q", ip)),
                (TID, lambda: self.pack("II", pid, tid)), (TIME, lambda: self.pack("Q", time)),
                (ADDR, lambda: self.pack("Q", addr)), (ID, lambda: self.pack("Q", ident)),
                (CPU, lambda: self.pack("II", cpu, 0)), (PERIOD, lambda: self.pack("Q", period)),
                (READ, lambda: b"".join(self.pack("Q", value) for value in read)),
                (CALLCHAIN, lambda: self.pack("Q%dQ" % len(chain), len(chain), *chain)),
                # The kernel pads size and bytes together and counts the padding.
                (RAW, lambda: self.pack("I", len(padded(b"1234" + raw)) - 4) +
                 padded(b"1234" + raw)[4:]),
                (REGS_USER, lambda: self.pack("Q%dQ" % len(regs), 2, *regs)),
                (STACK_USER, lambda: self.pack("Q", len(stack)) + stack +
                 (self.pack("Q", len(stack)) if stack else b"")),
                (WEIGHT, lambda: self.pack("Q", weight)),
                (WEIGHT_STRUCT, lambda: self.pack("Q", weight)),
                (DATA_SRC, lambda: self.pack("Q", data_src)),
                (PHYS_ADDR, lambda: self.pack("Q", phys)),
                (DATA_PAGE_SIZE, lambda: self.pack("Q", page))):
            if has & bit:
                body += made()
        self.record(SAMPLE, misc, bytes(body))

    def aux_info(self, kind, words=()):
        self.record(AUXTRACE_INFO, 0, self.pack("II%dQ" % len(words), kind, 0, *words))

    def aux(self, data, offset=0, cpu=0, tid=-1):
        self.record(AUXTRACE, 0, self.pack("QQQIiiI", len(data), offset, 0, 0, tid, cpu, 0))
        self.records += data

    def aux_record(self, offset, size, flags=0, **more):
        self.kernel_record(AUX, 0, self.pack("QQQ", offset, size, flags), **more)

    # ---- The whole ----

    def bytes(self):
        return self.as_pipe() if self.pipe else self.as_file()

    def as_pipe(self):
        head = self.pack("Q", 0x32454c4946524550) + self.pack("Q", 16)
        for event in self.events:
            body = self.attr(event) + b"".join(self.pack("Q", i) for i in event.ids)
            head += self.pack("IHH", HEADER_ATTR, 0, 8 + len(body)) + body
        for event in self.events:
            if event.name and event.ids:
                body = self.pack("QQ", 2, event.ids[0]) + padded(event.name.encode() + b"\0")
                head += self.pack("IHH", EVENT_UPDATE, 0, 8 + len(body)) + body
        for number, body in self.features.items():
            body = self.pack("Q", number) + padded(body)
            head += self.pack("IHH", FEATURE, 0, 8 + len(body)) + body
        return head + bytes(self.records)

    def as_file(self):
        """Header, ids, attributes, records, and the features with their sections before them."""
        ids = [b"".join(self.pack("Q", i) for i in event.ids) for event in self.events]
        attr_bytes = max(event.size for event in self.events) + 16
        attrs_at = 104 + sum(map(len, ids))
        records_at = attrs_at + attr_bytes * len(self.events)
        bits = sum(1 << number for number in self.features)
        head = (self.pack("QQQ", 0x32454c4946524550, 104, attr_bytes) +
                self.pack("QQ", attrs_at, attr_bytes * len(self.events)) +
                self.pack("QQ", records_at, len(self.records)) + self.pack("QQ", 0, 0) +
                b"".join(self.pack("Q", bits >> 64 * i & (1 << 64) - 1) for i in range(4)))
        attrs, at = b"", 104
        for event, own in zip(self.events, ids):
            attrs += self.attr(event).ljust(attr_bytes - 16, b"\0") + self.pack("QQ", at, len(own))
            at += len(own)
        sections, bodies = b"", b""
        at = records_at + len(self.records) + 16 * len(self.features)
        for number in sorted(self.features):
            sections += self.pack("QQ", at + len(bodies), len(self.features[number]))
            bodies += self.features[number]
        return head + b"".join(ids) + attrs + bytes(self.records) + sections + bodies

    def write(self, path):
        with open(path, "wb") as file:
            file.write(self.bytes())
        return path
