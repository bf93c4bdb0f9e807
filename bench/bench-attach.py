#!/usr/bin/env python3
"""Into real programs under load and out again, many times: none may hang, crash or answer wrong.

usage: bench-attach.py MEMSIGHT CHURN CPP [--cycles N] [--only redis,nginx,...]
                       [--kill recorder|both] [--seconds N] [--load N]

redis under redis-benchmark, nginx under wrk, threads that churn (CHURN), python3 with threads,
java, C++ with exceptions and libraries that come and go (CPP): all at once, so each beside the load
of the others. Every one checks its own answers all the time. A cycle is
`memsight attach --duration 5ms`. With --kill each cycle is a program anew, whose recorder, or
recorder and attacher, are killed at a random moment of the entry: the first load is what is tried.
What is not installed is left out. --load has so many loops run beside: then each try meets threads
that wait for a CPU, wherever they are. A program that is slow for that is no program that hangs: it
hangs when there is no answer for a minute and nothing of it wants a CPU.

Printed per program: cycles, refusals (a thread was in malloc for too long: nothing was changed),
failures, and what grew between the cycle 20 and the last one: descriptors, mappings and memory.
"""
import argparse
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

WARM_CYCLES = 20
PATIENCE_S = 60
LONG_PATIENCE_S = 300  # also for one that wants a CPU all the time
N_LOOKS = 100  # whether one wants a CPU, and how often it must
LEAST_LOOKS = 30

LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent: pass
"""

PYTHON = """
import hashlib, json, sys, threading
def work(seed):
    rows = [{"key": str(i * seed), "list": list(range(i % 30))} for i in range(400)]
    text = json.dumps(rows)
    assert json.loads(text) == rows
    return hashlib.sha256(text.encode()).hexdigest()
wanted = {seed: work(seed) for seed in range(1, 5)}
def turn(seed, wrong):
    for _ in range(20):
        if work(seed) != wanted[seed]:
            wrong.append(seed)
while True:
    wrong = []
    threads = [threading.Thread(target=turn, args=(seed, wrong)) for seed in wanted]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print("wrong" if wrong else "right", flush=True)
