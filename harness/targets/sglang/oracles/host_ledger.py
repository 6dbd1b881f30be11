"""L1, L2 and L3 of host locks, where there is storage: a prefetch holds the node that it is grafted
to, a persist the node that it writes, a load-back the node that it loads."""

import sys
from collections import Counter
from types import FrameType
from typing import Any

from harness.targets.sglang.oracles.base import Broken
from harness.targets.sglang.oracles.ledger import FRAMES, Held, Holder, Ledger, Receipt
from harness.targets.sglang.view import View
from harness.targets.sglang.world import World

# The release's functions that acquire or release host locks, and for whom.
HOLDERS = {
    "prefetch_from_storage": "prefetch",
    "check_prefetch_progress": "prefetch",
    "_handle_prefetch_result": "prefetch",
    "_sync_and_check_hybrid_prefetch_result": "prefetch",
    "_retire_ongoing_prefetch": "prefetch",
    "release_aborted_request": "prefetch",
    "_revoke_pending_prefetch": "prefetch",
    "revoke_pending_prefetch": "prefetch",
    "_check_hybrid_prefetch_result": "prefetch",
    "_drain_revoke": "prefetch",
    "write_backup_storage": "persist",
    "_drain_backup": "persist",
    "_lock_node": "admission",
    "load_back": "load-back",
    "_load_back_transfers": "load-back",
    "loading_check": "load-back",
}


class HostLedger(Ledger):
    """Follows `inc_host_lock_ref`, `dec_host_lock_ref` and splits."""

    def __init__(self, world: World, view: View) -> None:
        self.receipts: dict[Holder, list[Receipt]] = {}
        self.world, self.view, self._tree = world, view, view.tree
        if world.background is None:
            return
        tree = self._tree
        self._acquire, self._release = tree.inc_host_lock_ref, tree.dec_host_lock_ref
        tree.inc_host_lock_ref, tree.dec_host_lock_ref = self.acquire, self.release
        self._split, tree._split_node = tree._split_node, self.split

    def acquire(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        raw = self._raw(node)
        before = self._counts(raw)
        result = self._acquire(node, *args, **kwargs)
        receipt = Receipt((_kind(sys._getframe(1)), raw.id), raw.id)
        receipt.given = set((self._counts(raw) - before).keys())
        self.receipts.setdefault(receipt.holder, []).append(receipt)
        return result

    def release(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        raw = self._raw(node)
        before = self._counts(raw)
        result = self._release(node, *args, **kwargs)
        taken = set((before - self._counts(raw)).keys())
        holder = (_kind(sys._getframe(1)), raw.id)
        mine = self.receipts.get(holder, [])
        same = [receipt for receipt in mine if receipt.given == taken]
        receipt = same[0] if same else self._receipt(holder, raw, taken)
        mine.remove(receipt)
        self._compare(receipt, receipt.given, taken)
        return result

    def split(self, key: Any, child: Any, *args: Any, **kwargs: Any) -> Any:
        """The upper half keeps the holders where the release says so; it need not, since a node
        leaves the host after those below it."""
        result = self._split(key, child, *args, **kwargs)
        counts = self._counts(child.parent)
        for receipts in self.receipts.values():
            for receipt in receipts:
                receipt.given |= {
                    (child.parent.id, component)
                    for node, component in receipt.given
                    if node == child.id and counts[child.parent.id, component]
                }
        return result

    def settled(self) -> None:
        if self.world.background is None:
            return
        owed = Counter(held for mine in self.receipts.values() for r in mine for held in r.given)
        for node in self.view.nodes():
            for component, count in node.host_locks.items():
                if not node.root and count != owed[node.id, component]:
                    raise Broken(
                        "L1",
                        f"{component} host lock counts drift",
                        f"node {node.id}: {owed[node.id, component]} holders of {component}",
                        count,
                    )

    def _count(self, data: Any) -> int:
        return int(data.host_lock_ref)

    def _compare(self, receipt: Receipt, given: set[Held], taken: set[Held]) -> None:
        try:
            super()._compare(receipt, given, taken)
        except Broken as broken:
            signature = f"{broken.signature} on the host"
            raise Broken(broken.oracle, signature, broken.expected, broken.seen) from None


def _kind(caller: FrameType) -> str:
    """Whose lock it is, by the function of the release that asks."""
    frame: FrameType | None = caller
    for _ in range(FRAMES):
        if frame is None:
            break
        if frame.f_code.co_name in HOLDERS:
            return HOLDERS[frame.f_code.co_name]
        frame = frame.f_back
    return "somebody"
