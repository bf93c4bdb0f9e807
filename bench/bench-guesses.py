#!/usr/bin/env python3
"""Who made the blocks from before an attach: guesses against the truth, in real programs.

usage: bench-guesses.py MEMSIGHT TRUTH [--only perl,jq,...] [--seconds N] [--warm N]

Each program runs with TRUTH preloaded, which keeps the call stack of each live block in a file of
its own (attach-truth.c). It fills its memory, and goes on changing it; then it is attached to for
--seconds. A guess is right where the block's own call stack has the guessed call.

Printed per program: blocks and bytes from before that were left at the end, the share of them in
whose call stack is a call that made blocks since (no other can be guessed), the share of the bytes
that have a guess, the share of these that are right; then stated against true probability.
"""
import argparse
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

N_FRAMES, ITEM_BYTES = 14, 128
BINS = (0.9, 0.95, 0.98, 0.99)

PERL = """
my %h; my $i = 0;
sub put { my $k = shift; $h{$k % 30000} = { name => "n$k", list => [1 .. $k % 10],
                                            text => "t" x ($k % 100) } }
put($_) for 1 .. 60000;
while (1) { put(int rand 1e6); select(undef, undef, undef, 0.001) unless $i++ % 50 }
"""
AWK = """BEGIN { for (i = 0; i < 100000; i++) a[i % 20000] = "x" i "text" i
  while (1) { k = int(rand() * 20000); delete a[k]; a[k] = "y" k substr("abcdefgh", 1, k % 8) } }"""
JQ = """[range(20000) | {a: ., b: "s\\(.)", c: [., 1]}] | until(false;
  .[(now * 1000000 % 20000) | floor] = {a: 1, b: "t\\(now)", c: [2]})"""
