"""A tree as releases keep one, small enough to break by hand; no release is needed."""

from types import SimpleNamespace as SimpleNamespace
from typing import Any

import torch

SLOTS = 8


class Key:
    def __init__(self, tokens: list[int]) -> None:
        self.token_ids = tokens


class Node:
    """FULL is component 0, SWA component 1, as in a release."""

    counter = 0

    def __init__(self, tokens: list[int], parent: "Node | None") -> None:
        Node.counter += 1
        self.id = Node.counter
        self.key, self.parent = Key(tokens), parent
        self.children: dict[int, Node] = {}
        self.component_data = [
            SimpleNamespace(value=None, host_value=None, lock_ref=0, host_lock_ref=0)
            for _ in range(2)
        ]
        if parent is not None:
            parent.children[self.id] = self

    def put(self, full: list[int] | None, swa: list[int] | None = None, host: Any = None) -> "Node":
        data = self.component_data
        data[0].value = None if full is None else torch.tensor(full)
        data[1].value = None if swa is None else torch.tensor(swa)
        data[0].host_value = None if host is None else torch.tensor(host)
        return self


class Cache:
    """Locks a path for FULL as a release does, and nothing for SWA."""

    def __init__(self) -> None:
        self.tree_components = (0, 1)
        self.root_node = Node([], None)
        self.ongoing_load_back: dict[int, Any] = {}
        self.ongoing_write_through: dict[int, Any] = {}
        self.full_kv_pool_host = self.swa_kv_pool_host = pool()

    def inc_lock_ref(self, node: Node) -> None:
        self._count(node, 1)

    def dec_lock_ref(self, node: Node) -> None:
        self._count(node, -1)

    def inc_host_lock_ref(self, node: Node) -> None:
        node.component_data[0].host_lock_ref += 1

    def dec_host_lock_ref(self, node: Node) -> None:
        node.component_data[0].host_lock_ref -= 1

    def _split_node(self, key: Key, child: Node, length: int) -> Node:
        above = Node(key.token_ids[:length], child.parent)
        assert child.parent is not None
        del child.parent.children[child.id]
        child.key, child.parent = Key(key.token_ids[length:]), above
        above.children[child.id] = child
        above.component_data[0].lock_ref = child.component_data[0].lock_ref
        return above

    def _count(self, node: Node, change: int) -> None:
        at: Node | None = node
        while at is not None and at is not self.root_node:
            at.component_data[0].lock_ref += change
            at = at.parent


def pool() -> Any:
    return SimpleNamespace(
        free_slots=torch.arange(SLOTS), size=SLOTS, prints=torch.zeros(SLOTS, dtype=torch.int64)
    )


def allocator() -> Any:
    return SimpleNamespace(
        free_pages=torch.arange(1, SLOTS + 1),
        release_pages=torch.arange(0),
        page_size=1,
        size=SLOTS,
        is_not_in_free_group=True,
        free_group=[],
    )


def world() -> Any:
    """A world around an empty cache: eight slots of each kind, all free."""
    full = allocator()
    full.full_attn_allocator, full.swa_attn_allocator = full, allocator()
    full.full_to_swa_index_mapping = torch.zeros(SLOTS + 1, dtype=torch.int64)
    buffer = [torch.zeros((SLOTS + 1, 1, 1), dtype=torch.int64)]
    rows = SimpleNamespace(req_to_token=torch.zeros((2, SLOTS), dtype=torch.int32))
    pools = SimpleNamespace(
        allocator=full,
        rows=rows,
        full=SimpleNamespace(k_buffer=buffer),
        swa=SimpleNamespace(k_buffer=[buffer[0].clone()]),
        states=None,
    )
    shape = SimpleNamespace(page_size=1, window=2, hierarchical=True, policy="write_through")
    return SimpleNamespace(
        cache=Cache(), pools=pools, shape=shape, live={}, streams={}, background=None
    )


def with_storage(world: Any) -> Any:
    """The same with a storage that has been told no prefix yet, and nothing in flight."""
    cache = world.cache
    queue = SimpleNamespace(queue=[])
    cache.cache_controller = SimpleNamespace(
        host_mem_release_queue=queue,
        extra_host_mem_release_queues={},
        prefetch_queue=SimpleNamespace(queue=[]),
        prefetch_buffer=SimpleNamespace(queue=[]),
    )
    cache.ongoing_prefetch = {}
    world.background = SimpleNamespace(truth={}, storage=SimpleNamespace(kept=0))
    return world


def prefetch(world: Any, slots: list[int], read: int) -> Any:
    """A prefetch that holds these host slots of FULL, the first `read` of them filled."""
    operation = SimpleNamespace(
        id=len(world.cache.ongoing_prefetch),
        request_id="r0",
        host_indices=torch.tensor(slots),
        completed_tokens=read,
        hash_value=["key"] * len(slots),
    )
    world.cache.ongoing_prefetch[operation.id] = (None, None, None, operation, None, {})
    return operation


def take(allocator: Any, slots: list[int]) -> None:
    """Slots leave the free list."""
    kept = [slot for slot in allocator.free_pages.tolist() if slot not in slots]
    allocator.free_pages = torch.tensor(kept)
