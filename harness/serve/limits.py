"""What one client may ask of a server."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLimits:
    """Seconds and bytes. A client that sends or reads nothing for `idle_s` is cut off; the write
    buffer of one stream holds 64 KiB at most before it has to be read."""

    max_body_bytes: int = 16 << 20
    max_open_requests: int = 1024
    max_connections: int = 2048
    request_s: float = 600.0  # from the request's last byte to the answer's
    idle_s: float = 30.0
    default_max_tokens: int = 128
    drain_s: float = 10.0  # what open requests get when the server is told to stop