TCL = """
proc put k {
  global h; set h([expr {$k % 20000}]) [list name $k [string repeat x [expr {$k % 90}]]]
}
for {set i 0} {$i < 40000} {incr i} { put $i }
while 1 { put [expr {int(rand() * 1000000)}] }
"""
PYTHON = """
import json, random
class Item:
    def __init__(self, i): self.parts, self.name, self.table = [i] * 20, "name %d" % i, {i: i * 2}
kept = {}
def put(i): kept[i % 20000] = Item(i); kept[-i % 20000] = json.loads('{"a": [1, 2, "x%d"]}' % i)
for i in range(40000): put(i)
while True: put(random.randrange(20000))
"""
SQL = """PRAGMA cache_size = 100000;
CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, more BLOB); CREATE INDEX i ON t(name);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO t SELECT i, 'name' || i, randomblob(i % 300) FROM n;
"""
SQL_TURN = """CREATE TABLE IF NOT EXISTS u{0}(a, b); DROP TABLE IF EXISTS u{1};
UPDATE t SET name = 'other' || {0} || id, more = randomblob({0} % 400) WHERE id % 97 = {0} % 97;
SELECT count(*) FROM (SELECT name, count(*) FROM t GROUP BY substr(name, 1, 7) ORDER BY 2);
"""
LUA = """local h = {}
local function put(k)
  h[k % 30000] = {name = 'n' .. k, list = {k, k + 1, {k}}, text = string.rep('t', k % 100)}
end
for i = 1, 60000 do put(i) end
while true do
  for i = 1, 50 do put(math.random(1000000)) end
  local t = os.clock() while os.clock() - t < 0.003 do end
end"""
BASH = """declare -A h
for ((i = 0; i < 20000; i++)); do h[k$((i % 8000))]="text $i ${i}"; l[i % 5000]=x$i; done
f() { local a=$1; echo ${a:0:5} > /dev/null; }
while :; do k=$((RANDOM % 8000)); h[k$k]="other $RANDOM $k"; l[k % 5000]=y$RANDOM; f $k; done"""
VIM_PUT = "let h[i % 8000] = {'name': 'n' . i, 'list': range(i % 10), 'text': repeat('t', i % 100)}"
VIM = f"""let h = {{}}
for i in range(20000)
{VIM_PUT}
endfor
while 1
let i = (i * 7919 + 13) % 1000003
{VIM_PUT}
endwhile
"""
NODE = """const c = require('crypto'), z = require('zlib'), m = new Map(); let i = 0;
function turn() { for (let k = 0; k < 20; k++, i++) m.set(i % 2000, [
  c.createHash('sha1').update('x' + i), Buffer.allocUnsafeSlow(i % 3000 + 10),
  i % 50 ? 0 : z.createDeflate()]); setImmediate(turn) }
turn()"""
XML = """
import collections, datetime, decimal, sqlite3, xml.etree.ElementTree as tree
db = sqlite3.connect(':memory:'); db.execute('CREATE TABLE t(a, b)'); kept = {}; i = 0
while True:
    i += 1
    kept[i % 5000] = (tree.fromstring('<a x="%d"><b>t%d</b><c/></a>' % (i, i)), {i, i + 1},
                      decimal.Decimal(i) / 7, datetime.datetime(2000, 1, 1 + i % 28),
                      collections.OrderedDict(a=i), bytearray(i % 200))
    db.execute('INSERT INTO t VALUES(?, ?)', (i, 'x' * (i % 60)))
    if i % 50 == 0: db.execute('DELETE FROM t WHERE a < ?', (i - 20000,))
"""
CMAKE = """foreach(i RANGE 20000)
  math(EXPR k "${i} % 3000")
  set(v${k} "text ${i}")
  list(APPEND l ${k})
  set_property(GLOBAL PROPERTY p${k} "value ${i};${k}")
endforeach()
while(1)
  string(RANDOM LENGTH 3 ALPHABET 0123456789 k)
  set(v${k} "other ${k} text that is longer than a short string of C++")
  set_property(GLOBAL PROPERTY p${k} "new ${k};${k};${k}")
  set(l ${k})
  macro(m${k} a)
    set(x${k} "${a}")
  endmacro()
endwhile()
"""
CPP = "#include <map>\n#include <regex>\n#include <functional>\n" + "".join(
    f"""int f{i}(std::map<int, std::string> &m) {{ std::regex r("a{i}"); std::map<int, float> u;
u[{i}] = 1; auto l = [&](int x) {{ return m[x + {i}]; }};
return l({i}).size() + std::regex_match(m[1], r); }}\n""" for i in range(6000))
PROGRAMS = {
    "perl": ["perl", "-e", PERL], "mawk": ["mawk", AWK], "jq": ["jq", "-n", JQ],
    "tclsh": ["tclsh"], "sqlite3": ["sqlite3", ":memory:"],
    "python3": ["/usr/bin/python3", "-c", PYTHON],
    "gdb": ["gdb", "-q", "-batch", "-ex", "python exec(%r)" % PYTHON],
    "gawk": ["gawk", AWK], "node": ["node", "-e", NODE], "lua": ["lua5.4", "-e", LUA],
    "bash": ["bash", "-c", BASH],
    "vim": ["vim", "-u", "NONE", "-es", "-S", "/dev/stdin"],
    "python3-xml": ["/usr/bin/python3", "-c", XML],
    "cmake": ["cmake", "-P", "/dev/stdin"],
    "clang": ["clang", "-O1", "-c", "-x", "c++", "-", "-o", "/dev/null"],
}
INPUTS = {"tclsh": TCL, "vim": VIM, "cmake": CMAKE, "clang": CPP}


def feed_sql(process):
    """Statements as fast as it takes them, for ever."""
    process.stdin.write(SQL.encode())
    for i in range(10 ** 9):
        process.stdin.write(SQL_TURN.format(i, i - 30).encode())
        process.stdin.flush()


class Truth:
    """Live blocks by address that were made until a moment: their return addresses."""

    def __init__(self, path, until_ns):
        with open(path, "rb") as file:
            data = file.read()
        self.blocks = {}
        for at in range(0, len(data), ITEM_BYTES):
            if data[at:at + 8] != bytes(8):
                words = struct.unpack_from(f"<{2 + N_FRAMES}Q", data, at)
                if words[1] <= until_ns:
                    self.blocks[words[0]] = set(words[2:])


MODULES = "(SELECT path, min(bias) AS bias FROM module GROUP BY path) AS module"


