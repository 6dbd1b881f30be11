"""What every node has on every tier: the only place where residency changes.

    absent --reserve--> filling --land--> ready --drop--> absent
    absent --adopt--------------------->  ready
                        filling --give_back--> absent

Invariant: slots, owners, the FULL-to-SWA map, child counts, size ledgers and victim lists change
together, so each agrees with its recomputation after every call (S6, O1, O3).
"""

from collections.abc import Sequence

from cache.components import Rules
from cache.config import DEVICE, FULL, HOST, MAMBA, SWA, CacheConfig, Component, Tier
from cache.eviction import Victims
from cache.observer import Observer
from cache.pools import Owner, SlotMap, SlotPool
from cache.transfers import Copy
from cache.tree import Node, RadixTree

Place = tuple[Tier, Component]


class Residency:
    def __init__(
        self,
        config: CacheConfig,
        rules: Rules,
        tree: RadixTree,
        pools: dict[Place, SlotPool],
        observer: Observer,
    ) -> None:
        self.components = config.components
        self.small = config.components[1:]  # those that may leave inner nodes
        self.windowed = SWA in config.components
        self.nothing = (0,) * config.width
        self.hierarchical = config.hierarchical
        self.rules = rules
        self.tree = tree
        self.pools = pools
        self.map = SlotMap(config.full.device if config.swa is not None else 0)
        self.victims: dict[Place, Victims] = {
            (tier, component): Victims(
                config.device_eviction if tier is DEVICE else config.host_eviction, component
            )
            for tier in Tier
            for component in self.components
        }
        self.held_pages = dict.fromkeys(self.victims, 0)  # of nodes, ready or filling
        self.locked_pages = dict.fromkeys(self.victims, 0)  # of these, under some lock
        self.agreed_open: dict[Place, bool] = {}  # by ranks; else what each pool says
        self.leaving: dict[int, Node] = {}
        self._stuck: dict[int, Node] = {}  # on the host alone, and held by its place on the device
        tiers = tuple(Tier) if config.hierarchical else (DEVICE,)
        self._places = [(tier, component) for tier in tiers for component in self.components]
        self._observer = observer
        self._page_size = config.page_size
        self.slots = config.slots

    def adopt(self, node: Node, component: Component, slots: list[int], full: list[int]) -> None:
        """The device slots that a request computed become the node's. `full` are the FULL slots
        by which their map entries are known until now."""
        assert node.slots[DEVICE][component] is None
        self.pools[DEVICE, component].move(slots, Owner.REQUEST, Owner.NODE)
        if component is SWA:
            home = node.slots[DEVICE][FULL]
            assert home is not None
            if home is not full:
                self.map.unbind(full)
                self.map.bind(home, slots)
        self._put(node, DEVICE, component, slots)
        self._became_ready(node, DEVICE, component)

    def reserve(self, node: Node, place: Place, slots: list[int], copy: Copy) -> None:
        """The node is filling: `copy` is on its way into `slots`, which it owns until it lands."""
        tier, component = place
        assert node.slots[tier][component] is None
        node.inbound[tier][component] = copy
        self._put(node, tier, component, slots)
        if place == (DEVICE, SWA):
            home = node.slots[DEVICE][FULL]
            assert home is not None
            self.map.bind(home, slots)
        self._observer.filling(node, tier, component)

    def land(self, node: Node, place: Place) -> None:
        """The copy into the node has landed: its slots are ready and the node's."""
        tier, component = place
        slots = node.slots[tier][component]
        assert slots is not None
        assert node.inbound[tier][component] is not None
        node.inbound[tier][component] = None
        self.pools[place].move(slots, Owner.COPY, Owner.NODE)
        self._became_ready(node, tier, component)

    def give_back(self, node: Node, place: Place) -> None:
        """The copy into the node has failed: as if it had never been issued."""
        assert node.inbound[place[0]][place[1]] is not None
        node.inbound[place[0]][place[1]] = None
        self._take(node, place, Owner.COPY)

    def drop(self, node: Node, tier: Tier, component: Component) -> None:
        """Give up ready slots. A node that loses its last FULL leaves the tree."""
        assert node.ready(tier, component), (node, tier, component)
        if component is FULL and tier is DEVICE:
            assert all(node.slots[tier][c] is None for c in self.small), "cascade first"
        self._take(node, (tier, component), Owner.NODE)
        self._observer.dropped(node, tier, component)
        if component is FULL and all(node.slots[t][component] is None for t in Tier):
            assert all(slots is None for t in Tier for slots in node.slots[t]), node
            assert not any(node.locks[t][c] for t in Tier for c in self.components), node
            self.tree.remove(node)
            self._observer.removed(node)

    def trim(self, node: Node, pages: int) -> None:
        """Cut a leaf so that only its last `pages` pages stay in `node`."""
        surplus = node.tokens // self._page_size - pages
        if surplus > 0:
            self.tree.split(node, surplus)

    def touch(self, node: Node, needed_from: list[int], now: int) -> None:
        """A use at logical time `now`, for one node of the path that is used; `needed_from` tells
        per component from which position the prefix needs it."""
        for component in self.components:
            if node.end > needed_from[component]:
                node.used[component] = now
        for victims in self.victims.values():
            victims.refresh(node)

    def renew(self, node: Node, component: Component, now: int) -> None:
        """A use of one component of a node at logical time `now`."""
        node.used[component] = now
        for tier in Tier:
            self.victims[tier, component].refresh(node)

    def leave(self, node: Node, component: Component) -> None:
        """`node` is to give up its device copy as soon as its backups have landed: all of it, once
        that was asked for, whatever is backed up later."""
        if component is FULL:
            node.leaving = (FULL,)
        elif FULL not in node.leaving and component not in node.leaving:
            node.leaving = (*node.leaving, component)
        self.leaving[node.number] = node

    def left(self, node: Node) -> None:
        self.leaving.pop(node.number, None)

    def refused(self, tier: Tier, wanted: Sequence[int]) -> tuple[int, ...]:
        """Slots that `wanted` (per component) asks of pools that are shut, here or on any rank."""
        refused = list(self.nothing)
        for component in self.components:
            place = (tier, component)
            if not self.agreed_open.get(place, self.pools[place].open):
                refused[component] = wanted[component]
        return tuple(refused)

    def obtainable(self, tier: Tier, component: Component) -> int:
        """Slots that are free or held by what may be evicted, in time."""
        place = (tier, component)
        evictable = self.held_pages[place] - self.locked_pages[place]
        if self._stuck and place == (HOST, FULL):
            evictable -= self._stuck_pages()
        return self.pools[place].free_slots + evictable

    def leaving_pages(self) -> tuple[int, ...]:
        """Device slots per component that backups in flight are about to free."""
        pages = list(self.nothing)
        for node in self.leaving.values():
            going = [c for c in node.leaving if not self._taken_up_again(node, c)]
            for component in self.components if FULL in going else going:
                pages[component] += len(node.slots[DEVICE][component] or ())
        return tuple(pages)

    def shortage(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Free device slots that `wanted` (per component) asks for beyond what there is."""
        short = list(self.nothing)
        for component in self.components:
            short[component] = max(0, wanted[component] - self.pools[DEVICE, component].free_slots)
        return tuple(short)

    def follow_split(self, upper: Node, lower: Node) -> None:
        if upper.leaving:
            self.leaving[upper.number] = upper
        self.review(upper)
        self.review(lower)
        self._observer.split(upper, lower)

    def turn(self, node: Node, tier: Tier, component: Component, step: int) -> None:
        """A lock count left 0 (step 1) or reached it (step -1)."""
        slots = node.slots[tier][component]
        if slots is not None:
            self.locked_pages[tier, component] += step * len(slots)
        self._review(node, tier, component)
        if self.hierarchical and tier is DEVICE and component is FULL:
            self._review(node, HOST, component)

    def review(self, node: Node) -> None:
        """List or unlist the node as a victim, everywhere."""
        for tier, component in self._places:
            self._review(node, tier, component)

    def may_go(self, node: Node, tier: Tier, component: Component) -> bool:
        """Whether the node's component may be evicted from the tier now."""
        if node.slots[tier][component] is None or node.inbound[tier][component] is not None:
            return False
        if node.locks[tier][component]:
            return False
        if component is not FULL:
            return True
        if node.kids[tier]:
            return False
        # The host's copy is the last one: whoever holds the place on the device holds it too.
        last = tier is HOST and node.slots[DEVICE][component] is None
        return not (last and node.locks[DEVICE][component])

    def _taken_up_again(self, node: Node, component: Component) -> bool:
        """Whether what was to leave with a component will stay: more than its own backups hold it,
        or it has grown a child. What came after the rest has a backup, and a lock, of its own."""
        if component is not FULL:
            return node.locks[DEVICE][component] > 1
        backups = {copy.number for copy in node.inbound[HOST] if copy is not None}
        return node.kids[DEVICE] > 0 or node.locks[DEVICE][FULL] > len(backups)

    def _stuck_pages(self) -> int:
        """Unlocked FULL pages on the host that cannot go: those of stuck nodes, and above them."""
        nodes = {above.number: above for node in self._stuck.values() for above in node.ancestors()}
        return sum(
            len(node.slots[HOST][FULL] or ())
            for node in nodes.values()
            if not node.locks[HOST][FULL]
        )

    def _review(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is HOST and component is FULL:
            self._note_stuck(node)
        victims = self.victims[tier, component]
        if self.may_go(node, tier, component):
            victims.offer(node)
        else:
            victims.withdraw(node)

    def _note_stuck(self, node: Node) -> None:
        """A failed load-back leaves its anchor's holders with a place that only the host fills."""
        alone = node.slots[HOST][FULL] is not None and node.slots[DEVICE][FULL] is None
        if alone and node.locks[DEVICE][FULL]:
            self._stuck[node.number] = node
        else:
            self._stuck.pop(node.number, None)

    def _put(self, node: Node, tier: Tier, component: Component, slots: list[int]) -> None:
        assert len(slots) == self.slots(component, node.tokens)
        node.slots[tier][component] = slots
        self._weigh(node, tier, component, len(slots))

    def _take(self, node: Node, place: Place, owner: Owner) -> None:
        tier, component = place
        slots = node.slots[tier][component]
        assert slots is not None
        if tier is DEVICE:
            self._unmap(node, component)
        node.slots[tier][component] = None
        self._weigh(node, tier, component, -len(slots))
        self.pools[place].release(slots, owner)

    def _unmap(self, node: Node, component: Component) -> None:
        """FULL may go before SWA in one case only: its load-back failed while a later copy,
        doomed by that, is still under way into the SWA slots."""
        full = node.slots[DEVICE][FULL]
        if component is MAMBA or not self.windowed:
            return
        if full is not None and node.slots[DEVICE][SWA] is not None:
            self.map.unbind(full)
        else:
            assert component is FULL or node.inbound[DEVICE][component] is None

    def _weigh(self, node: Node, tier: Tier, component: Component, pages: int) -> None:
        """Bring ledgers, child counts and victim lists up to date after a change of slots."""
        self.held_pages[tier, component] += pages
        if node.locks[tier][component]:
            self.locked_pages[tier, component] += pages
        if component is FULL:
            parent = node.parent
            assert parent is not None
            parent.kids[tier] += 1 if pages > 0 else -1
            if parent.parent is not None:
                self._review(parent, tier, component)
            if self.hierarchical and tier is DEVICE:
                self._review(node, HOST, component)
        self._review(node, tier, component)

    def _became_ready(self, node: Node, tier: Tier, component: Component) -> None:
        self._review(node, tier, component)
        self._observer.stored(node, tier, component)
