"""Server-sent events, cut out of the bytes as they come. Nothing waits for the end of a line."""

DATA = b"data:"
MOST_BYTES = 16 << 20  # of one event


class EventTooLong(Exception):
    """An event is longer than any answer of such a server."""


class Events:
    """`feed` it what has come; it returns the data of every event that is complete."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, part: bytes) -> list[bytes]:
        """Raises `EventTooLong`."""
        blocks = (self._rest + part).replace(b"\r\n", b"\n").split(b"\n\n")
        self._rest = blocks.pop()
        if len(self._rest) > MOST_BYTES:
            raise EventTooLong(f"an event of more than {MOST_BYTES} bytes")
        found = []
        for block in blocks:
            lines = [line for line in block.split(b"\n") if line.startswith(DATA)]
            if lines:
                found.append(b"\n".join(line[len(DATA) :].removeprefix(b" ") for line in lines))
        return found
