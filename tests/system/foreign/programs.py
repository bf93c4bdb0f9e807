"""Programs that we did not write and that end by themselves: how to run each, what to expect.

Each input is made here and is the same on every machine; each command does some seconds of work at
most, and prints something that would show a difference."""
import dataclasses
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys


def filled(text, folder, port=0):
    """The text with what stands between two @ put in."""
    words = {
        "input": folder / "input", "work": folder / "work", "python": sys.executable, "port": port
    }
    return re.sub("@(%s)@" % "|".join(words), lambda match: str(words[match[1]]), text)


@dataclasses.dataclass
class Case:
    """A program, and what is known about it beforehand."""
    name: str
    package: str  # the Debian package that has it
    needs: list  # commands without which it cannot run
    version: list  # prints its version in the first line
    # @input@ is a folder that is prepared once, @work@ one that is empty each time
    command: list = None
    prepare: object = None  # function(case, input folder)
    variables: dict = dataclasses.field(default_factory=dict)
    status: int = 0
    blocks: tuple = ()  # programs that must be recorded, each with blocks of memory
    untraced: frozenset = frozenset()  # (program, reason) that cannot be recorded
    perhaps: frozenset = frozenset()  # the same, but not seen in each run
    losses: dict = dataclasses.field(default_factory=dict)  # reason: why it is right here
    mask: str = ""  # what differs from run to run without us, too
    says: str = ""  # a pattern in the report
    is_long: bool = True
    unlike_root: str = ""  # why root cannot run it
    only_root: str = ""  # why nobody else can
    timeout: int = 300

    def words(self, folder):
        """The command with its folders put in."""
        return [filled(word, folder) for word in self.command]

    def wrapped(self, folder, wrap):
        """The same, wrapped: all of it, or what stands behind the word @wrap@."""
        words = self.words(folder)
        start = words.index("@wrap@") + 1 if "@wrap@" in words else 0
        return words[:max(start - 1, 0)] + wrap(words[start:])

    def masked(self, output):
        return re.sub(self.mask.encode(), b"", output) if self.mask else output


def write_numbers(case, folder):
    dice = random.Random(7)
    (folder / "numbers.txt").write_text("".join(
        f"{dice.randrange(10**6)}\n" for _ in range(200000)))


def git(folder, *arguments):
    environment = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null",
                       GIT_AUTHOR_DATE="2026-01-01T00:00:00Z",
                       GIT_COMMITTER_DATE="2026-01-01T00:00:00Z")
    subprocess.run(
        ["git", "-C",
         str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True,
        env=environment, stdout=subprocess.DEVNULL)


def make_repository(case, folder):
    """60 commits over 120 files, in loose objects."""
    dice = random.Random(11)
    repository = folder / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    git(repository, "config", "gc.auto", "0")
    for number in range(60):
        for _ in range(12):
            path = repository / f"file-{dice.randrange(120)}.txt"
            lines = [f"{dice.randrange(1000)} {number}\n" for _ in range(200)]
            with path.open("a") as file:
                file.writelines(lines)
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", f"change {number}")


def make_tree(case, folder):
    """A build tree of 40 C files for cmake and make."""
    for number in range(40):
        (folder / f"part{number}.c").write_text(
            f"#include <stdio.h>\n#include <string.h>\nint part{number}(int x) {{ return x * "
            f"{number}; }}\n"
        )
    calls = " + ".join(f"part{number}(1)" for number in range(40))
    names = "".join(f"int part{number}(int);\n" for number in range(40))
    (folder / "main.c").write_text(
        f"#include <stdio.h>\n{names}int main(void) {{ printf(\"%d\\n\", {calls});"
        " return 0; }\n")
    sources = " ".join(f"part{number}.c" for number in range(40))
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(parts C)\n"
        f"add_executable(parts main.c {sources})\n")


