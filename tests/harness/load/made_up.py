"""A load whose requests are made up: `python -m tests.harness.load.made_up FOLDER SHARE SHARE`.

In a process of its own, for the load imports Locust. The shares of what could be hit, at the start
and at the end, are those given. Prints the summary.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from harness.load.run import LoadRun  # imports Locust, and so comes first

from harness.load.asker import Asker  # isort: skip
from harness.load.ended import Ended
from harness.load.health import Health
from harness.load.pulse import Pulse
from harness.load.settings import Loading
from harness.load.tally import Tally
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from workloads.tokens import Span

REQUESTS, PROMPT, PAGE = 1200, 1616, 16
NOBODY = "http://127.0.0.1:9"
MANIFEST = Manifest(command="load", clock="wall", seed=0, settings={}, workload={"name": "chat"})


class Crew(SimpleNamespace):
    """Reports every request at once; nothing is sent."""

    def run(self) -> None:
        for number in range(REQUESTS):
            self.tally.add(_ended(number, *self.shares))

    def stop(self) -> None:
        pass


def _ended(number: int, first: float, last: float) -> Ended:
    share = first + (last - first) * number / REQUESTS
    at_ns = number * 50_000_000
    return Ended(
        request_id=f"r{number}", session_id=f"s{number}", turn=0, tenant="", namespace="",
        prompt=(Span(1, 0, PROMPT),), scheduled_ns=at_ns, sent_ns=at_ns, first_ns=at_ns + 10**6,
        end_ns=at_ns + 2 * 10**6, http_status=200, error="", prompt_tokens=PROMPT, output_tokens=4,
        device=int(1600 * share) // PAGE * PAGE, host=0, storage=0, server_ttft_ns=-1,
    )  # fmt: skip


def main(folder: str, first: str, last: str) -> None:
    recorder = Recorder(RunDirectory.create(Path(folder), "made-up"), MANIFEST)
    with recorder:
        tally = Tally(recorder, page_size=PAGE, warmup_requests=0)
        crew = Crew(tally=tally, shares=(float(first), float(last)), pulse=Pulse(),
                    health=Health(), kept=[], troubles=[], start_ns=0, cpu_share=0.1)  # fmt: skip
        asker = Asker(Loading(base_url=NOBODY), model="m", api_key="")
        loaded = LoadRun(crew, asker, tally, recorder, seed=0).run()
    print(json.dumps(dict(loaded.summary)))


if __name__ == "__main__":
    main(*sys.argv[1:])
