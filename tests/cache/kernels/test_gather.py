"""The kernel moves exactly the bytes that torch's copies move, between any two layouts."""

import importlib.util
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cache.kernels import Mover
from cache.kernels.direct import DIRECT
from cache.layout import Layout
from cache.model import KvDtype
from cache.tensors import PageShape, TensorStore

triton = pytest.importorskip("triton", reason="triton has no wheel for this platform")
GATHER = Path(__file__).resolve().parents[3] / "cache" / "kernels" / "gather.py"
PAIRS = [pair for pair in product(Layout, Layout) if Layout.LAYER_FIRST in pair]
SHAPES = {
    "a power of two": PageShape(layers=3, tokens=4, width=32, dtype=KvDtype.FP8_E4M3),
    "no power of two": PageShape(layers=2, tokens=5, width=24, dtype=KvDtype.BF16),
    "several tiles": PageShape(layers=1, tokens=6, width=8192, dtype=KvDtype.FP8_E5M2),
    "a state": PageShape(layers=2, tokens=1, width=40, dtype=KvDtype.BF16),
}
of, to = [5, 1, 3], [0, 4, 2]


@pytest.fixture(scope="module")
def interpreted() -> ModuleType:
    """The kernel's module once more, for Triton's interpreter: which one is decided on import."""
    spec = importlib.util.spec_from_file_location("gather_interpreted", GATHER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        spec.loader.exec_module(module)
    return module


def noisy(shape: PageShape, layout: Layout, seed: int, mover: Mover = DIRECT) -> TensorStore:
    """A store full of chance."""
    store = TensorStore(shape, 6, layout, mover=mover)
    chance = torch.Generator().manual_seed(seed)
    store.bytes.copy_(torch.randint(256, store.bytes.shape, dtype=torch.uint8, generator=chance))
    return store


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_it_moves_what_torch_moves_and_nothing_else(interpreted, shape, first, second):
    source = noisy(shape, first, 1)
    expected, seen = noisy(shape, second, 2), noisy(shape, second, 2, interpreted.Gather())
    expected.take(source, of, to)
    seen.take(source, of, to)
    assert torch.equal(seen.bytes, expected.bytes)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_it_moves_some_layers_and_leaves_the_others(interpreted, first, second):
    shape = SHAPES["a power of two"]
    source = noisy(shape, first, 1)
    expected, seen = noisy(shape, second, 2), noisy(shape, second, 2, interpreted.Gather())
    for layers in (range(1, 2), range(2, 3)):
        expected.take_layers(source, of, to, layers)
        seen.take_layers(source, of, to, layers)
        assert torch.equal(seen.bytes, expected.bytes)
    source.take_layers(seen, to, of, range(3))


def test_the_slots_of_another_copy_are_not_those_of_the_last(interpreted):
    shape = SHAPES["a power of two"]
    source = noisy(shape, Layout.LAYER_FIRST, 1)
    target = noisy(shape, Layout.PAGE_FIRST, 2, interpreted.Gather())
    for here, there in (([0], [1]), ([2], [1]), ([2], [3])):
        target.take(source, there, here)
        assert torch.equal(target.keys(1)[here], source.keys(1)[there])


def test_it_compiles_for_a_gpu_that_is_not_here_and_moves_sixteen_bytes_at_once(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from cache.kernels.gather import _copy_tiles

    kinds = dict.fromkeys(_copy_tiles.arg_names, "i32")
    kinds |= dict.fromkeys(("target", "source", "to", "of"), "*i64")
    kinds |= dict.fromkeys(("UNIT", "TOKENS", "WORDS"), "constexpr")
    aligned = [["tt.divisibility", 16]]
    names = list(kinds)
    hints = {(names.index(name),): aligned for name in ("target", "source", "to", "of", "row")}
    source = ASTSource(_copy_tiles, kinds, {"UNIT": 2, "TOKENS": 16, "WORDS": 128}, hints)
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "ld.global.v2.b64" in ptx
    assert "st.global.v2.b64" in ptx


@pytest.mark.gpu
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_on_a_gpu_it_reaches_the_host_and_back(first, second):
    from cache.kernels.gather import Gather

    shape = PageShape(layers=3, tokens=64, width=1024, dtype=KvDtype.FP8_E4M3)
    gather = Gather()
    device = TensorStore(shape, 6, Layout.LAYER_FIRST, "cuda", mover=gather)
    host = TensorStore(
        shape, 6, second if first is Layout.LAYER_FIRST else first, pinned=True, mover=gather
    )
    device.write(of, [1, 2, 3])
    host.take(device, of, to)
    torch.cuda.synchronize()
    assert host.read(to) == [1, 2, 3]
    assert host.damaged(to) == []
    device.forget(of)
    device.take(host, to, of)
    assert device.read(of) == [1, 2, 3]
    assert device.damaged(of) == []
