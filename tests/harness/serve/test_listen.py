"""What a server writes is sent at once: its small events wait for nobody's acknowledgement."""

import asyncio
import socket

from harness.serve.server import listen


class _Noting(asyncio.Protocol):
    def __init__(self, noted):
        self._noted = noted

    def connection_made(self, transport):
        sock = transport.get_extra_info("socket")
        self._noted.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        transport.close()


def test_connections_do_not_delay_small_writes():
    async def accepted():
        loop = asyncio.get_running_loop()
        noted = loop.create_future()
        with listen("127.0.0.1", 0) as sock:
            async with await loop.create_server(lambda: _Noting(noted), sock=sock):
                _, writer = await asyncio.open_connection(*sock.getsockname())
                delays = await noted
                writer.close()
                await writer.wait_closed()
        return delays

    assert asyncio.run(accepted())
