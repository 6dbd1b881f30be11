"""Stand-ins: what is absent is false, and nothing but the table is stood in for."""

from pathlib import Path

from harness.targets.sglang import loader, table
from harness.targets.sglang.prune import Ran, functions_run, sources_of
from harness.targets.sglang.tokens import Seed, grow


def test_a_stand_in_can_be_called_subclassed_and_asked_and_is_false() -> None:
    blank = loader._blank("Feature")

    class Own(blank, total=False):  # type: ignore[misc, valid-type]
        pass

    assert not blank(1, 2)
    assert not blank.anything.deeper(3)
    assert list(blank()) == []
    assert len(blank()) == 0
    assert issubclass(Own, blank)


def test_as_a_decorator_it_changes_nothing() -> None:
    def function() -> int:
        return 3

    blank = loader._blank("jit")
    assert blank(function)() == 3
    assert blank(cache=True)(function)() == 3


def test_only_names_in_the_table_are_stood_in_for() -> None:
    finder = loader._Finder(Path("nowhere") / "sglang", "0.5.12")
    assert finder.find_spec("sglang.srt.mem_cache.common", None) is None
    assert finder.find_spec("sglang.srt.managers.scheduler", None) is None
    assert finder.find_spec("numpy", None) is None
    assert finder.find_spec("sglang.srt.layers.sampler", None) is not None
    for name in table.KEPT:
        assert finder.find_spec(f"sglang.{name}", None) is None


def test_what_the_cache_is_made_of_is_never_stood_in_for() -> None:
    own = ("srt.mem_cache", "srt.managers", "srt.session", "srt.server_args", "srt.environ")
    for part in table.PARTS:
        assert not part.startswith(own), part


NOTHING: Ran = frozenset()


def test_a_script_brings_what_it_imports_before_it() -> None:
    names = list(sources_of("harness.targets.sglang.runner", NOTHING))
    assert names[-1] == "harness.targets.sglang.runner"
    assert len(names) == len(set(names))
    assert "harness.targets.sglang.world" in names
    assert not [name for name in names if name.startswith(("cache", "harness.hunt"))]


def test_a_script_leaves_out_what_did_not_run_and_keeps_what_importing_needs() -> None:
    ran = functions_run(lambda: grow([], Seed(1, 0), 3))
    assert ("harness.targets.sglang.tokens", "grow") in ran
    name = "harness.targets.sglang.tokens"
    kept = sources_of(name, ran)[name]
    assert "def grow(tokens, seed, count):" in kept
    assert "def named" not in kept
    assert '"""' not in kept
    kernel = "harness.explore.kernel"
    assert "def _exhausted()" in sources_of(kernel, NOTHING)[kernel]
    assert "def resume" not in sources_of(kernel, NOTHING)[kernel]
