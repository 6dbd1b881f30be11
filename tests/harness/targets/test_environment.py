"""Releases: where they lie, and what is said when they are not there."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from harness.targets.choose import check_target, version_in
from harness.targets.sglang import ci, environment
from harness.targets.sglang.environment import MissingRelease, Unavailable, folder_of, unpack
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


def failing_pip(command: list[str], **options: object) -> "subprocess.CompletedProcess[str]":
    said = "WARNING: retrying\nERROR: No matching distribution found for sglang"
    return subprocess.CompletedProcess(command, 1, stdout="", stderr=said)


def slow_pip(command: list[str], **options: object) -> "subprocess.CompletedProcess[str]":
    raise subprocess.TimeoutExpired(command, environment.DOWNLOAD_S)


@pytest.mark.parametrize(
    ("pip", "said"), [(failing_pip, "No matching distribution"), (slow_pip, "did not arrive")]
)
def test_a_wheel_that_cannot_be_had_leaves_its_tests_out(
    pip: object,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(environment.subprocess, "run", pip)
    with pytest.raises(Unavailable):
        environment.fetch("0.5.12", tmp_path)
    assert ci.main("0.5.12", tmp_path) == 0
    out = capsys.readouterr().out
    assert said in out
    assert out.count("\n") == 1


def test_a_release_that_is_here_and_does_not_import_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0.5.12" / "sglang" / "srt").mkdir(parents=True)
    (tmp_path / "packages" / "msgspec").mkdir(parents=True)
    ran = []

    def run(command: list[str], **options: object) -> "subprocess.CompletedProcess[str]":
        ran.append(command[2])
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(ci.subprocess, "run", run)
    assert ci.main("0.5.12", tmp_path) == 1
    assert ran == ["harness.targets.sglang"]
