"""A line to a server stays usable, whatever interrupts an exchange on it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# In a process of its own: Locust patches the standard library, and greenlets are killed only there.
KILLED = """
import locust
import gevent, socket
from harness.load.exchange import Line

listening = socket.create_server(("127.0.0.1", 0))
reached = gevent.event.Event()

def serve():
    first, _ = listening.accept()
    first.recv(65536)
    reached.set()  # and never answers
    second, _ = listening.accept()
    second.recv(65536)
    second.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok")
    first.close()
    second.close()

serving = gevent.spawn(serve)
line = Line("http://127.0.0.1:%d" % listening.getsockname()[1], api_key="", timeout_s=60)
asking = gevent.spawn(line.fetch, "GET", "/metrics")
reached.wait()
asking.kill()
print(line.fetch("GET", "/metrics"))
serving.join()
line.close()
listening.close()
"""


def test_a_fetch_that_is_killed_half_way_does_not_spoil_the_next():
    command = [sys.executable, "-c", KILLED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.stdout == "(200, 'ok')\n", done.stderr
