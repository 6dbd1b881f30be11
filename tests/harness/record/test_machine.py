"""What is said about the machine identifies nobody."""

import getpass
import os
import platform
import sys
from pathlib import Path

from harness.record.machine import command_line, machine, portable, versions


def test_no_user_host_or_path_is_recorded():
    text = repr(machine()) + repr(versions())
    for private in (platform.node(), str(Path.home()), os.getcwd(), sys.executable):
        assert private not in text
    assert getpass.getuser() not in repr(list(machine().values())).split("'")


def test_the_machine_is_described():
    found = machine()
    assert found["cpu"]
    assert int(found["cores"]) >= int(found["usable_cores"]) >= 1
    assert int(found["memory_bytes"]) > 1 << 20


def test_versions_come_from_metadata_without_importing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert versions()["python"] == platform.python_version()
    assert versions()["numpy"]


def test_a_command_is_quoted_and_its_paths_made_portable(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/somewhere/ann")
    monkeypatch.chdir(tmp_path)
    argv = [
        "/opt/x/bench.py",
        "soak",
        "--tag",
        "two words",
        f"--trace={tmp_path}/a b.jsonl",
        "--output-dir=/somewhere/ann/my runs",
    ]
    assert command_line(argv) == (
        "python bench.py soak --tag 'two words' '--trace=a b.jsonl'"
        " --output-dir=\"$HOME\"/'my runs'"
    )
    assert command_line(["/usr/bin/kvtorture", "soak"]) == "kvtorture soak"
    assert portable("/somewhere/ann/x") == "$HOME/x"
