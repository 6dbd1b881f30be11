"""L1 the counts equal the ledger; L2 a release takes back exactly what its acquire gave; L3 at rest
nobody holds anything.

The ledger is kept from outside: each acquire and release is compared with the lock counts on its
path before and after, and filed under its holder, who is known from the function that called.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.view import NAMES, View
from harness.targets.sglang.world import World

Holder = tuple[str, object]
Held = tuple[int, str]  # node, component

# The release's functions that acquire or release, and for whom.
_REQUESTS = ("_req_inc_lock_ref", "cache_unfinished_req", "cache_finished_req", "dec_swa_lock_only")
PREPARED = "load-back in preparation"
_OTHERS = {
    "_lock_node": "admission",
    "write_backup": "backup",
    "writing_check": "backup",
    "_finish_write_through_ack": "backup",
    "loading_check": "load",
    "finalize_match_result": "state copy",
}


@dataclass
class Receipt:
    """What one acquire gave."""

    holder: Holder
    anchor: int
    given: set[Held] = field(default_factory=set)

    def __str__(self) -> str:
        nodes = ", ".join(f"{component} of node {node}" for node, component in sorted(self.given))
        return f"{self.holder[0]} {self.holder[1]} holds {nodes or 'nothing'}"


class Ledger(Oracle):
    """Follows `inc_lock_ref`, `dec_lock_ref` and splits of the release's cache."""

    name = "L"

    def __init__(self, world: World, view: View) -> None:
        super().__init__(world, view)
        self.receipts: dict[Holder, list[Receipt]] = {}
        cache = world.cache
        self._acquire, self._release, self._split = (
            cache.inc_lock_ref,
            cache.dec_lock_ref,
            cache._split_node,
        )
        cache.inc_lock_ref, cache.dec_lock_ref = self.acquire, self.release
        cache._split_node = self.split

    def acquire(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        before = self._counts(node)
        result = self._acquire(node, *args, **kwargs)
        receipt = Receipt(_holder(sys._getframe(1), node, True), node.id)
        receipt.given = set((self._counts(node) - before).keys())
        self.receipts.setdefault(receipt.holder, []).append(receipt)
        return result

    def release(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        holder = _holder(sys._getframe(1), node, False)
        before = self._counts(node)
        result = self._release(node, *args, **kwargs)
        taken = set((before - self._counts(node)).keys())
        mine = self.receipts.get(holder, [])
        receipt = next((one for one in mine if one.anchor == node.id), None)
        if receipt is None:
            raise Broken(
                "L2",
                f"{holder[0]} releases what it never acquired",
                f"a lock of {holder[0]} {holder[1]} on node {node.id}",
                f"none; it took {_told(taken)}",
            )
        mine.remove(receipt)
        self._compare(receipt, taken)
        return result

    def split(self, key: Any, child: Any, *args: Any, **kwargs: Any) -> Any:
        """Both halves of a node that is split keep its holders; a recurrent state stays below."""
        parent = self._split(key, child, *args, **kwargs)
        for receipts in self.receipts.values():
            for receipt in receipts:
                receipt.given |= {
                    (parent.id, component)
                    for node, component in receipt.given
                    if node == child.id and component != "mamba"
                }
        return parent

    def settled(self) -> None:
        owed = Counter(held for mine in self.receipts.values() for r in mine for held in r.given)
        for node in self.view.nodes():
            if node.root:
                continue
            for component, count in node.locks.items():
                if count != owed[node.id, component]:
                    raise Broken(
                        "L1",
                        f"{component} lock counts drift",
                        f"node {node.id}: {owed[node.id, component]} holders of {component}",
                        count,
                    )

    def at_rest(self) -> None:
        left = [str(receipt) for mine in self.receipts.values() for receipt in mine]
        if left:
            kinds = sorted({holder[0] for holder, mine in self.receipts.items() if mine})
            raise Broken("L3", f"{', '.join(kinds)} never released", "no locks", "; ".join(left))
        self.settled()

    def _compare(self, receipt: Receipt, taken: set[Held]) -> None:
        for what, extra in (("takes", taken - receipt.given), ("leaves", receipt.given - taken)):
            if extra:
                components = sorted({component for _, component in extra})
                raise Broken(
                    "L2",
                    f"{receipt.holder[0]} {what} {' and '.join(components)} that it was"
                    f" {'not ' if what == 'takes' else ''}given",
                    receipt,
                    f"its release took {_told(taken)}{self._others(extra)}",
                )

    def _others(self, lost: set[Held]) -> str:
        """Who is left without a lock by a release that took too much."""
        robbed = [
            f"{receipt.holder[0]} {receipt.holder[1]}"
            for mine in self.receipts.values()
            for receipt in mine
            if receipt.given & lost
        ]
        return f"; held by {', '.join(robbed)}" if robbed else ""

    def _counts(self, node: Any) -> Counter[Held]:
        counts: Counter[Held] = Counter()
        kinds = [(NAMES[int(kind)], int(kind)) for kind in self.world.cache.tree_components]
        while node is not self.world.cache.root_node:
            for name, kind in kinds:
                counts[node.id, name] = node.component_data[kind].lock_ref
            node = node.parent
        return counts


def _holder(caller: FrameType, node: Any, acquiring: bool) -> Holder:
    """Whose lock it is, by the function of the release that asks."""
    name, variables = caller.f_code.co_name, caller.f_locals
    if name in _REQUESTS:
        return "request", variables["req"].rid
    if name == "load_back":
        return ("load" if acquiring and "device_indices" in variables else PREPARED), node.id
    return _OTHERS.get(name, name), node.id


def _told(held: set[Held]) -> str:
    return ", ".join(f"{component} of node {node}" for node, component in sorted(held)) or "nothing"
