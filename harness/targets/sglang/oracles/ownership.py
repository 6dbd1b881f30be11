"""O1 one owner for every slot; O2 the owners add up; O3 the FULL-to-SWA map follows the nodes."""

import numpy as np

from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.view import Node, Slots, among, field_of, held_by


class Ownership(Oracle):
    """Device and host pools. Slots of a request's own, not yet cached tail are counted for it; a
    slot that nobody owns is a leak only at rest, because a batch on its way holds some."""

    name = "O"

    def settled(self) -> None:
        self._check(at_rest=False)

    def at_rest(self) -> None:
        self._check(at_rest=True)

    def _check(self, *, at_rest: bool) -> None:
        nodes = [node for node in self.view.nodes() if not node.root]
        for component in self.view.components:
            claims = [("free", self.view.free(component))]
            claims += [(f"node {n.id}", s) for n in nodes if (s := n.device[component]) is not None]
            claims += self._requests(component)
            self._one_owner(f"device-{component}", claims)
            if at_rest:
                self._adds_up(f"device-{component}", claims, self.view.size(component))
        self._rows()
        if "swa" in self.view.components:
            self._follow_map(nodes)
        if self.world.shape.hierarchical:
            self._host(nodes, at_rest=at_rest)

    def _host(self, nodes: list[Node], *, at_rest: bool) -> None:
        staged = self.view.staged() if self.world.background is not None else []
        for component in self.view.components:
            claims = [("free", self.view.host_free(component))]
            claims += [(f"node {n.id}", s) for n in nodes if (s := n.host[component]) is not None]
            claims += [(one.owner, one.slots) for one in staged if one.component == component]
            self._one_owner(f"host-{component}", claims)
            if at_rest:
                self._adds_up(f"host-{component}", claims, self.view.host_size(component))

    def _requests(self, component: str) -> list[tuple[str, Slots]]:
        """What each running request holds beyond what it has cached."""
        claims = []
        for rid, req in self.world.live.items():
            if component == "mamba":
                state = field_of(req, "mamba_pool_idx")
                if state is not None:
                    claims.append((rid, np.array([int(state)])))
                continue
            held = held_by(req)
            if held is None:
                continue
            first = held.window_from if component == "swa" else held.cached
            row = self.view.pools.rows.req_to_token[field_of(req, "req_pool_idx")]
            slots = row[first : held.allocated].numpy().astype(np.int64)
            if component == "swa":
                slots = self._mapped(slots)
                slots = slots[slots > 0]
            claims.append((rid, slots))
        return claims

    def _rows(self) -> None:
        """What a running request reads is not free for others to take."""
        free = self.view.free("full")
        for rid, req in self.world.live.items():
            held = held_by(req)
            if held is None:
                continue
            row = self.view.pools.rows.req_to_token[field_of(req, "req_pool_idx")]
            slots = row[: held.allocated].numpy()
            lost = among(slots, free)
            if len(lost):
                raise Broken(
                    "O1",
                    "a running request's FULL slots are free",
                    f"the {len(slots)} slots of {rid} are its own or cached",
                    f"{lost.tolist()} are free",
                )

    def _mapped(self, slots: Slots) -> Slots:
        mapping = self.view.pools.allocator.full_to_swa_index_mapping.numpy()
        return np.asarray(mapping[slots], dtype=np.int64)

    def _one_owner(self, pool: str, claims: list[tuple[str, Slots]]) -> None:
        taken = np.concatenate([slots for _, slots in claims])
        counts = np.bincount(taken, minlength=1)
        if counts.max(initial=0) <= 1:
            return
        slot = int(counts.argmax())
        owners = [owner for owner, slots in claims if slot in slots]
        kinds = sorted({_kind(owner) for owner in owners})
        kinds = kinds * 2 if len(kinds) == 1 else kinds
        raise Broken(
            "O1",
            f"{pool}: {' and '.join(kinds)}",
            "one owner for every slot",
            f"slot {slot} of {pool} is of {', '.join(owners)}",
        )

    def _adds_up(self, pool: str, claims: list[tuple[str, Slots]], size: int) -> None:
        owned = sum(len(slots) for _, slots in claims)
        if owned != size // self._page(pool) * self._page(pool):
            raise Broken("O2", f"{pool} leaks", f"{size} slots owned", f"{owned} owned")

    def _page(self, pool: str) -> int:
        return 1 if pool.endswith("mamba") else self.world.shape.page_size

    def _follow_map(self, nodes: list[Node]) -> None:
        """Freeing goes through the map, so it must lead from a node's FULL slots to its SWA ones;
        a node without SWA must lead nowhere, else freeing it frees somebody's."""
        for node in nodes:
            full, swa = node.device["full"], node.device["swa"]
            if full is None:
                continue
            mapped = self._mapped(full)
            if swa is not None and not np.array_equal(mapped, swa):
                raise Broken(
                    "O3",
                    "the map does not lead to a node's SWA slots",
                    f"node {node.id}: {swa.tolist()}",
                    mapped.tolist(),
                )
            if swa is None and np.any(mapped > 0):
                raise Broken(
                    "O3",
                    "the map still leads from a node without SWA",
                    f"node {node.id}: nothing",
                    mapped.tolist(),
                )


def _kind(owner: str) -> str:
    """An owner without its number."""
    if owner.startswith("prefetch "):
        return "prefetch"
    return owner.rstrip("0123456789 ") or owner