"""

JAVA = """
import java.nio.ByteBuffer;
import java.util.*;
import java.util.zip.*;
public class Steady {
    static long work(int seed) throws Exception {
        byte[] plain = new byte[60000], packed = new byte[70000], back = new byte[60000];
        new Random(seed).nextBytes(plain);
        Arrays.fill(plain, 1000, 40000, (byte) seed);
        Deflater deflater = new Deflater();
        deflater.setInput(plain); deflater.finish();
        int n = deflater.deflate(packed); deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(packed, 0, n); inflater.inflate(back); inflater.end();
        ByteBuffer direct = ByteBuffer.allocateDirect(100000);
        direct.put(back).flip();
        CRC32 crc = new CRC32(); crc.update(direct);
        List<Object> garbage = new ArrayList<>();
        for (int i = 0; i < 20000; i++) garbage.add(new int[i % 50]);
        return crc.getValue() + garbage.size();
    }
    public static void main(String[] arguments) throws Exception {
        final long[] wanted = new long[4];
        for (int i = 0; i < 4; i++) wanted[i] = work(i);
        for (;;) {
            final boolean[] wrong = new boolean[1];
            Thread[] threads = new Thread[4];
            for (int i = 0; i < 4; i++) {
                final int seed = i;
                threads[i] = new Thread(() -> {
                    try {
                        for (int k = 0; k < 10; k++)
                            if (work(seed) != wanted[seed]) wrong[0] = true;
                    } catch (Throwable e) { wrong[0] = true; } });
                threads[i].start();
            }
            for (Thread thread : threads) thread.join();
            System.out.println(wrong[0] ? "wrong" : "right");
        }
    }
}
"""


class Program:
    """Something that runs under load and checks itself. pid: who is attached to."""
    needs = ()

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.wrong, self.n_right, self.seen_s = None, 0, float("inf")
        self.children, self.is_ending = [], False
        self.start()
        self.seen_s = self.asked_s = time.monotonic()

    def spawn(self, command, **options):
        child = subprocess.Popen(command, **{"stdin": subprocess.DEVNULL,
                                             "stdout": subprocess.DEVNULL,
                                             "stderr": subprocess.DEVNULL, **options})
        self.children.append(child)
        return child

    def watch(self, look):
        """Calls look() again and again: it returns an error, or None for a right answer."""
        def loop():
            while not self.is_ending and not self.wrong:
                try:
                    self.note(look())
                except Exception as error:  # whatever it is, the program is disturbed
                    self.note(f"{type(error).__name__}: {error}")
        threading.Thread(target=loop, daemon=True).start()

    def note(self, error):
        if self.is_ending:
            return
        if error:
            self.wrong = self.wrong or error
        else:
            self.n_right, self.seen_s = self.n_right + 1, time.monotonic()

    def trouble(self):
        """What is wrong with it, or None."""
        for child in self.children:
            if child.poll() is not None:
                return f"{child.args[0]} has ended: {child.returncode}"
        silent_s = time.monotonic() - max(self.seen_s, self.asked_s)
        if not self.wrong and silent_s > PATIENCE_S:
            if not wants_cpu(self.pid):
                return f"no answer for {PATIENCE_S} s, and all its threads wait"
            self.asked_s = time.monotonic()
        if not self.wrong and time.monotonic() - self.seen_s > LONG_PATIENCE_S:
            return f"no answer for {LONG_PATIENCE_S} s"
        return self.wrong

    def stop(self):
        self.is_ending = True
        for child in reversed(self.children):
            child.kill()
            child.wait()

    def wait_first(self):
        while self.n_right == 0 and not self.trouble():
            time.sleep(0.02)


class Speaking(Program):
    """It prints a line "right" or "wrong" per turn."""

    def speak(self, command, **options):
        self.main = self.spawn(command, stdout=subprocess.PIPE, text=True, **options)
        self.pid = self.main.pid
        self.watch(self.line)

    def line(self):
        line = self.main.stdout.readline().strip()
        return None if line == "right" else f"it says '{line}'"


class Python(Speaking):
    def start(self):
        self.speak([sys.executable, "-c", PYTHON])


class Java(Speaking):
    needs = ("java", "javac")

    def start(self):
        if not os.path.exists(os.path.join(self.folder, "Steady.class")):
            with open(os.path.join(self.folder, "Steady.java"), "w", encoding="ascii") as file:
                file.write(JAVA)
            subprocess.run(["javac", "-d", self.folder, file.name], check=True)
        self.speak(["java", "-Xmx256m", "-cp", self.folder, "Steady"])


class Cpp(Speaking):
    def start(self):
        self.speak([self.args.cpp])


class Churn(Program):
    """It says "wrong: ..." when something is, and nothing else; that it works its CPU time says."""

    def start(self):
        self.main = self.spawn([self.args.churn], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
        self.pid = self.main.pid
        self.main.stdout.readline()
        os.set_blocking(self.main.stdout.fileno(), False)
        self.spent = 0
        self.watch(self.look)

    def look(self):
        time.sleep(0.05)
        line = self.main.stdout.readline().strip()
        if self.args.kill and "(errno 4)" in line:
            line = ""  # nobody was left to issue it again
        before, self.spent = self.spent, sum(
            int(word) for word in proc(self.pid, "stat").rsplit(")", 1)[1].split()[11:13])
        while not line and self.spent == before and self.main.poll() is None:
            if time.monotonic() - self.seen_s > PATIENCE_S and not wants_cpu(self.pid):
                return "it does nothing"
            time.sleep(0.05)
            self.spent = sum(
                int(word) for word in proc(self.pid, "stat").rsplit(")", 1)[1].split()[11:13])
        return f"it says '{line}'" if line else None


class Redis(Program):
    needs = ("redis-server", "redis-benchmark")

    def start(self):
        self.path = os.path.join(self.folder, f"redis.{random.getrandbits(40)}")
        self.pid = self.spawn(["redis-server", "--port", "0", "--unixsocket", self.path, "--save",
                               "", "--maxmemory", "200mb", "--maxmemory-policy",
                               "allkeys-random"]).pid
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LONG_PATIENCE_S)
        while self.socket.connect_ex(self.path) != 0:
            time.sleep(0.02)
        self.spawn(["redis-benchmark", "-s", self.path, "-q", "-l", "-c", "20", "-d", "200", "-r",
                    "100000", "-t", "set,get,lpush,lrange_100,mset"])
        self.file = self.socket.makefile("rb")
        self.watch(self.ask)

    def reply(self, *words):
        text = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(b"*%d\r\n%s" % (len(words), text))
        line = self.file.readline()
        return self.file.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" else line[1:-2]

    def ask(self):
        value = random.randbytes(random.randrange(1, 5000))
        time.sleep(0.002)
        if self.reply(b"ECHO", value) != value:
            return "another echo"
        # A wait with a timeout ends when it should.
        began_s = time.monotonic()
        if self.reply(b"BLPOP", b"none", b"0.05") != b"-1" or time.monotonic() - began_s < 0.049:
            return "BLPOP came too early"
        return None


class Nginx(Program):
    needs = ("nginx", "wrk")
    CONFIG = """daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error; {1}
