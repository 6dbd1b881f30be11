"""Who sends a load: this process, processes of this machine, or workers that come by themselves."""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

import click

from harness.cli.errors import UserError
from harness.cli.serving import typed
from harness.load.asker import Asker
from harness.load.crew import Crew, LocalCrew, Web  # imports Locust, and so comes first
from harness.load.master import Helm, MasterCrew
from harness.load.plan import WorkPlan
from harness.load.settings import Loading
from harness.load.share import chosen
from harness.load.swarm import Swarm
from harness.load.tally import Sink
from harness.load.worker import work
from harness.soak.plan import TrafficPlan
from harness.soak.settings import Traffic
from harness.verdict import Exit

LOOPBACK = "127.0.0.1"


def work_for_master(flags: Mapping[str, Any]) -> int:
    """`--worker`: do what a master says; returns the exit code."""
    if flags["master"] or flags["processes"] != 1 or flags["web"]:
        raise UserError("--worker goes with --master-host and --master-port alone")
    try:
        done = work(flags["master_host"], flags["master_port"], api_key=flags["api_key"])
    except ConnectionError:
        where = f"--master-host {flags['master_host']} --master-port {flags['master_port']}"
        raise UserError(f"{where}: no master answers there") from None
    return Exit.PASS if done else Exit.RUN_FAILED


def crew_maker(
    context: click.Context,
    flags: Mapping[str, Any],
    loading: Loading,
    traffic: Traffic,
    plan: TrafficPlan,
    *,
    model: str,
) -> Callable[[Sink], Crew]:
    """Raises `UserError` for what cannot be, before anything is written."""
    users = min(loading.users, plan.load.max_concurrency or loading.users)
    helm, web = _helm(context, flags), _web(flags)
    if helm is None:
        sessions = chosen(plan.workload, plan.load.num_requests)
        asker = Asker(loading, model=model, api_key=flags["api_key"])
        return lambda sink: LocalCrew(Swarm(sessions, plan.load, asker), sink, users, web)
    work_plan = WorkPlan(
        traffic=traffic,
        loading=loading,
        model=model,
        digest=plan.workload.digest(),
        worker=0,
        workers=helm.workers,
    )
    users = max(users, helm.workers)
    return lambda sink: MasterCrew(work_plan, sink, users, helm, web)


def _helm(context: click.Context, flags: Mapping[str, Any]) -> Helm | None:
    processes, api_key = flags["processes"], flags["api_key"]
    if processes == -1:
        processes = os.cpu_count() or 1
    if processes < 1 or flags["expect_workers"] < 1:
        raise UserError("--processes and --expect-workers must be 1 or more (-1: one a core)")
    if flags["master"]:
        if processes > 1:
            raise UserError("--master waits for workers, --processes starts its own: drop one")
        host, port = flags["master_bind_host"], flags["master_bind_port"]
        _check_free("--master-bind", host, port)
        return Helm(host, port, flags["expect_workers"], local=False, api_key=api_key)
    for name in ("expect_workers", "master_bind_host", "master_bind_port"):
        if typed(context, name):
            raise UserError(f"--{name.replace('_', '-')} needs --master")
    return Helm(LOOPBACK, 0, processes, local=True, api_key=api_key) if processes > 1 else None


def _web(flags: Mapping[str, Any]) -> Web | None:
    if not flags["web"]:
        return None
    _check_free("--web", flags["web_host"], flags["web_port"])
    return Web(flags["web_host"], flags["web_port"])


def _check_free(flag: str, host: str, port: int) -> None:
    """Locust ends the process where it cannot listen; this tells what to type instead."""
    where = "" if host == "*" else host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((where, port))
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise UserError(f"{flag}-host {host} {flag}-port {port}: {said}") from None