PERL = r"""
use strict; my (%count, @list);
for my $i (1 .. 300000) { my $k = "key" . ($i * 7919 % 5003); $count{$k} += length($k) + $i % 3; }
push @list, "$_=$count{$_}" for sort keys %count;
my $text = join ",", @list; my $n = () = $text =~ /key\d*7\d*=/g;
print scalar(@list), " ", length($text), " $n\n";
system("echo", "from a child") == 0 or die; exit 3;
"""

GDB_TARGET = r"""
#include <stdio.h>
#include <stdlib.h>
static int work(int n) { int *p = malloc(n * sizeof(int)); int s = 0;
	for (int i = 0; i < n; i++) p[i] = i;
	for (int i = 0; i < n; i++) s += p[i];
	free(p); return s; }
int main(void) { int s = 0; for (int i = 1; i < 100; i++) s += work(i); printf("%d\n", s);
    return s % 7 + 3; }
"""


def make_target(case, folder):
    (folder / "target.c").write_text(GDB_TARGET)
    subprocess.run(["gcc", "-g", "-O0", "-o",
                    str(folder / "target"),
                    str(folder / "target.c")], check=True)


JAVA = r"""
import java.util.*;
import java.util.concurrent.*;
public class Work {
	public static void main(String[] arguments) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(4);
		List<Future<Long>> results = new ArrayList<>();
		for (int job = 0; job < 16; job++) {
			final int seed = job;
			results.add(pool.submit(() -> {
				Map<Integer, String> map = new HashMap<>();
				for (int i = 0; i < 100000; i++)
					map.put((i * 31 + seed) % 20011, "value " + i);
				long sum = 0;
				for (String text : map.values()) sum += text.hashCode();
				java.util.zip.Deflater deflater = new java.util.zip.Deflater();
				byte[] bytes = map.values().toString().getBytes();
				byte[] out = new byte[bytes.length];
				deflater.setInput(bytes); deflater.finish();
				sum += deflater.deflate(out); deflater.end();
				var direct = java.nio.ByteBuffer.allocateDirect(1 << 16);
				direct.putLong(0, sum);
				return direct.getLong(0);
			}));
		}
		long total = 0;
		for (Future<Long> result : results) total += result.get();
		pool.shutdown();
		System.out.println(total);
		System.exit(5);
	}
}
"""


def make_class(case, folder):
    (folder / "Work.java").write_text(JAVA)
    subprocess.run(["javac", "-d", str(folder), str(folder / "Work.java")], check=True)


NODE = r"""
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');
const zlib = require('zlib'), crypto = require('crypto'), child = require('child_process');
function work(seed) {
	const map = new Map();
	for (let i = 0; i < 200000; i++)
		map.set('key' + (i * 31 + seed) % 5003, { i, text: 'v'.repeat(i % 50) });
	const text = JSON.stringify([...map]);
	return crypto.createHash('sha256').update(zlib.gzipSync(text)).digest('hex') + text.length;
}
if (!isMainThread) { parentPort.postMessage(work(workerData)); }
else {
	const jobs = [1, 2, 3].map(seed => new Promise((done, bad) => {
		const worker = new Worker(__filename, { workerData: seed });
		worker.on('message', done); worker.on('error', bad);
	}));
	Promise.all(jobs).then(all => {
		for (const line of all) console.log(line);
		console.log(work(0), child.execSync('echo from a child').toString().trim());
		process.exitCode = 4;
	});
}
"""

RUBY = r"""
require 'json'
threads = 4.times.map { |t| Thread.new { (1..20000).map { |i| { id: i * t, text: "x" * (
    i % 60) } }.to_json.length } }
p threads.map(&:value)
h = Hash.new { |hash, key| hash[key] = [] }
200_000.times { |i| h[i * 7919 % 5003] << i.to_s }
GC.start
puts h.values.map(&:length).sum, `echo from a child`
pid = fork { exit!(7) }
Process.wait(pid)
exit($?.exitstatus)
"""

