"""S2 no dead node; S4 no FULL on the device below a parent without; S5 no backup below a parent
without one, under the write-through policies."""

from harness.targets.sglang.oracles.base import Broken, Oracle


class Structure(Oracle):
    """Looked at between the scheduler's calls."""

    name = "S"

    def settled(self) -> None:
        closed = self.world.shape.policy != "write_back"
        seen = {}
        for node in self.view.nodes():
            seen[node.id] = node
            if node.root:
                continue
            if node.device["full"] is None and node.host["full"] is None:
                raise Broken(
                    "S2", "a dead node", f"node {node.id} has FULL somewhere", "it has none"
                )
            parent = seen[node.parent]
            if parent.root:
                continue
            if node.device["full"] is not None and parent.device["full"] is None:
                raise Broken(
                    "S4",
                    "FULL on the device below a parent without",
                    f"node {parent.id} has FULL on the device, as node {node.id} below it",
                    "it has not",
                )
            if closed and node.host["full"] is not None and parent.host["full"] is None:
                raise Broken(
                    "S5",
                    "a backup below a parent without one",
                    f"node {parent.id} is backed up, as node {node.id} below it",
                    "it is not",
                )

    at_rest = settled
