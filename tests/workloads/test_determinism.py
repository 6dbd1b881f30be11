"""The same seed gives the same bytes in every process, whatever PYTHONHASHSEED is."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
from hashlib import sha256
from workloads.arrivals import Gamma, reschedule
from workloads.synthetic import FAMILIES, build
from workloads.traces.formats import read_trace
from workloads.traces.mooncake import read_mooncake
from workloads.traces.recorded import Reading

trace = read_mooncake("tests/data/ci_mooncake.jsonl", spread_seed=5)
made = [build(name, {"seed": 3}) for name in FAMILIES]
names = ("weka", "ragpulse/0_trace.jsonl", "llmservingsim.jsonl", "tracelab_rounds.jsonl")
others = [read_trace(f"tests/data/{name}", Reading()) for name in names]
for workload in (trace, *others, *made, reschedule(trace, Gamma(2.0, 0.5), 9)):
    print(workload.name, workload.digest(), sorted(workload.source.items()))
    tokens = sha256()
    for session in workload.sessions():
        for turn in session.turns[:2]:
            tokens.update(turn.prompt_tokens().tobytes() + turn.output_tokens().tobytes())
    print(tokens.hexdigest())
"""


def run(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_workloads_do_not_depend_on_the_hash_seed():
    first = run("0")
    assert len(first.splitlines()) == 18
    assert run("12345") == first