def compare(database, truth):
    """(sizes of all, of those of calls that are known, guesses (probability, is right, size))."""
    before = database.execute(
        "SELECT address, size FROM allocation WHERE freed_ns IS NULL AND call ="
        " (SELECT id FROM call WHERE name = 'before the attach')").fetchall()
    there = {address: size for address, size in before if address in truth.blocks}
    known = {offset + bias + 1 for offset, bias in database.execute(
        "SELECT DISTINCT offset, bias FROM allocation JOIN stack ON stack.id = allocation.stack_id"
        " LEFT JOIN stack AS user ON user.id = stack.user_id JOIN frame ON frame.id ="
        f" coalesce(user.frame_id, stack.frame_id) JOIN {MODULES} ON module.path = frame.path"
        " WHERE call <> (SELECT id FROM call WHERE name = 'before the attach')")}
    possible = [size for address, size in there.items() if truth.blocks[address] & known]
    guesses = []
    for address, probability, offset, bias in database.execute(
            "SELECT address, probability, offset, bias FROM probable_site JOIN frame ON frame.id ="
            f" frame_id JOIN {MODULES} ON module.path = frame.path"):
        if address in there:
            guesses.append((probability, bias + offset + 1 in truth.blocks[address],
                            there[address]))
    return list(there.values()), possible, guesses


def percent(part, whole):
    return f"{100 * part / max(whole, 1):5.1f} %"


def run(name, args, folder):
    path, trace = os.path.join(folder, name + ".truth"), os.path.join(folder, name + ".mst")
    environment = dict(os.environ, LD_PRELOAD=args.truth, TRUTH_FILE=path, PYTHONMALLOC="malloc")
    stdin = subprocess.PIPE
    if name in INPUTS: # a file: cmake looks back in it
        stdin = os.open(os.path.join(folder, name + ".in"), os.O_RDWR | os.O_CREAT)
        os.write(stdin, INPUTS[name].encode())
        os.lseek(stdin, 0, os.SEEK_SET)
    process = subprocess.Popen(PROGRAMS[name], env=environment, stdin=stdin,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    feeder = None
    if name == "sqlite3":
        feeder = os.fork()
        if feeder == 0:
            try:
                feed_sql(process)
            finally:
                os._exit(0)
    time.sleep(args.warm)
    began_ns = time.monotonic_ns()
    done = subprocess.run([args.memsight, "attach", str(process.pid), "-f", "-q", "-o", trace,
                           "--source", "none", "--duration", f"{args.seconds}s", "--timeout",
                           "20s"], check=False)
    process.send_signal(signal.SIGSTOP)
    subprocess.run([args.memsight, "analyze", "-f", trace], stdout=subprocess.DEVNULL, check=False)
    truth = Truth(path, began_ns)
    process.kill()
    process.wait()
    if feeder:
        os.kill(feeder, signal.SIGKILL)
        os.waitpid(feeder, 0)
    if done.returncode:
        return []
    there, possible, guesses = compare(sqlite3.connect(trace + ".db"), truth)
    n, n_bytes = len(there), sum(there)
    named = sum(size for _, _, size in guesses)
    right = sum(size for _, is_right, size in guesses if is_right)
    n_right = sum(is_right for _, is_right, _ in guesses)
    print(f"{name:8} {n:8} blocks, {n_bytes / 1e6:8.2f} MB, of calls that are known"
          f" {percent(sum(possible), n_bytes)} of bytes ({percent(len(possible), n)} of blocks),"
          f" named {percent(named, n_bytes)} of bytes ({percent(len(guesses), n)} of blocks),"
          f" of these right {percent(right, named)} of bytes"
          f" ({percent(n_right, len(guesses))} of blocks)", flush=True)
    return guesses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("memsight", type=os.path.abspath)
    parser.add_argument("truth", type=os.path.abspath)
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warm", type=float, default=8)
    args = parser.parse_args()
    guesses = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            if not shutil.which(PROGRAMS[name][0]):
                print(f"{name}: not installed, left out")
                continue
            guesses += run(name, args, folder)
    print("stated           guesses   mean stated   true")
    for low, high in zip(BINS, (*BINS[1:], 1.01)):
        some = [g for g in guesses if low <= g[0] < high]
        if some:
            print(f"{low:.3f} to {min(high, 1):.3f} {len(some):9}"
                  f" {sum(g[0] for g in some) / len(some):12.3f}"
                  f" {sum(g[1] for g in some) / len(some):9.3f}")


main()