PHP = r"""<?php
$rows = [];
for ($i = 0; $i < 200000; $i++) $rows[$i * 7919 % 5003][] = str_repeat("x", $i % 40) . $i;
$text = json_encode($rows);
echo count($rows), " ", strlen($text), " ", md5($text), "\n", shell_exec("echo from a child");
exit(6);
"""

NUMPY = r"""
import numpy, threading
dice = numpy.random.default_rng(3)
a = dice.random((600, 600))
b = a
for _ in range(10):
    b = a @ b
    b /= numpy.abs(b).max()
w = numpy.linalg.eigvalsh(a + a.T)
parts = []
def sort(seed):
    parts.append(float(numpy.sort(numpy.random.default_rng(seed).random(300000))[1000]))
threads = [threading.Thread(target=sort, args=(s,)) for s in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(round(float(b.sum()), 3), round(float(w[-1]), 4), [round(x, 6) for x in sorted(parts)])
"""

GO = r"""
package main
import ("fmt"; "os"; "os/exec"; "sort"; "sync")
func main() {
	var group sync.WaitGroup
	sums := make([]int, 8)
	for g := 0; g < 8; g++ {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			m := map[int]string{}
			for i := 0; i < 100000; i++ { m[(i*31+g)%5003] = fmt.Sprint("v", i) }
			for _, v := range m { sums[g] += len(v) }
		}(g)
	}
	group.Wait()
	sort.Ints(sums)
	out, err := exec.Command("sh", "-c", "echo from a child").Output()
	fmt.Println(sums, string(out), err)
	os.Exit(9)
}
"""

RUST = r"""
use std::collections::HashMap;
use std::thread;
fn main() {
    let threads: Vec<_> = (0..4usize).map(|t| thread::spawn(move || {
        let mut map = HashMap::new();
        for i in 0..100_000usize { map.insert((i * 31 + t) % 5003, format!("value {}", i)); }
        map.values().map(|v| v.len()).sum::<usize>()
    })).collect();
    let sums: Vec<usize> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let child = std::process::Command::new("echo").arg("from a child").output().unwrap();
    print!("{:?} {}", sums, String::from_utf8_lossy(&child.stdout));
    let caught = std::panic::catch_unwind(|| { let v: Vec<i32> = Vec::new(); v[1] });
    std::process::exit(if caught.is_err() { 11 } else { 0 });
}
"""


def make_go(case, folder):
    (folder / "work.go").write_text(GO)
    environment = dict(os.environ, HOME=str(folder), GOCACHE=str(folder / "cache"),
                       GO111MODULE="off", GOFLAGS="-p=1")
    subprocess.run(["go", "build", "-o", str(folder / "work"), str(folder / "work.go")], check=True,
                   env=environment)
    shutil.rmtree(folder / "cache", ignore_errors=True)


def make_rust(case, folder):
    (folder / "work.rs").write_text(RUST)
    subprocess.run(
        ["rustc", "-C", "opt-level=1", "-o",
         str(folder / "work"),
         str(folder / "work.rs")], check=True)


def write(name, text):
    """A preparation that writes one file."""
    def prepare(case, folder):
        (folder / name).write_text(text)
    return prepare


def write_page(case, folder):
    items = "".join(f"<li class=c{i % 7}>item {i}</li>" for i in range(2000))
    (folder / "page.html").write_text(
        "<!doctype html><title>page</title><style>li { color: teal }</style><ul>" + items + "</ul>"
        "<script>const m = new Map(); for (let i = 0; i < 1e5; i++) m.set('k' + i % 5003, [i]);"
        "document.body.append(m.size, ' ', document.querySelectorAll('li').length)</script>")


def write_picture(case, folder):
    dice = random.Random(5)
    with (folder / "picture.ppm").open("wb") as file:
        file.write(b"P6 640 480 255\n" + dice.randbytes(640 * 480 * 3))


