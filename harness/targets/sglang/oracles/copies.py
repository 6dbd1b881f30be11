"""D1 no slot of a copy is given to anybody before the copy has run: neither what it reads nor what
it writes; and nobody of before still writes there afterwards."""

from harness.targets.sglang.device import Copy
from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.storage import Page
from harness.targets.sglang.view import among


class Copies(Oracle):
    """Looks at every copy that waits in a stream, between the scheduler's calls."""

    name = "D"
    sees_opaque = True

    def copies(self, copy: Copy) -> None:
        """What a load-back brings must not be overwritten by a batch launched before. A state is
        also loaded into the slot of the request that goes on from it: its batch waits for that."""
        if copy.to_host:
            return
        device = copy.device.numpy()
        for launch in self.world.in_flight:
            if copy.component == "mamba" and not launch.awaits.query():
                continue
            for row in launch.rows:
                late = among(device, row.writes(copy.component))
                if len(late):
                    raise Broken(
                        "D1",
                        f"a load-back runs before a batch that still writes its slots"
                        f" ({copy.component})",
                        f"device slots {device.tolist()} are written by the load-back last",
                        f"{row.rid} of a batch in flight has yet to write {late.tolist()}",
                    )

    def pages(self, page: Page) -> None:
        """As a copy, but it moves at once."""
        what = "prefetch" if page.fills else "persist"
        component = self.view.component_of(page.pool)
        freed = among(page.slots, self.view.host_free(component))
        if len(freed):
            raise Broken(
                "D1",
                f"the host slots of a {what} are free before it has run ({component})",
                f"host slots {page.slots.tolist()} held until then",
                f"{freed.tolist()} are free",
            )
        for node in self.view.nodes() if page.fills else ():
            cached = node.host[component]
            if cached is not None and len(among(page.slots, cached)):
                raise Broken(
                    "D1",
                    f"a prefetch fills host slots that are cached ({component})",
                    f"host slots {page.slots.tolist()} are of nobody else",
                    f"node {node.id} has {among(page.slots, cached).tolist()}",
                )

    def settled(self) -> None:
        for name, stream in self.world.streams.items():
            if name != "fwd":
                for copy in stream.copies:
                    self._judge(copy)

    def _judge(self, copy: Copy) -> None:
        what = "backup" if copy.to_host else "load-back"
        device, host = copy.device.numpy(), copy.host.numpy()
        freed = among(device, self.view.free(copy.component))
        if len(freed):
            raise Broken(
                "D1",
                f"the device slots of a {what} are free before it has run ({copy.component})",
                f"device slots {device.tolist()} held until then",
                f"{freed.tolist()} are free",
            )
        freed = among(host, self.view.host_free(copy.component))
        if len(freed):
            raise Broken(
                "D1",
                f"the host slots of a {what} are free before it has run ({copy.component})",
                f"host slots {host.tolist()} held until then",
                f"{freed.tolist()} are free",
            )
