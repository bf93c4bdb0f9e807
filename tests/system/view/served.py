"""A server of `memsight view` that tests can talk to as a browser would, and as no browser would.
"""
import http.client
import json
import select
import signal
import socket
import subprocess
import urllib.parse

import whole

PATIENCE_S = 120


class Reply:
    """An answer: .status, .headers by names in lower case, .body, .json()."""

    def __init__(self, response, body):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = body

    def json(self):
        return json.loads(self.body)


class Server:
    """memsight view of a database: .port, .token; .get(path), .raw(bytes), .answer(name, a=1)."""

    def __init__(self, memsight, database, *options):
        def hear_signals():
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = subprocess.Popen([memsight, "view", "--no-open", *options, database],
                                        text=True, stdout=subprocess.PIPE, env=whole.environment(),
                                        preexec_fn=hear_signals)
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        line = self.process.stdout.readline().strip() if ready else ""
        if not line.startswith("http://127.0.0.1:"):
            if self.end(signal.SIGKILL) == 1:
                told = whole.Outcome([memsight, "view", "--no-open", *options, database],
                                     timeout=PATIENCE_S).messages
                if "built without libmicrohttpd" in told:
                    whole.skip(told)
            raise SystemExit(f"memsight view printed no address: {line!r}")
        address = urllib.parse.urlsplit(line)
        self.port, self.token, self.fragment = address.port, address.path.strip(
            "/"), address.fragment

    def get(self, path, method="GET", host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", f"127.0.0.1:{self.port}" if host is None else host)
        connection.endheaders()
        response = connection.getresponse()
        reply = Reply(response, response.read())
        connection.close()
        return reply

    def answer(self, name, **parameters):
        """JSON of an answer that must be given."""
        query = urllib.parse.urlencode(parameters)
        reply = self.get(f"/{self.token}/api/{name}" + (f"?{query}" if query else ""))
        if reply.status != 200:
            raise SystemExit(f"{name}?{query}: {reply.status} {reply.body[:200]!r}")
        return reply.json()

    def raw(self, data):
        """What bytes are answered with, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as client:
            answer = b""
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while part := client.recv(65536):
                    answer += part
            except OSError:
                pass
            return answer

    def peak_rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

    def end(self, number=signal.SIGTERM):
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