events {{ worker_connections 200; }}
http {{ access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;
 uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; keepalive_requests 1000000; gzip on;
 gzip_types text/plain; server {{ listen unix:{0}/socket; listen 127.0.0.1:{2}; root {0}; }} }}
"""

    def start(self):
        home = tempfile.mkdtemp(dir=self.folder)
        self.text = "".join(f"{i} words of a page\n" for i in range(3000)).encode()
        with open(os.path.join(home, "page.txt"), "wb") as file:
            file.write(self.text)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with open(os.path.join(home, "config"), "w", encoding="ascii") as file:
            file.write(self.CONFIG.format(home, "user root;" if os.geteuid() == 0 else "", port))
        master = self.spawn(["nginx", "-c", file.name, "-p", home])
        self.url = f"http://127.0.0.1:{port}/page.txt"
        self.pid = None
        while not self.pid:
            time.sleep(0.05)
            with open(f"/proc/{master.pid}/task/{master.pid}/children", encoding="ascii") as file:
                self.pid = int(next(iter(file.read().split()), 0))
        self.spawn(["wrk", "-c", "20", "-t", "1", "-d", "100000", "-H", "Accept-Encoding: gzip",
                    self.url])
        self.watch(self.ask)

    def stop(self):
        super().stop()
        try:
            os.kill(self.pid, signal.SIGKILL)  # its master cannot do that any more
        except ProcessLookupError:
            pass

    def trouble(self):
        return super().trouble() or (None if os.path.exists(f"/proc/{self.pid}/exe")
                                     else "the worker has ended")

    def ask(self):
        time.sleep(0.005)
        with urllib.request.urlopen(self.url, timeout=LONG_PATIENCE_S) as answer:
            return None if answer.read() == self.text else "another page"


PROGRAMS = {"redis": Redis, "nginx": Nginx, "churn": Churn, "python3": Python, "java": Java,
            "c++": Cpp}


def proc(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()


def wants_cpu(pid):
    """Does it run, or would if it could?"""
    n = 0
    for _ in range(N_LOOKS):
        for tid in os.listdir(f"/proc/{pid}/task"):
            try:
                if proc(pid, f"task/{tid}/stat").rsplit(")", 1)[1].split()[0] == "R":
                    n += 1
                    break
            except (FileNotFoundError, ProcessLookupError):
                pass
        time.sleep(0.02)
    return n >= LEAST_LOOKS


class Size:
    """What a process has: of us, and in all."""

    def __init__(self, pid):
        maps = proc(pid, "maps").splitlines()
        self.ours = []
        self.n_descriptors, self.n_mappings = 0, len(maps)
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
            except FileNotFoundError:
                continue
            self.n_descriptors += 1
            if "memsight" in link or "tracealloc" in link or "perf_event" in link:
                self.ours.append(link)
        self.ours += [line for line in maps if "memfd:memsight" in line]
        self.ours += [line for line in proc(pid, "status").splitlines()
                      if line.startswith("TracerPid") and not line.endswith("\t0")]
        self.kib = int(re.search(r"VmRSS:\s*(\d+)", proc(pid, "status"))[1])
        self.virtual_kib = int(re.search(r"VmSize:\s*(\d+)", proc(pid, "status"))[1])


REFUSED = re.compile(r"for too long: nothing was changed")


class Soak:
    """The cycles of one program."""

    def __init__(self, name, args, folder):
        self.name, self.args = name, args
        self.folder = tempfile.mkdtemp(dir=folder)
        self.n, self.n_refused, self.failures = 0, 0, []
        self.warm = self.last = None

    def command(self, pid):
        return [self.args.memsight, "attach", str(pid), "-f", "-o",
                os.path.join(self.folder, "a.mst")]

    def fail(self, text):
        self.failures.append(f"cycle {self.n}: {text}")
        print(f"{self.name}: cycle {self.n}: {text}", flush=True)

    def cycle(self, program):
        try:
            done = subprocess.run([*self.command(program.pid), "--duration", "5ms", "-q"],
                                  stderr=subprocess.PIPE, text=True, timeout=LONG_PATIENCE_S)
        except subprocess.TimeoutExpired:
            return self.fail("memsight hangs")
        self.n += 1
        if done.returncode != 0 and REFUSED.search(done.stderr):
            self.n_refused += 1
        elif done.returncode != 0:
            self.fail(f"{done.returncode}: {done.stderr.strip()}")
        elif done.stderr:
            self.fail(done.stderr.strip())
        if program.trouble():
            return self.fail(program.trouble())
        self.last = Size(program.pid)
        for thing in self.last.ours:
            self.fail(f"left behind: {thing}")
        if self.n == WARM_CYCLES:
            self.warm = self.last
        return None

    def kill_once(self, program):
        """The recorder is killed, and its attacher where that is asked for."""
        recorder = subprocess.Popen(self.command(program.pid), stderr=subprocess.DEVNULL,
                                    start_new_session=True)
        time.sleep(random.random() * self.args.within)
        if self.args.kill == "both":
            for child in proc(recorder.pid, f"task/{recorder.pid}/children").split():
                try:
                    os.kill(int(child), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        recorder.kill()
        recorder.wait()
        self.n += 1
        right, until_s = program.n_right, time.monotonic() + LONG_PATIENCE_S
        while program.n_right < right + 2 and not program.trouble() and time.monotonic() < until_s:
            time.sleep(0.01)
        if program.trouble() or program.n_right < right + 2:
            self.fail(program.trouble() or "it does not go on")

    def run(self):
        kind = PROGRAMS[self.name]
        program = kind(self.args, self.folder)
        program.wait_first()
        began_s = time.monotonic()
        while self.n < self.args.cycles and time.monotonic() - began_s < self.args.seconds:
            if self.args.kill:
                self.kill_once(program)
                program.stop()
                program = kind(self.args, self.folder)
                program.wait_first()
            else:
                self.cycle(program)
            if program.trouble():
                self.fail(f"{program.trouble()}; begun anew")
                program.stop()
                program = kind(self.args, self.folder)
                program.wait_first()
        program.stop()

    def report(self):
        grew = ""
        if self.warm:
            grew = (f", grew by {self.last.n_descriptors - self.warm.n_descriptors} descriptors, "
                    f"{self.last.n_mappings - self.warm.n_mappings} mappings, "
                    f"{self.last.kib - self.warm.kib} KiB resident, "
                    f"{self.last.virtual_kib - self.warm.virtual_kib} KiB in all")
        print(f"{self.name:8} {self.n:6} {'kills' if self.args.kill else 'cycles'}, "
              f"{self.n_refused} refused, {len(self.failures)} failures{grew}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("memsight", type=os.path.abspath)
    parser.add_argument("churn", type=os.path.abspath)
    parser.add_argument("cpp", type=os.path.abspath)
    parser.add_argument("--cycles", type=int, default=10000, help="of each program")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--kill", choices=("recorder", "both"))
    parser.add_argument("--load", type=int, default=0, help="loops beside")
    parser.add_argument("--within", type=float, default=0.15, help="seconds of a kill")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: setattr(args, "seconds", 0))  # ends what it began
    soaks = []
    loops = [subprocess.Popen([sys.executable, "-c", LOOP])
             for _ in range(args.load)]
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            missing = [need for need in PROGRAMS[name].needs if not shutil.which(need)]
            if missing:
                print(f"{name}: {', '.join(missing)} not installed, left out")
            else:
                soaks.append(Soak(name, args, folder))
        threads = [threading.Thread(target=soak.run) for soak in soaks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for loop in loops:
        loop.kill()
        loop.wait()
    for soak in soaks:
        soak.report()
    sys.exit(any(soak.failures for soak in soaks))


main()
