"""`bench.py soak --target sglang==VERSION`: flags in, run directory out."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import torch

from harness.cli.errors import UserError
from harness.cli.serving import settings_of, typed
from harness.cli.soak import manifest_of, screen_of, tell
from harness.cli.traffic import announce
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.sglang_flags import Launch
from harness.soak.plan import plan_server, plan_traffic
from harness.soak.run import Soaked
from harness.soak.settings import Serving, Traffic, Watching
from harness.targets.choose import version_in
from harness.targets.sglang.environment import MissingRelease, check_known, folder_of
from harness.targets.sglang.release import Release
from harness.targets.sglang.shape import Shape
from harness.targets.sglang.sized import sized
from harness.targets.sglang.soak import ReleaseSoak
from harness.verdict import EXIT_OF, Exit

# Flags of the reference's server that have no meaning here, and what to do instead.
ABSENT: Mapping[str, str] = {
    "device": "nothing is computed here: leave --device out",
    "decoding": "answers are the traffic's: leave --decoding out",
    "check_logits": "nothing is computed here: leave --check-logits out",
    "mamba_full_memory_ratio": "there are no recurrent states: leave --mamba-full-memory-ratio out",
    "max_mamba_cache_size": "there are no recurrent states: leave --max-mamba-cache-size out",
    "mamba_ssm_dtype": "there are no recurrent states: leave --mamba-ssm-dtype out",
    "companions": "slots have nothing beside them: leave --companions out",
    "radix_cache": "its cache is what is tortured: leave --disable-radix-cache out",
    "hicache_size": "host pools are sized by --hicache-ratio: leave --hicache-size out",
    "radix_eviction_policy": "a release evicts by its default: leave --radix-eviction-policy out",
    "host_eviction_policy": "a release evicts by its default: leave --host-eviction-policy out",
    "load_back_threshold": "a release has its own: leave --load-back-threshold out",
    "schedule_conservativeness": "it is 1 here: leave --schedule-conservativeness out",
    "hicache_storage_prefetch_policy": "there is no storage:"
    " leave --hicache-storage-prefetch-policy out",
    "from_sglang": "give the sizes as flags: leave --from-sglang out",
    "ids_as_pages": "that counts pages of the reference cache: leave --ids-as-pages out",
}
STORAGE = ("prefetch_", "storage_")


def run(context: click.Context, flags: dict[str, Any]) -> int:
    """Plan, run, tell. Returns the exit code."""
    try:
        version = version_in(flags["target"])
        _refuse(context, flags)
        era, folder = check_known(version), folder_of(version)
    except (ValueError, MissingRelease) as error:
        raise UserError(f"--target: {error}") from None
    if not typed(context, "tp"):
        flags["tp"] = 1
    serving = settings_of(Serving, {**flags, "hicache_storage_backend": ""})
    traffic = settings_of(Traffic, flags)
    watching = settings_of(Watching, flags)
    if traffic.workload and typed(context, "trace"):
        raise UserError("--trace and --workload exclude each other: drop one of them")
    if traffic.set and not traffic.workload:
        raise UserError("--set belongs to a synthetic workload: add --workload chat")
    server = plan_server(serving, seed=traffic.seed)
    shape = sized(server, serving, era)
    plan = plan_traffic(traffic)
    torch.set_num_threads(1)  # its tensors are small: threads that wait cost more than they do
    release = Release.of(folder, version)
    directory = RunDirectory.create(Path(watching.output_dir), watching.tag)
    announce(plan.workload.source)
    manifest = manifest_of(serving, traffic, watching, server, plan, Launch({}, ()))
    manifest = _of_release(manifest, flags["target"], shape)
    began = time.monotonic()
    with Recorder(directory, manifest) as recorder:
        soaked = ReleaseSoak(
            release,
            shape,
            server,
            plan,
            watching,
            warmup_requests=traffic.warmup_requests,
            recorder=recorder,
            screen=screen_of(flags["json"], watching.clock),
        ).run()
    tell(soaked, manifest, flags["json"])
    if not flags["json"]:
        _tell_more(soaked, time.monotonic() - began)
    return Exit.INTERRUPTED if soaked.interrupted else EXIT_OF[soaked.verdict]


def _refuse(context: click.Context, flags: Mapping[str, Any]) -> None:
    """What does not apply to a release, in one line that says what to type."""
    target = flags["target"]
    if flags["clock"] != "virtual":
        raise UserError(f"{target} is soaked on the virtual clock: leave --clock wall out")
    if flags["compute"] == "model":
        raise UserError(f"{target} computes no model: use --compute roofline or null")
    if typed(context, "tp") and flags["tp"] != 1:
        raise UserError(f"{target} is soaked on one rank: use --tp 1")
    if flags["hicache_storage_backend"] not in ("", "none"):
        raise UserError(f"{target} is soaked without storage: leave --hicache-storage-backend out")
    for name in flags:
        if typed(context, name) and (name in ABSENT or name.startswith(STORAGE)):
            flag = name.replace("_", "-")
            why = ABSENT.get(name, f"there is no storage: leave --{flag} out")
            raise UserError(f"--target {target}: {why}")


def _of_release(manifest: Manifest, target: str, shape: Shape) -> Manifest:
    """The settings that are in force in a release's server, and what its numbers mean."""
    settings = {
        name: value
        for name, value in manifest.settings.items()
        if name not in ABSENT and not name.startswith((*STORAGE, "hicache_storage_"))
    }
    settings |= {
        "target": target,
        "context_length": shape.context,
        "max_prefill_tokens": shape.prefill,
        "overlap_schedule": shape.overlap,
        "schedule_policy": shape.schedule_policy,
        "schedule_conservativeness": 1.0,
        "match_s": 0.0,
    }
    notes = [
        f"The cache, the scheduler and the copy controller are those of {target.replace('==', ' ')}"
        " on a CPU; slots hold fingerprints, and copies and forwards take modelled times.",
        "The scheduler's own passes take no time. load_ms is from a request's launch to the begin"
        " of its forward: it has load-backs in it, and the batch before.",
        *manifest.notes,
    ]
    return replace(manifest, settings=settings, notes=tuple(notes))


def _tell_more(soaked: Soaked, seconds: float) -> None:
    ended = sum(int(soaked.summary[name]) for name in ("completed", "rejected", "aborted"))
    click.echo(f"  {ended / max(seconds, 1e-9):,.1f} requests a second of this machine")
    found = soaked.recorded.directory.path / "violations.jsonl"
    for line in found.read_text(encoding="utf-8").splitlines()[:1]:
        violation = json.loads(line)
        click.echo(f"  {violation['oracle']}: {violation['signature']}")
        click.echo(f"    expected {violation['expected']}")
        click.echo(f"    saw {violation['seen']}")
        click.echo("  the last events:")
        for event in violation["last"]:
            click.echo(f"    {event}")
        click.echo(f"  to find it in a small world and shrink it: {violation['hunt']}")
