"""make-corpus.py FOLDER: the seeds of tests/robust/fuzz that are made by hand, as
FOLDER/corpus-NAME/SEED. How those in the tree were made; perf-data's are by
tests/system/perf-data/make-corpus.py, traces by `fuzz-trace-inputs --corpus`."""
import io
import pathlib
import struct
import sys
import tarfile

FOLDER = pathlib.Path(sys.argv[1])


def seed(target, name, data):
    place = FOLDER / f"corpus-{target}"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(data if isinstance(data, bytes) else data.encode())


# ---- .eh_frame_hdr, then .eh_frame: one CIE, functions of 32 bytes (LSB core; DWARF 5, 6.4) ----

def padded(data):
    return data + bytes(-len(data) % 8)


def entry(identity, body):
    body = struct.pack("<i", identity) + body
    body = padded(body + bytes(4))[:-4] if len(body) % 8 != 4 else body
    return struct.pack("<I", len(body)) + body


def make_cie(augmentation=b"zR\0", encoding=0x1b, more=b""):
    data = b"\1" + augmentation + b"\1\x78\x10" + b"\1" + bytes([encoding])
    return entry(0, data + b"\x0c\x07\x08\x90\x01" + more + bytes(8 - len(more) % 8))


def make_module(programs, cie):
    """Bytes of a module: the table for searching, then the frames; code is the module itself."""
    n = len(programs)
    at = 12 + 8 * n
    at += -at % 8
    frames, places = bytearray(cie), []
    for i, program in enumerate(programs):
        here = at + len(frames)
        places.append(here)
        body = struct.pack("<iI", 32 * i - (here + 8), 32) + b"\0" + program
        frames += entry(len(frames) + 4, body)
    table = b"\1\x1b\x03\x3b" + struct.pack("<iI", at - 4, n)
    table += b"".join(struct.pack("<ii", 32 * i, place) for i, place in enumerate(places))
    return table + bytes(at - len(table)) + bytes(frames) + bytes(4)


PUSH_RBP = b"\x41\x0e\x10\x86\x02\x43\x0d\x06\x58\x0c\x07\x08"
REMEMBER = b"\x02\x05\x0e\x20\x0a\x44\x0e\x08\x0b\x44\xc6\x08\x06\x09\x06\x0c"
EXPRESSION = b"\x42\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00\x42\x16\x06\x02\x77\x08"
PLT = b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"
ODD = b"\x07\x10\x03\x08\x00\x04\x04\x00\x00\x00\x05\x06\x03\x11\x06" \
      b"\x7f\x12\x07\x7e\x13\x7d\x14\x06\x02\x2e\x10\x2d"
for name, programs, cie in [
        ("frames", [PUSH_RBP, REMEMBER, EXPRESSION, PLT], make_cie()),
        ("odd", [ODD, PUSH_RBP], make_cie()),
        ("signal", [EXPRESSION, REMEMBER], make_cie(b"zRS\0")),
        ("absolute", [PUSH_RBP], make_cie(encoding=0x03))]:
    seed("cfi", name, struct.pack("<IH", 0, 40) + make_module(programs, cie))


# ---- The rest ----

def op(atom, number=0, shift=0):
    return struct.pack("<BBQ", atom, shift, number)


seed(
    "expression", "plt",
    op(0x77, 8) + op(0x80) + op(0x3f) + op(0x1a) + op(0x3b) + op(0x2a) + op(0x33) + op(0x24) +
    op(0x22))
seed("expression", "aligned", op(0x76, 2 ** 64 - 8) + op(0x06))
seed(
    "expression", "all", b"".join(op(0x30 + i) for i in range(30)) + b"".join(
        op(atom) for atom in (0x12, 0x14, 0x1f, 0x20, 0x1c, 0x1e, 0x21, 0x27, 0x25, 0x29, 0x2b,
                              0x2c, 0x2d, 0x2e, 0x13, 0x9c, 0x92, 0x53, 0x9f, 0x23, 0x0a)))

