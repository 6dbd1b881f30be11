"""S1 .. S6: the tree is a tree, its values hang together, and its ledgers say so."""

from cache.config import Component, Tier, WritePolicy
from cache.keys import TOKEN_BYTES
from cache.transfers import Copy, CopyState
from cache.tree import Node
from harness.oracles.base import Oracle, place_name
from harness.oracles.naive import free_to_go

ABSENT, FILLING, READY = 0, 1, 2
WORDS = ("absent", "filling", "ready")
States = tuple[list[int], list[int]]


class Structure(Oracle):
    """Whatever a node has, it got and lost by the way of residency: absent, filling, ready, absent.
    After every operation each node that it changed hangs where it says (S1), has FULL somewhere
    (S2), has no component without FULL (S3), no gap above it on the device (S4) nor, under the
    write-through policies, on the host (S5), and is listed as a victim exactly if it may go (S6).
    Silent about values that are doomed to be given back."""

    name = "structure"

    def begin(self) -> None:
        self._states: dict[Node, States] = {}
        self._dirty: dict[Node, None] = {}
        policy = self.cache.config.write_policy
        self._back = policy is WritePolicy.WRITE_BACK
        self._closed = (Tier.DEVICE,) if self._back else (Tier.DEVICE, Tier.HOST)
        tiers = (Tier.DEVICE, Tier.HOST) if self.cache.config.hierarchical else (Tier.DEVICE,)
        self._places = [(tier, component) for tier in tiers for component in self.components]
        victims = self.cache.residency.victims
        self._victims = [(place, victims[place]) for place in self._places]

    # -- residency -----------------------------------------------------------------------------

    def added(self, node: Node) -> None:
        self._states[node] = self._nothing()
        self._dirty[node] = self.pending[self] = None

    def removed(self, node: Node) -> None:
        self._states.pop(node, None)
        self._dirty.pop(node, None)

    def split(self, upper: Node, lower: Node) -> None:
        state = self._states.get(lower)
        if state is not None:
            self._states[upper] = (list(state[0]), list(state[1]))
            for states in self._states[upper]:
                states[Component.MAMBA :] = [ABSENT] * len(states[Component.MAMBA :])
        self._dirty[upper] = self._dirty[lower] = self.pending[self] = None

    def filling(self, node: Node, tier: Tier, component: Component) -> None:
        self._turn(node, tier, component, FILLING, (ABSENT,))

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        adopted = tier is Tier.DEVICE
        self._turn(node, tier, component, READY, (ABSENT, FILLING) if adopted else (FILLING,))

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        self._turn(node, tier, component, ABSENT, (READY,))
        if component is Component.FULL:
            self._dirty.update(dict.fromkeys(node.children.values()))

    def _turn(
        self, node: Node, tier: Tier, component: Component, to: int, allowed: tuple[int, ...]
    ) -> None:
        state = self._states.get(node)
        if state is None:
            state = self._states[node] = self._nothing()
        if state[tier][component] not in allowed:
            expected = f"{node} {' or '.join(WORDS[a] for a in allowed)} before"
            signature = f"{WORDS[to]}.{place_name(tier, component)}"
            self.report("S3", signature, expected, WORDS[state[tier][component]])
        state[tier][component] = to
        self._dirty[node] = self.pending[self] = None

    def _nothing(self) -> States:
        return ([ABSENT] * self.width, [ABSENT] * self.width)

    # -- after operations --------------------------------------------------------------------

    def acknowledged(self, copy: Copy) -> None:
        if copy.state is CopyState.FAILED:
            for node, component, _, _ in copy.parts:
                state = self._states.get(node)
                if state is not None:
                    state[copy.target][component] = ABSENT
                self._dirty[node] = self.pending[self] = None

    def at_rest(self) -> None:
        self._dirty.update(dict.fromkeys(self.cache.tree.nodes()))
        self.review()

    audited = at_rest

    def review(self) -> None:
        changed, self._dirty = self._dirty, {}
        for node in changed:
            if node.parent is None:
                self._gone(node)
                continue
            self._hangs(node)
            self._has_full(node)
            self._closed_above(node)
            self._listed(node)

    def _gone(self, node: Node) -> None:
        if any(slots is not None for tier in (0, 1) for slots in node.slots[tier]):
            self.report("S2", "gone", f"nothing left on {node}, which left the tree", node.slots)

    def _hangs(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        first = node.edge[: self.page_size * TOKEN_BYTES]
        if parent.parent is None:
            first += node.namespace.encode()
        if parent.children.get(first) is not node:
            self.report("S1", "child", f"{node} below {parent}", parent.children.get(first))
        if node.start != parent.end or node.end <= node.start:
            self.report("S1", "position", f"start {parent.end}", node)
        tokens = len(node.edge) // TOKEN_BYTES
        if tokens != node.end - node.start or tokens % self.page_size:
            self.report("S1", "edge", f"{node.end - node.start} tokens, whole pages", tokens)

    def _has_full(self, node: Node) -> None:
        """S2, S3, and that node and picture agree on what it has."""
        slots, state = node.slots, self._states.get(node)
        device, host = slots[Tier.DEVICE][Component.FULL], slots[Tier.HOST][Component.FULL]
        if device is None and host is None:
            self.report("S2", "dead", f"FULL of {node} somewhere", "none")
        for tier, component in self._places:
            here = slots[tier][component]
            inbound = node.inbound[tier][component]
            now = ABSENT if here is None else READY if inbound is None else FILLING
            if state is not None and state[tier][component] != now:
                signature = f"state.{place_name(tier, component)}"
                expected = f"{node} {WORDS[state[tier][component]]}"
                self.report("S3", signature, expected, WORDS[now])
                state[tier][component] = now
            if here is None:
                continue
            if len(here) != self.slots(component, node.tokens):
                expected = f"a slot for each page of {node}, or its state"
                self.report("S3", f"pages.{place_name(tier, component)}", expected, len(here))
            if slots[tier][Component.FULL] is None and not (
                (self._back and tier is Tier.HOST and device is not None)
                or (inbound is not None and inbound.doomed)
            ):
                self.report("S3", place_name(tier, component), f"FULL of {node}", "none")

    def _closed_above(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        if parent.parent is None:
            return
        for tier in self._closed:
            here, above = node.slots[tier][0], parent.slots[tier][0]
            if here is not None and above is None:
                inbound = node.inbound[tier][0]
                if inbound is None or not inbound.doomed:
                    oracle = "S4" if tier is Tier.DEVICE else "S5"
                    self.report(oracle, "closure", f"FULL of {parent} above {node}", "none")

    def _listed(self, node: Node) -> None:
        for (tier, component), victims in self._victims:
            goes = (
                node.slots[tier][component] is not None
                and not node.locks[tier][component]
                and free_to_go(node, tier, component)
            )
            if goes != (node in victims):
                expected = "listed" if goes else "not listed"
                signature = f"victims.{place_name(tier, component)}"
                self.report("S6", signature, f"{node} {expected}", "not so")