def write_document(case, folder):
    (folder / "document.txt").write_text("".join(
        f"Paragraph {i}. Some text stands here.\n\n" for i in range(300)))


EMACS = (
    "(progn (dotimes (i 20000) (puthash (* i 7919) (make-string (% i 50) ?x) "
    "(or (bound-and-true-p h) (setq h (make-hash-table))))) (garbage-collect) "
    "(princ (hash-table-count h)) (princ (shell-command-to-string \"echo from a child\")) "
    "(kill-emacs 8))"
)

GENERATED = {"stack cut short": "frames of generated code have no unwind tables"}
NULL_READS = {**GENERATED, "address 0: read through null, or not known to the hardware":
              "java reads through null, and makes an exception of the fault"}
DEEP = {"stack cut short": "deeper than stacks are followed"}

CASES = [
    Case("perl", "perl", ["perl"], ["perl", "-e", "print $^V"], ["perl", "-e", PERL], status=3,
         is_long=False, blocks=("perl", "echo"), variables={"PERL_HASH_SEED": "0"}),
    Case("git-gc", "git", ["git"], ["git", "--version"], [
        "sh", "-c",
        "cp -r @input@/repository @work@/r && cd @work@/r && git gc -q --aggressive --prune=now && "
        "git fsck && git count-objects -v | grep -v size && git log --stat | md5sum"
    ], make_repository, {"GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/proc/nonexistent"},
         blocks=("git",), is_long=False),
    Case("busybox-static", "busybox-static", ["busybox"], ["busybox"],
         ["sh", "-c", "busybox seq 1 20000 | busybox awk '{ s += $1 } END { print s }'; exit 2"],
         status=2, blocks=("dash", "busybox"), is_long=False,
         losses={"stack cut short": "busybox is built without unwind tables"},
         perhaps=frozenset({("busybox", "static")})),
    Case("make-tree", "cmake, make", ["cmake", "make", "gcc"], ["cmake", "--version"], [
        "sh", "-c",
        "cmake -S @input@ -B @work@/b > /dev/null && make -C @work@/b -j4 > /dev/null && "
        "@work@/b/parts"
    ], make_tree, blocks=("cmake", "make", "cc1", "collect2", "parts"), losses=DEEP),
    Case("gdb", "gdb", ["gdb", "gcc"], ["gdb", "--version"], [
        "gdb", "-q", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex",
        "break work if n == 50", "-ex", "run", "-ex", "backtrace", "-ex", "print n", "-ex",
        "finish", "-ex", "delete", "-ex", "continue", "@input@/target"
    ], make_target, blocks=("gdb", "target"), is_long=False, mask=r"\(process \d+\)"),
    Case(
        "gdb-of-record", "gdb", ["gdb", "gcc"], ["gdb", "--version"], [
            "gdb", "-q", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex",
            "set follow-fork-mode parent", "-ex", "run", "--args", "@wrap@", "@input@/target"
        ], make_target, mask=
        r"(?m)process \d+|^warning: .*\n|^\[.*[Tt]hread.*\n|^Using host.*\n|^memsight: "
        r".*\n|^\[Detaching .*\n",
        is_long=False, blocks=("target",)),
    Case("script-pty", "bsdutils", ["script"], ["script", "--version"], [
        "script", "-qec",
        "stty size; tty | cut -c1-8; perl -e 'print qq(on a terminal\\n) if -t STDOUT; exit 5'",
        "/dev/null"
    ], status=5, blocks=("script", "perl"), is_long=False),
    Case("java", "default-jdk-headless", ["java", "javac"], ["java", "--version"],
         ["java", "-cp", "@input@", "-Xmx256m", "-Dtmp=@work@", "Work"], make_class, status=5,
         blocks=("java",), losses=NULL_READS),
    Case("java-jemalloc", "libjemalloc2", ["java", "javac"], ["java", "--version"],
         ["java", "-cp", "@input@", "-Xmx256m", "Work"], make_class,
         {"LD_PRELOAD": "libjemalloc.so.2"}, status=5, blocks=("java",), losses=NULL_READS),
    Case("node", "nodejs", ["node"], ["node", "--version"], ["node", "@input@/work.js"],
         write("work.js", NODE), status=4, blocks=("node",), losses=GENERATED),
    Case("ruby", "ruby", ["ruby"], ["ruby", "--version"], ["ruby", "@input@/work.rb"],
         write("work.rb", RUBY), status=7, blocks=("ruby",)),
    Case("php", "php-cli", ["php"],
         ["php", "--version"], ["php", "-n", "-d", "memory_limit=1G", "@input@/work.php"],
         write("work.php", PHP), status=6, blocks=("php",)),
    Case("numpy", "python3-numpy", ["/usr/bin/python3"],
         ["/usr/bin/python3", "-c", "import numpy; print('numpy', numpy.__version__)"],
         ["/usr/bin/python3", "@input@/work.py"], write(
             "work.py", NUMPY), {"OPENBLAS_NUM_THREADS": "2"}, blocks=("python3",)),
    Case("go", "golang-go", ["go"], ["go", "version"], ["@input@/work"], make_go, status=9,
         untraced=frozenset({("work", "static")}), blocks=("dash",)),
    Case("rust", "rustc", ["rustc"], ["rustc", "--version"], ["@input@/work"], make_rust, status=11,
         blocks=("work", "echo"), mask=r"src/[^\s]*:\d+:\d+|thread 'main' \(\d+\)"),
    Case("ffmpeg", "ffmpeg", ["ffmpeg"], ["ffmpeg", "-version"], [
        "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i",
        "testsrc=size=320x240:rate=25:duration=4", "-threads", "4", "-c:v", "mpeg4", "-flags",
        "+bitexact", "-f", "md5", "-"
    ], blocks=("ffmpeg",)),
    Case("imagemagick", "imagemagick", ["/usr/bin/convert"], ["/usr/bin/convert", "--version"], [
        "/usr/bin/convert", "@input@/picture.ppm", "-resize", "50%", "-blur", "0x3", "-depth", "8",
        "ppm:-"
    ], write_picture, blocks=("convert",)),
    Case("valgrind", "valgrind", ["valgrind", "gcc"], ["valgrind", "--version"],
         ["valgrind", "-q", "--error-exitcode=99", "@input@/target"], make_target, status=3,
         blocks=("dash",), perhaps=frozenset({("memcheck-amd64-linux", "static")})),
    Case("emacs", "emacs-nox", ["emacs"], ["emacs", "--version"],
         ["emacs", "-Q", "--batch", "--eval", EMACS], status=8, blocks=("emacs",)),
    Case("octave", "octave", ["octave-cli"], ["octave-cli", "--version"], [
        "octave-cli", "-q", "-H", "-f", "--eval",
        "rand('twister', 5); a = rand(400); printf('%.6f\\n', norm(a * a)); exit(12)"
    ], status=12, blocks=("octave-cli",)),
    Case("libreoffice", "libreoffice-writer-nogui", ["soffice"], ["soffice", "--version"], [
        "sh", "-c",
        "soffice -env:UserInstallation=file://@work@/profile --headless --convert-to html --outdir "
        "@work@ "
        "@input@/document.txt > @work@/log 2>&1; md5sum < @work@/document.html"
    ], write_document, {"HOME": "/proc/nonexistent"}, blocks=("soffice.bin",)),
    Case("chromium", "chromium", ["chromium"], ["chromium", "--version"], [
        "sh", "-c",
        "chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
        "--user-data-dir=@work@/u "
        "--dump-dom file://@input@/page.html 2> /dev/null"
    ], write_page, blocks=("dash",),
         losses={**GENERATED, "malloc of its own": "PartitionAlloc, in the program itself"}),
]
