"""Releases: where they lie, and what is said when they are not there."""

import zipfile
from pathlib import Path

import pytest

from harness.targets.choose import check_target, version_in
from harness.targets.sglang.environment import MissingRelease, folder_of, unpack
from harness.targets.sglang.eras import ERAS, era_of


def test_only_what_the_cache_needs_is_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "sglang.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sglang/srt/mem_cache/common.py", "")
        archive.writestr("sglang/bench_serving.py", "")
        archive.writestr("sglang/utils.py", "")
    unpack(wheel, tmp_path / "0.5.12")
    found = sorted(p.relative_to(tmp_path).as_posix() for p in (tmp_path / "0.5.12").rglob("*.py"))
    assert found == ["0.5.12/sglang/srt/mem_cache/common.py", "0.5.12/sglang/utils.py"]


def test_a_release_that_is_not_here_says_how_to_bring_it(tmp_path: Path) -> None:
    with pytest.raises(MissingRelease, match=r"make sglang VERSION=0\.5\.12"):
        folder_of("0.5.12", tmp_path)


def test_a_release_that_no_adapter_knows_names_those_that_there_are() -> None:
    with pytest.raises(MissingRelease, match=r"0\.4\.0; there are 0\.5\.12"):
        check_target("sglang==0.4.0")


@pytest.mark.parametrize("name", ["vllm==1.0", "sglang", "sglang=="])
def test_other_targets_are_told_what_to_type(name: str) -> None:
    with pytest.raises(ValueError, match="sglang==VERSION"):
        version_in(name)


def test_every_release_has_one_row() -> None:
    versions = [era.version for era in ERAS]
    assert len(versions) == len(set(versions))
    assert all(era_of(version) is not None for version in versions)
