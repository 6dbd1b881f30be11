"""A model in one world: its weights, what it computes into, and N1."""

from collections.abc import Callable, Sequence

import torch

from cache.config import Component, Tier
from cache.tensors import TensorStore
from cache.unified import UnifiedCache
from harness.model.executor import Launcher, ModelExecutor
from harness.model.network import Network
from harness.model.numerics import Numerics, Wrong
from harness.model.pieces import Vocabulary
from harness.model.plan import ModelPlan
from harness.model.sampling import Sampler
from harness.model.scratch import Scratch
from harness.model.shard import ALONE, Sums
from harness.model.store import device_stores
from harness.model.weights import layers_in_order, make_weights, pattern


class ModelRun:
    """Made for one cache, which was built with `plan.stores`."""

    def __init__(self, plan: ModelPlan, cache: UnifiedCache, sums: Sums = ALONE) -> None:
        """`sums` are over the ranks that the plan's shard is one of."""
        assert plan.shard.ranks == sums.ranks
        self._plan = plan
        self._cache = cache
        whole = make_weights(plan.shape, plan.seed, plan.device)
        self._weights = plan.shard.weights(whole, plan.shape)
        self._network = Network(plan.part, self._weights, cache.config, device_stores(cache), sums)
        self.numerics: Numerics | None = None
        if plan.check_logits:
            self.numerics = Numerics(
                Scratch(plan.shape, whole, cache.config, plan.dtype),
                pattern(plan.shape),
                cache.config.page_size,
                share=plan.check_logits,
                seed=plan.seed,
                shard=plan.shard,
            )

    def executor(self, launcher: Launcher, on_wrong: Callable[[Wrong], None]) -> ModelExecutor:
        plan = self._plan
        return ModelExecutor(
            self._cache,
            self._network,
            Vocabulary(plan.shape.vocab_size),
            Sampler(
                plan.decoding,
                hidden=plan.shape.hidden_size,
                seed=plan.seed,
                first=plan.first_token,
            ),
            launcher,
            numerics=self.numerics,
            on_wrong=on_wrong,
        )

    def layers(self) -> Sequence[tuple[Component, int]]:
        """Those that pages and states have, in the order in which a forward comes to them."""
        return layers_in_order(self._plan.shape)

    def memory(self) -> dict[str, float]:
        """Bytes that tensors take, under the names of the time series."""
        tiers = {tier: self._tensor_bytes(tier) for tier in Tier}
        on_gpu = self._plan.device != "cpu"
        found: dict[str, float] = {
            "weight_bytes": self._weights.num_bytes,
            "device_tensor_bytes": tiers[Tier.DEVICE],
            "host_tensor_bytes": tiers[Tier.HOST],
            "pinned_bytes": tiers[Tier.HOST] if on_gpu else 0,
        }
        if on_gpu:
            found["allocator_bytes"] = torch.cuda.memory_allocated()
        return found

    def _tensor_bytes(self, tier: Tier) -> int:
        if tier is Tier.HOST and not self._cache.config.hierarchical:
            return 0
        return sum(self._bytes(tier, component) for component in self._cache.config.components)

    def _bytes(self, tier: Tier, component: Component) -> int:
        pool = self._cache.pools[tier, component]
        stores = [pool.bare, *(beside.store for beside in pool.companions)]
        return sum(s.bytes.numel() for s in stores if isinstance(s, TensorStore))
