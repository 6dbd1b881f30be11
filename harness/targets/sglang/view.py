"""A release's cache as plain data: what its nodes have, who holds locks, which slots are free.

Invariant: looking changes nothing; no method of the cache that touches recency is called.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.targets.sglang.release import prints_of

Slots = NDArray[np.int64]
EMPTY: Slots = np.zeros(0, dtype=np.int64)
NAMES = ("full", "swa", "mamba")


class Node(NamedTuple):
    """One node. `device` and `host` have slots by component, None where it is absent."""

    id: int
    parent: int
    start: int
    tokens: tuple[int, ...]
    device: dict[str, Slots | None]
    host: dict[str, Slots | None]
    locks: dict[str, int]
    host_locks: dict[str, int]
    root: bool
    raw: Any

    @property
    def stop(self) -> int:
        return self.start + len(self.tokens)


class Claim(NamedTuple):
    """Host slots of one component that are neither free nor a node's."""

    owner: str
    component: str
    slots: Slots


class Held(NamedTuple):
    """A running request's tokens: [0, `cached`) are the cache's, up to `allocated` its own; its own
    before `window_from` are no longer in the window."""

    cached: int
    window_from: int
    allocated: int


def held_by(req: Any) -> Held | None:
    """None where it has no slots. A record of its own holds them from 0.5.17 on."""
    if field_of(req, "req_pool_idx") is None or getattr(req, "kv_committed_freed", False):
        return None
    cached = int(field_of(req, "cache_protected_len"))
    return Held(cached, max(cached, _slid_to(req)), int(field_of(req, "kv_allocated_len")))


def _slid_to(req: Any) -> int:
    """Where its window begins; by component from 0.5.22 on."""
    cursors = getattr(getattr(req, "kv", None), "component_evicted_seqlens", None)
    if cursors is None:
        return int(field_of(req, "swa_evicted_seqlen"))
    return next((at for kind, at in cursors.items() if NAMES[int(kind)] == "swa"), 0)


def field_of(req: Any, name: str) -> Any:
    """A field of a request, or of its record of what it holds, where releases moved it later."""
    record = getattr(req, "kv", None)
    return getattr(record, name) if hasattr(record, name) else getattr(req, name)


