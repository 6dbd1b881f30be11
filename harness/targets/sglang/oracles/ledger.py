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
from harness.targets.sglang.view import NAMES, View, tree_of
from harness.targets.sglang.world import World

Holder = tuple[str, object]
Held = tuple[int, str]  # node, component

# The release's functions that acquire or release, and for whom.
_REQUESTS = (
    "_req_inc_lock_ref",
    "cache_unfinished_req",
    "cache_finished_req",
    "_dec_req_lock",
    "_commit_prefill_admission",  # from 0.5.22 on, as what follows
    "checkpoint_into_tree",
    "release_kv_cache",
    "release_swa_prefix_lock",
)
_EARLY = "dec_swa_lock_only"  # a request's window, once its decoding has left it
PREPARED = "load-back in preparation"
FRAMES = 6  # how far up the caller that holds the lock may be
_OTHERS = {
    "_lock_node": "admission",
    "write_backup": "backup",
    "_execute_and_commit_kv_backup": "backup",
    "writing_check": "backup",
    "_finish_write_through_ack": "backup",
    "loading_check": "load",
    "finalize_match_result": "state copy",
    "finalize_match_result_in_cache": "state copy",
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
        self._tree = tree = tree_of(world.cache)
        self._acquire, self._release = tree.inc_lock_ref, tree.dec_lock_ref
        tree.inc_lock_ref, tree.dec_lock_ref = self.acquire, self.release
        self._split, tree._split_node = tree._split_node, self.split
        if hasattr(tree, _EARLY):
            self._release_early, tree.dec_swa_lock_only = tree.dec_swa_lock_only, self.release_early

    def acquire(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        raw = self._raw(node)
        before = self._counts(raw)
        result = self._acquire(node, *args, **kwargs)
        receipt = Receipt(_holder(sys._getframe(1), raw, True), raw.id)
        receipt.given = set((self._counts(raw) - before).keys())
        self.receipts.setdefault(receipt.holder, []).append(receipt)
        return result

    def release(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        raw = self._raw(node)
        holder = _holder(sys._getframe(1), raw, False)
        before = self._counts(raw)
        result = self._release(node, *args, **kwargs)
        taken = set((before - self._counts(raw)).keys())
        receipt = self._receipt(holder, raw, taken)
        self.receipts[holder].remove(receipt)
        self._compare(receipt, receipt.given, taken)
        return result

    def release_early(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        """A part of a request's lock goes back; the rest stays its own."""
        raw = self._raw(node)
        holder = _holder(sys._getframe(1), raw, False)
        before = self._counts(raw)
        result = self._release_early(node, *args, **kwargs)
        taken = set((before - self._counts(raw)).keys())
        receipt = self._receipt(holder, raw, taken)
        self._compare(receipt, {held for held in receipt.given if held[1] != "full"}, taken)
        receipt.given -= taken
        return result

    def _raw(self, node: Any) -> Any:
        return node if hasattr(node, "component_data") else self._tree.node_by_id(node)

    def _receipt(self, holder: Holder, node: Any, taken: set[Held]) -> Receipt:
        for receipt in self.receipts.get(holder, []):
            if receipt.anchor == node.id:
                return receipt
        raise Broken(
            "L2",
            f"{holder[0]} releases what it never acquired",
            f"a lock of {holder[0]} {holder[1]} on node {node.id}",
            f"none; it took {_told(taken)}",
        )

    def split(self, key: Any, child: Any, *args: Any, **kwargs: Any) -> Any:
        """Both halves of a node that is split keep its holders; a recurrent state stays below."""
        result = self._split(key, child, *args, **kwargs)
        parent = child.parent
        for receipts in self.receipts.values():
            for receipt in receipts:
                receipt.given |= {
                    (parent.id, component)
                    for node, component in receipt.given
                    if node == child.id and component != "mamba"
                }
        return result

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

    def _compare(self, receipt: Receipt, given: set[Held], taken: set[Held]) -> None:
        for what, extra in (("takes", taken - given), ("leaves", given - taken)):
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

    def _count(self, data: Any) -> int:
        return int(data.lock_ref)

    def _counts(self, node: Any) -> Counter[Held]:
        counts: Counter[Held] = Counter()
        kinds = [(NAMES[int(kind)], int(kind)) for kind in self.world.cache.tree_components]
        while node is not self._tree.root_node:
            for name, kind in kinds:
                counts[node.id, name] = self._count(node.component_data[kind])
            node = node.parent
        return counts


def _holder(caller: FrameType, node: Any, acquiring: bool) -> Holder:
    """Whose lock it is, by the function of the release that asks, however deep it asks."""
    frame: FrameType | None = caller
    for _ in range(FRAMES):
        if frame is None:
            break
        name, variables = frame.f_code.co_name, frame.f_locals
        if name in _REQUESTS or name == "maybe_evict_swa":
            return "request", variables["req"].rid
        if name in ("load_back", "_load_back_transfers"):
            return ("load" if acquiring and "device_indices" in variables else PREPARED), node.id
        if name in _OTHERS:
            return _OTHERS[name], node.id
        frame = frame.f_back
    return caller.f_code.co_name, node.id


def _told(held: set[Held]) -> str:
    return ", ".join(f"{component} of node {node}" for node, component in sorted(held)) or "nothing"
