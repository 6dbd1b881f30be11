"""C1 what is cached for a prefix is that prefix; C2 the model reads only what was written for it.

A slot must hold the token of its position (tokens name their whole prefix). What is in flight is
not judged: a node being loaded, and tokens whose batch has not run.
"""

import numpy as np

from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.storage import Prints
from harness.targets.sglang.view import Node, Slots
from harness.targets.sglang.world import Row


class Content(Oracle):
    """Judged where the model reads (the end of every bug) and, earlier, in the host pools."""

    name = "C"
    sees_opaque = True

    def reads(self, row: Row) -> None:
        truth = np.array(row.truth[: row.start], dtype=np.int64)
        self._same("full", self.view.device_rows("full")[row.full[: row.start]], truth, row, 0)
        if row.swa is not None:
            first = max(0, row.start - self.world.shape.window)
            slots = row.swa[first : row.start]
            if np.any(slots <= 0):
                raise Broken(
                    "C2",
                    "the model reads a hole in the window",
                    f"{row.rid}: SWA slots for [{first}, {row.start})",
                    slots.tolist(),
                )
            held = self.view.device_rows("swa")[slots]
            self._same("swa", held, truth[first:], row, first)
        if row.state >= 0 and row.start:
            held = self.view.device_rows("mamba")[[row.state]]
            self._same("mamba", held, truth[-1:], row, row.start - 1)

    def _same(self, component: str, held: Slots, truth: Slots, row: Row, first: int) -> None:
        if np.array_equal(held, truth):
            return
        at = int((held != truth).argmax())
        raise Broken(
            "C2",
            f"the model reads foreign {component}",
            f"{row.rid} at {first + at}: {truth[at]}",
            f"{held[at]}" + (" (never written)" if held[at] == 0 else ""),
        )

    def kept(self, key: str, prints: Prints) -> None:
        """A key names a prefix whose page storage must be given."""
        name, _, pool = key.partition(".")
        component = pool or "full"
        truth = self.world.background.truth.get(name) if self.world.background else None
        if truth is None:
            raise Broken(
                "C1",
                f"storage is given {component} under a key of no prefix",
                "the key of a prefix that was seen",
                name[:12],
            )
        truth = truth[-1:] if component == "mamba" else truth
        if not np.array_equal(prints, truth):
            raise Broken(
                "C1",
                f"storage is given foreign {component}",
                f"{truth.tolist()} under the key {name[:12]}",
                prints.tolist(),
            )

    def at_rest(self) -> None:
        """Nothing is in flight: every cached token can be judged."""
        for node in self.view.nodes():
            if not node.root:
                self._node(node)

    def _node(self, node: Node) -> None:
        for component in self.view.components:
            truth = np.array(node.tokens, dtype=np.int64)
            if component == "mamba":
                truth = truth[-1:]
            for tier, slots in (("device", node.device), ("host", node.host)):
                mine = slots[component]
                if mine is None:
                    continue
                rows = self.view.device_rows if tier == "device" else self.view.host_rows
                held = rows(component)[mine]
                if not np.array_equal(held, truth):
                    raise Broken(
                        "C1",
                        f"foreign {component} is cached on the {tier}",
                        f"node {node.id}: its own tokens",
                        f"{int((held != truth).sum())} of {len(truth)} are not",
                    )