class View:
    """Reads the tree: the cache itself up to 0.5.16, apart from it later."""

    def __init__(self, cache: Any, pools: Any) -> None:
        self.cache = cache
        self.tree = tree_of(cache)
        self.pools = pools
        self.components = [NAMES[int(kind)] for kind in cache.tree_components]
        self._seen: list[Node] | None = None
        self._free: dict[tuple[str, str], Slots] = {}
        self.opaque = type(self.tree).__name__.startswith("Rust")  # it shows no nodes
        self._kinds = [(NAMES[int(kind)], int(kind)) for kind in cache.tree_components]

    def forget(self) -> None:
        """The cache may have changed: look again."""
        self._seen = None
        self._free = {}

    def reads(self, row: object) -> None: ...

    def copies(self, copy: object) -> None: ...

    def pages(self, page: object) -> None:
        self.forget()

    def kept(self, key: str, prints: object) -> None: ...

    settled = forget

    def nodes(self) -> list[Node]:
        """Root first, parents before children, children in the order in which they came."""
        if self._seen is None:
            self._seen = [] if self.opaque else list(self._look())
        return self._seen

    def _look(self) -> Iterator[Node]:
        stack = [(self.tree.root_node, -1, 0)]
        while stack:
            raw, parent, start = stack.pop()
            node = self.node(raw, parent, start)
            yield node
            children = list(raw.children.values())
            stack.extend((child, node.id, node.stop) for child in reversed(children))

    def node(self, raw: Any, parent: int, start: int) -> Node:
        data = raw.component_data
        root = raw is self.tree.root_node
        return Node(
            id=raw.id,
            parent=parent,
            start=start,
            tokens=() if root else tuple(raw.key.token_ids),
            device={n: None if root else slots_of(data[k].value) for n, k in self._kinds},
            host={n: None if root else slots_of(data[k].host_value) for n, k in self._kinds},
            locks={n: data[k].lock_ref for n, k in self._kinds},
            host_locks={n: getattr(data[k], "host_lock_ref", 0) for n, k in self._kinds},
            root=root,
            raw=raw,
        )

    def loading(self) -> set[int]:
        """Ids of the nodes at which a load-back is in flight."""
        return set(self.cache.ongoing_load_back)

    def writing(self) -> set[int]:
        """Ids of the nodes whose backup is in flight."""
        return set(self.cache.ongoing_write_through)

    def free(self, component: str) -> Slots:
        """The free device slots of a pool, one entry a slot."""
        return self._once("device", component, self._device_free)

    def _once(self, tier: str, component: str, look: Callable[[str], Slots]) -> Slots:
        found = self._free.get((tier, component))
        if found is None:
            found = self._free[tier, component] = look(component)
        return found

    def _device_free(self, component: str) -> Slots:
        allocator = self.pools.allocator
        if component == "mamba":
            rows = self.pools.rows
            allocator = getattr(rows, "mamba_allocator", rows.mamba_pool)  # apart from 0.5.13 on
            found = slots_of(allocator.free_slots)
            return EMPTY if found is None else found
        if component == "swa":
            return _free_of(allocator.swa_attn_allocator, [])
        inner = getattr(allocator, "full_attn_allocator", allocator)
        grouped = not getattr(allocator, "is_not_in_free_group", True)  # no groups from 0.5.19 on
        return _free_of(inner, allocator.free_group if grouped else [])

    def size(self, component: str) -> int:
        if component == "mamba":
            return int(self.pools.rows.mamba_pool.size)
        allocator = self.pools.allocator
        name = "swa_attn_allocator" if component == "swa" else "full_attn_allocator"
        return int(getattr(allocator, name, allocator).size)

    def host_free(self, component: str) -> Slots:
        """As `free`, of a host pool."""
        return self._once("host", component, self._free_on_host)

    def _free_on_host(self, component: str) -> Slots:
        pool = self._host_pool(component)
        free = [pool.free_slots, *getattr(pool, "release_slots", ())]  # set aside from 0.5.17 on
        return np.concatenate([np.asarray(slots, dtype=np.int64) for slots in free])

    def staged(self) -> list[Claim]:
        """What prefetches hold of the host pools, and what waits to be given back to them."""
        controller = self.cache.cache_controller
        claims = []
        for info in self.cache.ongoing_prefetch.values():
            operation, transfers = info[3], info[5]
            name = f"prefetch {operation.request_id}"
            claims.append(Claim(name, "full", _unread(operation, controller)))
            for one in (one for items in transfers.values() for one in items):
                slots = slots_of(one.host_indices)
                if str(one.name) in self.components and slots is not None:
                    claims.append(Claim(name, str(one.name), slots))
        queues = {"full": controller.host_mem_release_queue}
        queues |= {str(name): q for name, q in controller.extra_host_mem_release_queues.items()}
        for component, queue in queues.items():
            pages = [page.numpy().astype(np.int64) for page in queue.queue]
            if component in self.components and pages:
                claims.append(Claim("given back", component, np.concatenate(pages)))
        return claims

    def component_of(self, host_pool: Any) -> str:
        return next(name for name in self.components if self._host_pool(name) is host_pool)

    def host_size(self, component: str) -> int:
        return int(self._host_pool(component).size)

    def _host_pool(self, component: str) -> Any:
        names = {"full": "full_kv_pool_host", "swa": "swa_kv_pool_host", "mamba": "mamba_pool_host"}
        return getattr(self.cache, names[component])

    def device_rows(self, component: str) -> Slots:
        """What every device slot of a component holds, by slot."""
        if component == "mamba":
            return np.asarray(self.pools.states.mamba_cache.temporal.numpy()[0, :, 0, 0, 0])
        pool = self.pools.full if component == "full" else self.pools.swa
        return np.asarray(pool.k_buffer[0].numpy()[:, 0, 0])

    def host_rows(self, component: str) -> Slots:
        return np.asarray(prints_of(self._host_pool(component)).numpy())


def _unread(operation: Any, controller: Any) -> Slots:
    """The FULL slots of a prefetch: all of them until its reading begins, then those that it has
    read; in between the thread that reads gives the rest back by itself."""
    slots = slots_of(operation.host_indices)
    if slots is None:
        return EMPTY
    waiting = [*controller.prefetch_queue.queue, *controller.prefetch_buffer.queue]
    begun = not any(operation is one for one in waiting)
    return slots[: int(operation.completed_tokens)] if begun else slots


def tree_of(cache: Any) -> Any:
    """What holds the nodes and counts the locks."""
    return getattr(cache, "tree_core", cache)


def slots_of(value: Any) -> Slots | None:
    return None if value is None else value.detach().numpy().astype(np.int64).reshape(-1)


def _free_of(allocator: Any, group: list[Any]) -> Slots:
    """Free pages as slots, with those that wait in a free group."""
    if hasattr(allocator, "staged_pages"):  # one question for all of them from 0.5.20 on
        pages = allocator.get_all_free_pages().numpy()
    else:
        pages = np.concatenate([allocator.free_pages.numpy(), allocator.release_pages.numpy()])
    size = allocator.page_size
    slots = (pages[:, None] * size + np.arange(size)).reshape(-1) if size > 1 else pages
    waiting = [item.numpy().astype(np.int64) for item in group]
    return np.concatenate([slots, *waiting]).astype(np.int64)


def among(slots: Slots, others: Slots) -> Slots:
    """Those of `slots` that are in `others`; slots are small numbers."""
    if not len(slots) or not len(others):
        return EMPTY
    there = np.zeros(max(int(slots.max()), int(others.max())) + 1, dtype=bool)
    there[others] = True
    return slots[there[slots]]