def plane(data):
    """One frame of one raw block (RFC 8878), behind its size."""
    frame = (bytes.fromhex("28b52ffd20") + bytes([len(data)]) +
             (len(data) << 3 | 1).to_bytes(3, "little") + data)
    return struct.pack("<I", len(frame)) + frame


def piece(coding, planes, n_rows, flags=0, other=0, n_dictionary=0, base=5):
    data = b"".join(map(plane, planes))
    return struct.pack("<IIIBBBBB5xHQ", 0, 32 + len(data), n_rows, coding,
                       len(planes) - bool(n_dictionary) * 8, flags, 0, other, n_dictionary,
                       base) + data


def column(coding, planes, n_rows=8, flags=0, other=0, n_dictionary=0, base=5):
    """store/columns/encoding.h; the checksum is put right by the target."""
    return b"\x11" + piece(coding, planes, n_rows, flags, other, n_dictionary, base)


BYTES = bytes(range(8))
seed("chunk", "plain", column(0, [BYTES, BYTES]))
seed("chunk", "delta", column(1, [BYTES], flags=2))
seed("chunk", "relative", column(2, [BYTES], flags=1, other=3))
seed("chunk", "dictionary",
     column(3, [BYTES[:3]] * 8 + [bytes([0, 1, 2, 0, 1, 2, 0, 1])], n_dictionary=3))
seed("chunk", "constant", column(0, []))
seed("chunk", "pieces", column(2, [BYTES], other=3) + piece(0, [], 5) + piece(1, [BYTES], 8))

seed("options", "record",
     "\1--sources\nfaults,clock\n-F\n1k\n--watch\nname+8,16:w\n--\n/bin/true\n-x")
seed(
    "options", "report",
    "\5trace.mst\n--from\n1.5s\n--to\n2min\n--addr\n7f0000001000-7f0000002000"
    "\n--run\na.b.1,2\n--sites")
seed(
    "options", "values",
    "\1--max-size=1GiB\n--buffer-size=64MB\n--depth\n32\n--watch\nlibx.so:v,8\n--nonsens\n'a b'\n\""
)

seed("series", "small", """[series]
name = s
output = results
repetitions = 3
seed = 7
order = sequential
timeout = 1.5s
cool-down = 20ms
environment = A=1 'B=x y'

[workload one]
command = ./a ; b 'c d'
stdin = in.txt
expected-status = 3
check = grep x
[workload two]
command =
    ./p
    ./q -n 1
[mode m1]
dry = yes
[mode m2]
frequency = 100
""")
seed("series", "wrong", "[series]\nrepetitions = many\n[workload\ncommand\n=\n[mode a b]\n\x01 =\n")

ELF = (b"\x7fELF\2\1\1" + bytes(9) +
       struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0x1000, 64, 0, 0, 64, 56, 3, 0, 0, 0) +
       struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 600, 600, 4096) +
       struct.pack("<IIQQQQQQ", 3, 4, 232, 232, 232, 28, 28, 1) +
       struct.pack("<IIQQQQQQ", 2, 6, 264, 264, 264, 112, 112, 8) +
       b"/lib64/ld-linux-x86-64.so.2\0".ljust(32, b"\0") +
       struct.pack("<QQQQQQQQQQQQQQ", 1, 1, 5, 400, 6, 440, 0x6ffffef5, 500, 10, 32, 11, 24, 0, 0))
STRINGS = b"\0libasan.so.8\0malloc\0".ljust(40, b"\0")
SYMBOLS = bytes(24) + struct.pack("<IBBHQQ", 14, 0x12, 0, 1, 0x1000, 8)
HASHES = struct.pack("<IIIIQI", 1, 1, 1, 6, 2 ** 64 - 1, 1) + struct.pack("<I", 0x0d827590 | 1)
seed("program-file", "elf",
     ELF.ljust(400, b"\0") + STRINGS + SYMBOLS.ljust(60, b"\0") + HASHES.ljust(100, b"\0"))
