"""`locust -f locustfile.py`: the load of `bench.py load` under Locust's own command line."""

from harness.cli.locustfile import SessionUser

__all__ = ["SessionUser"]
