"""Mutants: the same every time, one change each, put in and taken out again; most are found."""

import inspect
from pathlib import Path
from types import CodeType, ModuleType

import pytest

import cache.eviction
import cache.insertion
import cache.locks
from cache.locks import LockTable
from harness.faults.mutants import Mutant, mutants_of, put_in
from harness.faults.mutation import judge, survivors


@pytest.fixture(scope="module")
def of_locks() -> list[Mutant]:
    return list(mutants_of(cache.locks))


def test_the_same_source_gives_the_same_mutants_each_named_once(of_locks: list[Mutant]) -> None:
    names = [mutant.name for mutant in of_locks]
    assert names == [mutant.name for mutant in mutants_of(cache.locks)]
    assert len(set(names)) == len(names) > 40


@pytest.mark.parametrize("module", [cache.locks, cache.insertion])
def test_every_mutant_differs_from_the_clean_code_in_its_own_function(module: ModuleType) -> None:
    for mutant in mutants_of(module):
        found = inspect.getattr_static(module, mutant.function.split(".")[0])
        for name in mutant.function.split(".")[1:]:
            found = inspect.getattr_static(found, name)
        found = getattr(found, "fget", None) or getattr(found, "__func__", found)
        clean = found.__code__
        assert _does(mutant.code) != _does(clean), mutant.name
        assert mutant.code.co_name == clean.co_name
        assert mutant.code.co_freevars == clean.co_freevars


def test_a_mutant_is_put_in_and_taken_out_again_even_after_an_error(of_locks: list[Mutant]) -> None:
    mutant = next(m for m in of_locks if m.function == "LockTable.release")
    clean = LockTable.release.__code__
    with put_in(mutant):
        assert LockTable.release.__code__ is mutant.code
    with pytest.raises(RuntimeError), put_in(mutant):
        raise RuntimeError
    assert LockTable.release.__code__ is clean


def test_what_only_speaks_is_left_alone(of_locks: list[Mutant]) -> None:
    assert not [m.name for m in of_locks if "observer" in m.name.split(": ", 1)[1]]
    assert not [m.name for m in of_locks if "__repr__" in m.function]


def test_a_mutant_that_matters_is_found_and_one_that_does_not_survives(
    of_locks: list[Mutant],
) -> None:
    matters = next(m for m in of_locks if "leaves out 'self._uncount" in m.name)
    assert judge(matters, seed=1, schedules=50, budget_s=60.0).kind.startswith("L")
    slower = next(m for m in mutants_of(cache.eviction) if "offer: '2' becomes '3'" in m.name)
    assert judge(slower, seed=1, schedules=5, budget_s=60.0).kind == ""


def _does(code: CodeType) -> tuple[bytes, tuple[object, ...], tuple[str, ...]]:
    return code.co_code, code.co_consts, code.co_names


def test_an_earlier_runs_survivors_are_those_without_a_kind_that_are_still_there(
    of_locks: list[Mutant], tmp_path: Path
) -> None:
    found, lived = of_locks[0].name, of_locks[1].name
    table = tmp_path / "mutants.csv"
    rows = f'"{found}",L1.count,3,0.1\n"{lived}",,500,9.0\n"gone:1:1 f: nothing",,500,9.0\n'
    table.write_text("mutant,kind,schedules,seconds\n" + rows)
    assert survivors(table) == [lived]
