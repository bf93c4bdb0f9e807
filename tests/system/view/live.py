"""The server of a run that is being recorded (memsight view --live): who listens, who does not, who
may, and how it ends. Arguments: memsight, victim of tests/unit/cli (victim-live.c)."""
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import tempfile

import served
import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()
PATIENCE_S = 60
N_LISTENERS = 20


class Recording:
    """Of the victim, without end; .trace, .program and .recorder (numbers of processes)."""

    def __init__(self, folder, name, *options, totals=True, **more):
        self.trace = os.path.join(folder, name)
        words = [MEMSIGHT, "record", "-q", "-s", "none", "-o", self.trace, *options,
                 *(["--live-totals"] if totals else []), "--", VICTIM, "1", "0", "20"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True,
                                        env=whole.environment(), **more)
        self.process.stdout.readline()
        status = whole.run([MEMSIGHT, "ctl", self.trace])
        self.program = int(re.search(r"program +(\d+)", status).group(1))
        self.recorder = int(re.search(r"recorder +(\d+)", status).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.program:
            os.kill(self.program, signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


class Listener:
    """Of the events of a server, as a browser's EventSource."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        self.socket.sendall(f"GET /{server.token}/api/live HTTP/1.1\r\nHost: 127.0.0.1:"
                            f"{server.port}\r\n\r\n".encode())
        self.rest = b""

    def event(self):
        """The next one that is whole."""
        while not (found := re.search(rb"data: (.*?)\n\n", self.rest, re.DOTALL)):
            part = self.socket.recv(65536)
            if not part:
                raise SystemExit(f"the server closes: {self.rest[:300]!r}")
            self.rest += part
        self.rest = self.rest[found.end():]
        # An event may lie in several chunks: "\r\nSIZE\r\n" stands between them.
        return json.loads(re.sub(rb"\r\n[0-9a-fA-F]+\r\n", b"", found.group(1)))

    def until(self, holds):
        while not holds(event := self.event()):
            pass
        return event

    def close(self):
        self.socket.close()


def refused(*words, **more):
    done = subprocess.run([MEMSIGHT, "view", "--no-open", "--live", *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=PATIENCE_S, env=whole.environment(), **more)
    checks.that(done.returncode in (1, 2) and done.stderr.count("\n") == 1,
                f"view --live {words}: {done}")
    return done.stderr


def check_listeners(recording):
    """Twenty of them, one that does not read and some that go away: the rest sees all."""
    with served.Server(MEMSIGHT, recording.trace, "--live") as server:
        listeners = [Listener(server) for _ in range(N_LISTENERS)]
        silent = listeners.pop()
        for listener in listeners:
            event = listener.until(lambda event: event["sites"]["n"] > 0)
            checks.that(event["state"] == "recording" and event["n_sites"] >= 1, f"{event}")
        for listener in listeners[5:]:
            listener.close()
        for listener in listeners[:5]:
            first = listener.event()["n"]
            listener.until(lambda event, first=first: event["n"] > first)
        silent.close()
        churn = listeners[0].until(
            lambda event: any(name.startswith("churn")
                              for name in event["sites"]["columns"]["name"]))
        site = churn["sites"]["columns"]["site"][0]
        frames = server.answer("stack", site=site)["stack"]
        checks.that("churn" in frames[0]["function"], f"{frames}")
        check_curve(server.answer("curve", width=3))
        check_orders(server, listeners[0])
        for listener in listeners[:5]:
            listener.close()


def check_curve(curve):
    points = curve["points"]["columns"]
    ends, lengths = points["time_ns"], points["interval_ns"]
    checks.that(1 <= curve["points"]["n"] <= 3 and all(length > 0 for length in lengths) and
                all(ends[i + 1] - lengths[i + 1] == ends[i] for i in range(len(ends) - 1)) and
                max(points["rate"]) > 0 and max(points["rss_bytes"]) > 0, f"{curve}")


def check_orders(server, listener):
    path = f"/{server.token}/api/control?kind="
    checks.that(server.get(path + "pause").status == 404, "a GET controls")
    checks.that(server.get(f"/{'0' * 32}/api/control?kind=pause", "POST").status in (403, 405),
                "who does not know the token controls")
    checks.that(server.get(path + "explode", "POST").status == 400, "an unknown order")
    checks.that(server.get(path + "mark", "POST").status == 400, "a mark without a name")
    checks.that(server.get(f"/{server.token}/api/run", "POST").status == 405, "a POST that asks")
    checks.that(server.get(f"/{server.token}/api/runs").status == 404, "the run is not there yet")
    checks.that(server.get(f"/{server.token}/1/").status == 404, "there is no snapshot")
    checks.that(server.get(path + "pause", "POST").status == 200, "pause")
    listener.until(lambda event: event["state"] == "paused")
    checks.that(server.get(path + "resume", "POST").status == 200, "resume")
    listener.until(lambda event: event["state"] == "recording")


def check_killed(folder):
    """A recorder that is killed: what it wrote is shown, and the program goes on."""
    with Recording(folder, "killed.mst") as recording, \
            served.Server(MEMSIGHT, str(recording.program), "--live") as server:
        listener = Listener(server)
        listener.until(lambda event: event["now"]["n_allocations"] > 0)
        os.kill(recording.recorder, signal.SIGKILL)
        end = listener.until(lambda event: event["state"] in ("shown", "failed"))
        checks.that(end["state"] == "shown" and "killed" in end["message"], f"{end}")
        checks.that(server.answer("runs")["n"] == 1, "the page is not the usual one")
        checks.that(b"memsight/app" in server.get(f"/{server.token}/").body, "the live page stays")
        os.kill(recording.program, 0)
        listener.close()


def check_refused(folder, recording):
    with Recording(folder, "plain.mst", totals=False) as plain:
        checks.that("record --live-totals" in refused(plain.trace), "no totals")
    checks.that("being recorded" in refused(str(os.getpid())), "a process that nobody records")
    checks.that("memsight ctl" in refused(os.path.join(folder, "none.mst")), "nothing there")
    for option in (["--from", "1s"], ["--export", "x.html"], ["other.mst"]):
        refused(recording.trace, *option)
    if os.geteuid() != 0:
        return
    other = dict(user=65534, group=65534, extra_groups=[], cwd="/")
    message = refused(recording.trace, **other)
    checks.that("sudo" not in message or "root" in message, message)
    message = refused(str(recording.program), **other)
    checks.that("another user" in message and f"-u {pwd.getpwuid(0).pw_name} " in message, message)


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Recording(folder, "run.mst") as recording:
            check_listeners(recording)
            check_refused(folder, recording)
        check_killed(folder)
    checks.end()


main()
