"""`bench.py serve --null`: a server without an engine, to measure a client against."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from harness.cli.errors import UserError
from harness.load.null_server import MODEL, Pace, serve_null
from harness.serve.server import CannotListen, listen
from harness.verdict import Exit


def run(flags: Mapping[str, Any]) -> int:
    """Serve until a signal; no run directory. Returns the exit code."""
    try:
        sock = listen(flags["host"], flags["port"])
    except CannotListen as error:
        raise UserError(str(error)) from None
    host, port = sock.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    pace = Pace()

    def ready() -> None:
        if flags["json"]:
            click.echo(json.dumps({"url": url, "model": MODEL, "pid": os.getpid()}))
        else:
            times = f"{pace.first_s * 1e3:g} ms, then {pace.gap_s * 1e3:g} ms a chunk"
            click.echo(f"serving nothing at {url}/v1 ({times}; Ctrl-C ends it)")
        sys.stdout.flush()

    asyncio.run(serve_null(sock, pace, ready))
    return Exit.PASS