# The loader's name and a note behind the table of segments; two spare entries of DYNAMIC.
seed("elf-copy", "program",
     ELF[:56] + struct.pack("<HHHH", 4, 64, 0, 0) +
     struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 600, 600, 4096) +
     struct.pack("<IIQQQQQQ", 3, 4, 288, 288, 288, 28, 28, 1) +
     struct.pack("<IIQQQQQQ", 4, 4, 316, 316, 316, 28, 28, 4) +
     struct.pack("<IIQQQQQQ", 2, 6, 344, 344, 344, 112, 112, 8) +
     b"/lib64/ld-linux-x86-64.so.2\0" + struct.pack("<III", 4, 12, 3) + b"GNU\0" + bytes(12) +
     struct.pack("<QQQQQQQQQQ", 1, 1, 5, 460, 10, 32, 6, 500, 0, 0) + bytes(36) + STRINGS +
     bytes(140))
seed("program-file", "script", "#! /usr/bin/env python3 -u\nprint(1)\n")

SPE = bytes.fromhex("b00010000000000080" "6489000000" "4900" "52160000" "9a0500" "990400" "4306"
                    "b20020000000000000" "710100000000000000")
seed("hardware", "spe", b"\0" + SPE * 3 + b"\x01\x00\xff")
seed("hardware", "ibs",
     b"\1" + struct.pack("<I8Q", 0x3ff, 0, 0x401000, 0, 0x82, 0x10c0a1, 0x7f00, 0x1f00, 0))

seed("database", "times", b"\0" + bytes(range(48)))
seed("database", "compact", b"\1" + bytes(range(100, 148)))
seed("database", "part", b"\2" + bytes(range(60, 120)))
PART = "\n".join(f"{question}run=1&from=1000&to=9000"
                 for question in ("flame?by=time&", "flame?by=bytes&", "objects?sort=latency&",
                                  "timeline?width=9&", "object?site=1&"))
for i, value in enumerate(
    (7, 1 << 40, 2**63 - 1)):  # one column of a chunk after the other (hostile-packed.c)
    changes = b"".join(
        struct.pack("<BBBBQ", 0xb0 + column % 16, column % 3, column, 255, value)
        for column in range(i * 4, i * 4 + 5))
    seed("view", f"chunks-{i}", b"\0\5" + changes + PART.encode())
    seed("database", f"chunks-{i}", b"\2" + changes)
seed("database", "bytes", b"\0" + bytes([0xd0, 0, 0, 0, 255, 0x10, 2, 0, 0, 0, 0, 0]) * 4)


def make_tar():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in [("build-id/ab", b"data"), ("../out", b"no"), ("/abs", b"no"),
                           ("x" * 120, b"long")]:
            entry_of = tarfile.TarInfo(name)
            entry_of.size = len(data)
            tar.addfile(entry_of, io.BytesIO(data))
        for kind, name, target in [(tarfile.LNKTYPE, "link", "build-id/ab"),
                                   (tarfile.LNKTYPE, "l2", "../../etc/passwd"),
                                   (tarfile.SYMTYPE, "d", "/tmp"), (tarfile.DIRTYPE, "dir", "")]:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, target
            tar.addfile(link)
    return buffer.getvalue()[:12 * 1024]


seed("tar", "entries", b"\0" + make_tar().rstrip(b"\0") + bytes(512))

# ---- First instructions of functions, behind how many bytes of them are moved ----

for name, code in [
        ("usual", "f30f1efa 55 4889e5 4154 53"),
        ("relative", "488d0578563412 833d1032547600 c5fe6f0511223344"),
        ("call", "55 e810325476"), ("call-memory", "55 ff1510325476"),
        ("call-register", "4156 41ffd6"), ("call-table", "50 ff54c808"),
        ("branches", "85ff 7410 0f8811223344 e302 e0f0"), ("jump", "90 eb7f"),
        ("jump-memory", "f30f1efa ff2510325476"), ("immediate", "48c70544332211ffffff7f 90")]:
    seed("move-code", name, bytes([len(bytes.fromhex(code))]) + bytes.fromhex(code) + b"\xc3")
