"""A measured preset comes back as it was written, and a damaged file is refused in one line."""

import json
from dataclasses import replace

import pytest

from cache.config import ConfigError
from cache.layout import Layout
from harness.engine.hardware import HARDWARE, CopyRate, IoBackend, load_hardware
from harness.engine.hardware_file import write_hardware

RATES = tuple(
    CopyRate(IoBackend.DIRECT, layout, direction, 1e-5, 3e9)
    for layout in Layout
    for direction in ("DEVICE_TO_HOST", "HOST_TO_DEVICE")
)
MEASURED = replace(HARDWARE["cpu"], name="measured", attention_mfu=0.0, copies=RATES)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "here.json"
    write_hardware(path, MEASURED, {"samples": [1, 2]})
    return path


def test_a_preset_comes_back_as_it_was_written(path):
    assert load_hardware(str(path)) == MEASURED


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda page: page.update(format="kvtorture hardware 0"), "is no file of"),
        (lambda page: page.pop("hardware"), "'hardware'"),
        (lambda page: page["hardware"].update(speed=1), "'speed'"),
        (lambda page: page["hardware"].pop("mfu") and page["hardware"].pop("name"), "name"),
        (lambda page: page["hardware"].update(mbu=0), "mbu is 0"),
        (lambda page: page["hardware"].update(mbu="much"), "mbu is 'much'"),
        (lambda page: page["hardware"]["copies"][0].update(layout="heap"), "heap"),
        (lambda page: page["hardware"]["copies"][0].update(direction="up"), "up"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(path, change, complaint):
    page = json.loads(path.read_text())
    change(page)
    path.write_text(json.dumps(page))
    with pytest.raises(ConfigError, match=complaint) as refused:
        load_hardware(str(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["{", "[]", None])
def test_what_is_no_such_file_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match="--hardware"):
        load_hardware(str(path))
