"""What a cache could do, worked out the slow way from slots, copies and counts alone.

None of this asks the code of the cache that answers the same questions. Invariant: nothing here
changes anything.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from cache.config import Component, Tier
from cache.keys import Key
from cache.transfers import Copy
from cache.tree import Node

Piece = tuple[Node, int]  # a node's component


class Needs(NamedTuple):
    """What a prefix needs beside FULL: a window of so many tokens, 0 for none; a state at its
    end."""

    window: int
    page_size: int
    stateful: bool

    def window_from(self, end: int) -> int:
        """Where the window of a prefix of `end` tokens begins, in whole pages."""
        return max(0, end - self.window) // self.page_size * self.page_size


class Reach(NamedTuple):
    """How far a path serves: nodes of it, from the top. `device` with what is on the device or on a
    sound way there, `loadable` with the host's help."""

    device: int
    loadable: int


class Walked(NamedTuple):
    """The nodes that a key spells, and the pages that it shares with the edge after the last."""

    path: list[Node]
    surplus_pages: int


def walk(root: Node, key: Key, pages: int) -> Walked:
    """Follow the first `pages` pages of `key` below the root."""
    size, data = key.page_bytes, key.data
    offset, stop = 0, pages * size
    node, path = root, list[Node]()
    while offset < stop:
        first = data[offset : offset + size]
        child = node.children.get(first if path else first + key.namespace.encode())
        if child is None:
            break
        if offset + len(child.edge) <= stop and data.startswith(child.edge, offset):
            offset += len(child.edge)
            path.append(child)
            node = child
            continue
        shared = 0
        while (
            offset + size <= stop
            and child.edge[shared * size : (shared + 1) * size] == data[offset : offset + size]
        ):
            shared += 1
            offset += size
        return Walked(path, shared)
    return Walked(path, 0)


def path_of(anchor: Node) -> list[Node]:
    """From the top down to `anchor`, the root left out."""
    path = []
    node = anchor
    while node.parent is not None:
        path.append(node)
        node = node.parent
    path.reverse()
    return path


def reach(path: list[Node], needs: Needs, without: Collection[Piece] = ()) -> Reach:
    """The deepest node of a path that is valid for all components, on the device and with the
    host. The device is taken not to have the pieces of `without`."""
    window, stateful = needs.window, needs.stateful
    device = loadable = 0
    device_from = loadable_from = 0  # SWA is there on every page from here on
    on_device = True
    for index, node in enumerate(path):
        full_here, swa_here = _on_device(node, 0), not window or _on_device(node, 1)
        if without:
            full_here = full_here and (node, Component.FULL) not in without
            swa_here = swa_here and (node, Component.SWA) not in without
        state_here = stateful and _on_device(node, 2) and (node, Component.MAMBA) not in without
        if not full_here and not _to_be_had(node, 0):
            break
        swa_there = swa_here or _to_be_had(node, 1)
        on_device = on_device and full_here
        if not swa_here:
            device_from = node.end
        if not swa_there:
            loadable_from = node.end
        needed = needs.window_from(node.end)
        if on_device and (not window or device_from <= needed) and (state_here or not stateful):
            device = index + 1
        state_there = not stateful or state_here or _to_be_had(node, 2)
        if state_there and (not window or loadable_from <= needed):
            loadable = index + 1
    return Reach(device, loadable)


def lacking(path: list[Node], needs: Needs) -> list[Piece]:
    """(node, component) that the whole path needs and the device has no slots for."""
    if not path:
        return []
    needed = needs.window_from(path[-1].end)
    pieces = [(node, 0) for node in path if node.slots[0][0] is None]
    if needs.window:
        pieces += [(n, 1) for n in path if n.end > needed and n.slots[0][1] is None]
    if needs.stateful and path[-1].slots[0][2] is None:
        pieces.append((path[-1], 2))
    return pieces


def inbound(path: list[Node], needs: Needs) -> list[Copy]:
    """The copies that must land before the whole path can be read, oldest first."""
    if not path:
        return []
    needed = needs.window_from(path[-1].end)
    found: dict[int, Copy] = {}
    state = path[-1].inbound[0][2] if needs.stateful else None
    if state is not None:
        found[state.number] = state
    for node in path:
        full, swa = node.inbound[0][0], node.inbound[0][1] if needs.window else None
        if full is not None:
            found[full.number] = full
        if swa is not None and node.end > needed:
            found[swa.number] = swa
    return [found[number] for number in sorted(found)]


def free_to_go(node: Node, tier: Tier, component: Component) -> bool:
    """Ready, unlocked, and for FULL a leaf of its tier and not the last copy of what is held."""
    slots = node.slots
    if slots[tier][component] is None or node.inbound[tier][component] is not None:
        return False
    if node.locks[tier][component]:
        return False
    if component is not Component.FULL:
        return True
    for child in node.children.values():
        if child.slots[tier][0] is not None:
            return False
    return not (tier is Tier.HOST and slots[0][0] is None and node.locks[0][0])


def evictable(nodes: Iterable[Node], tier: Tier, component: Component) -> Iterator[Node]:
    """Those of `nodes` that could be evicted now."""
    return (node for node in nodes if free_to_go(node, tier, component))


def leaving_pages(copies: Iterable[Copy], components: int) -> list[int]:
    """Device pages, by component, that victims give up when these backups in flight are over."""
    backups: dict[Node, set[int]] = {}
    for copy in copies:
        for part in copy.parts:
            backups.setdefault(part.node, set()).add(copy.number)
    pages = [0] * components
    for node, numbers in backups.items():
        going = [c for c in node.leaving if not _stays(node, c, len(numbers))]
        for component in range(components) if 0 in going else going:
            pages[component] += len(node.slots[0][component] or ())
    return pages


def _stays(node: Node, component: Component, backups: int) -> bool:
    """Whether others than its own backups hold what was to leave, or FULL has a child below."""
    if component is not Component.FULL:
        return node.locks[0][component] > 1
    kids = any(child.slots[0][0] is not None for child in node.children.values())
    return kids or node.locks[0][0] > backups


def host_room(nodes: Iterable[Node], component: Component, held: set[Node], wanted: int) -> int:
    """Host pages that eviction could free, leaf by leaf, without touching `held`; stops counting
    at `wanted`. `nodes` are those that are ready on the host."""
    pages = 0
    left: dict[Node, int] = {}  # children with FULL on the host that would stay
    for node in sorted(nodes, key=lambda n: -n.start):
        if node in held or node.locks[1][component] or node.inbound[1][component] is not None:
            continue
        if component is Component.FULL:
            kids = sum(child.slots[1][0] is not None for child in node.children.values())
            if kids > left.get(node, 0) or (node.slots[0][0] is None and node.locks[0][0]):
                continue
            if node.parent is not None:
                left[node.parent] = left.get(node.parent, 0) + 1
        pages += len(node.slots[1][component] or ())
        if pages >= wanted:
            break
    return pages


def _on_device(node: Node, component: int) -> bool:
    """There, or on a way there that nothing has broken."""
    copy = node.inbound[0][component]
    return node.slots[0][component] is not None and (copy is None or not copy.doomed)


def _to_be_had(node: Node, component: int) -> bool:
    """Ready on the host, with nothing in the way on the device: no slots, no doomed copy."""
    if node.slots[1][component] is None or node.inbound[1][component] is not None:
        return False
    doomed = any(copy is not None and copy.doomed for copy in node.inbound[0])
    return node.slots[0][component] is None and not doomed
