"""For `locust -f`: the same load as `bench.py load`, with Locust's own command line.

Address, users and time limit are Locust's (`--host`, `-u`, `-t`); everything else is a flag of
`load` in the environment, such as KVTORTURE_WORKLOAD=chat. Each test leaves a run directory, and
its verdict is the exit code.
"""

from harness.load.crew import GuestCrew  # imports Locust, and so comes first

import gevent  # isort: skip
import sys
from typing import Any

import click
from locust import events
from locust.env import Environment
from locust.runners import LocalRunner

from harness.cli import load_options
from harness.cli.errors import UserError
from harness.cli.load import Asked, conduct, what_is_asked
from harness.load.asker import Asker
from harness.load.share import chosen
from harness.load.swarm import SessionUser, Swarm
from harness.record.directory import UsageError
from harness.verdict import Exit
from workloads.errors import WorkloadError

__all__ = ["SessionUser"]  # what Locust runs

PREFIX = "KVTORTURE"


def flags_of(environment: Environment) -> tuple[click.Context, dict[str, Any]]:
    """Those of `load`, from the environment, and what Locust's own command line says."""
    command: click.Command = click.command("load")(load_options.options(lambda **flags: None))
    context = command.make_context("load", [], auto_envvar_prefix=PREFIX)
    flags = dict(context.params)
    options = environment.parsed_options
    assert options is not None
    if environment.host:
        flags["base_url"] = environment.host
    flags["users"] = options.num_users or 1
    return context, flags


class Guest:
    """One for a Locust process; each test that is started in it is a run."""

    def __init__(self, environment: Environment, runner: LocalRunner) -> None:
        self._environment = environment
        self._runner = runner
        self._running: gevent.Greenlet | None = None
        for event, listener in (("test_start", self._start), ("quitting", self._wait)):
            getattr(environment.events, event).add_listener(listener)

    def _start(self, environment: Environment, **rest: Any) -> None:
        """Before the first user is there."""
        try:
            context, flags = flags_of(environment)
            flags["users"] = self._runner.target_user_count
            asked = what_is_asked(context, flags)
        except (UserError, UsageError, WorkloadError, click.ClickException) as error:
            self._refuse(error.format_message() if hasattr(error, "format_message") else str(error))
            return
        asker = Asker(asked.loading, model=asked.model, api_key=flags["api_key"])
        swarm = Swarm(chosen(asked.plan.workload, asked.plan.load.num_requests), asked.plan.load,
                      asker)  # fmt: skip
        environment.swarm = swarm  # type: ignore[attr-defined]
        self._running = gevent.spawn(self._conduct, asked, flags, swarm)

    def _conduct(self, asked: Asked, flags: dict[str, Any], swarm: Swarm) -> None:
        users = flags["users"]
        code = conduct(asked, flags, lambda sink: GuestCrew(swarm, sink, users, self._runner))
        self._environment.process_exit_code = int(code)
        if self._environment.web_ui is None:
            self._runner.quit()
        else:
            self._runner.stop()

    def _wait(self, environment: Environment, **rest: Any) -> None:
        """Locust is about to end: let the run write its summary."""
        if self._running is not None:
            self._runner.stop()
            self._running.join()

    def _refuse(self, why: str) -> None:
        print("error: " + " ".join(why.split()), file=sys.stderr)
        self._environment.process_exit_code = int(Exit.USAGE)
        sys.exit(Exit.USAGE)


@events.init.add_listener  # type: ignore[untyped-decorator]
def _begin(environment: Environment, **rest: Any) -> None:
    runner = environment.runner
    if isinstance(runner, LocalRunner):
        Guest(environment, runner)
        return
    instead = "`bench.py load --processes N`, or its --master and --worker"
    print(f"error: with locust -f one process sends: for more use {instead}", file=sys.stderr)
    sys.exit(Exit.USAGE)
