"""What a load can be told beyond its traffic.

Invariant: nothing here imports Locust, which patches the standard library as it is imported.
"""

from dataclasses import dataclass
from typing import Literal

Backend = Literal["openai", "sglang", "vllm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """Where the requests go, and what counts as trouble. Times in seconds."""

    base_url: str = "http://127.0.0.1:30000"
    backend: Backend = "sglang"
    model: str = ""  # "": the first that the server lists
    users: int = 256  # sessions that can be under way at once
    vocab_size: int = 32000
    output_len: int = 0  # 0: as the workload says
    request_s: float = 600.0
    stall_s: float = 30.0  # no byte of any answer for so long, while some are due, is a stall
    drop_s: float = 60.0  # a session that no user took so long after its time is dropped
    check_output: float = 0.0  # share of prompts that are asked again at the end
    check_counts: bool = True  # a server of ours must have counted what the client did


MAX_CHECKED = 50
DEGRADED_MEDIAN_S = 0.010
DEGRADED_P99_S = 0.500
DEGRADED_CPU = 0.85
