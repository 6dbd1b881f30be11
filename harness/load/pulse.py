"""What the watchdog looks at while requests are in flight."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Pulse:
    """Nanoseconds of the monotonic clock; `open` says of each request when it was handed over."""

    in_flight: int = 0
    start_ns: int = 0
    heard_ns: int = 0  # when any byte last came
    open: dict[str, int] = field(default_factory=dict)
