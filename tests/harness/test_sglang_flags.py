"""Pasted launch commands, as people write them."""

import pytest

from cache.config import ConfigError
from harness.sglang_flags import KNOWN_FLAGS, parse_launch

SEED_REPORT = r"""SGLANG_ENABLE_SPEC_V2=1 CUDA_VISIBLE_DEVICES=0,1 \
python3 -m sglang.launch_server \
  --model-path google/gemma-4-31B-it --tp-size=2 \
  --context-length 32768 --kv-cache-dtype fp8_e4m3 \
  --page-size 64 --enable-hierarchical-cache --hicache-ratio 1 \
  --hicache-write-policy write_through_selective \
  --hicache-storage-prefetch-policy wait_complete \
  --hicache-io-backend kernel --hicache-mem-layout page_first \
  --cuda-graph-bs 1 2 4 --trust-remote-code \
  --json-model-override-args '{"a": 1}' --host 0.0.0.0 --port 30000"""


def test_the_seed_report_is_understood():
    launch = parse_launch(SEED_REPORT)
    assert launch.known == {
        "--model": "google/gemma-4-31B-it",
        "--tp": "2",
        "--context-length": "32768",
        "--kv-cache-dtype": "fp8_e4m3",
        "--page-size": "64",
        "--enable-hierarchical-cache": "true",
        "--hicache-ratio": "1",
        "--hicache-write-policy": "write_through_selective",
        "--hicache-storage-prefetch-policy": "wait_complete",
        "--hicache-io-backend": "kernel",
        "--hicache-mem-layout": "page_first",
    }
    assert launch.ignored == (
        "SGLANG_ENABLE_SPEC_V2=1",
        "CUDA_VISIBLE_DEVICES=0,1",
        "--cuda-graph-bs 1 2 4",
        "--trust-remote-code",
        "--json-model-override-args '{\"a\": 1}'",
        "--host 0.0.0.0",
        "--port 30000",
    )
    assert launch.hierarchical


@pytest.mark.parametrize("flag", ["--tp", "--tp-size", "--tensor-parallel-size"])
def test_aliases_mean_the_same(flag):
    assert parse_launch(f"sglang serve {flag} 4").known == {"--tp": "4"}


@pytest.mark.parametrize(
    "command",
    [
        "sglang serve --model m",
        "sglang serve m",
        "/opt/venv/bin/sglang serve --model-path=m",
        "python -m sglang.launch_server --model m",
        "$ python3 /sglang/python/sglang/launch_server.py --model-path 'm'",
    ],
)
def test_every_way_to_launch_is_known(command):
    assert parse_launch(command) == ({"--model": "m"}, ())


def test_a_wrapper_and_what_the_shell_does_are_listed():
    launch = parse_launch(
        "docker run --gpus all lmsysorg/sglang python3 -m sglang.launch_server"
        " --model m > server.log 2>&1 &"
    )
    assert launch.known == {"--model": "m"}
    assert launch.ignored == ("docker run --gpus all", "> server.log 2>&1 &")


def test_the_last_of_several_wins():
    assert parse_launch("sglang serve --page-size 1 --page-size 64").known == {"--page-size": "64"}


def test_negative_numbers_are_values():
    launch = parse_launch("sglang serve --chunked-prefill-size -1 --stream-interval -1")
    assert launch.known == {"--chunked-prefill-size": "-1"}
    assert launch.ignored == ("--stream-interval -1",)


def test_windows_line_ends_do_not_matter():
    assert parse_launch("sglang serve \\\r\n --tp 2").known == {"--tp": "2"}


def test_switching_the_hybrid_memory_off_leaves_one_component():
    assert parse_launch("sglang serve --disable-hybrid-swa-memory").known == {
        "--components": "full"
    }


def test_a_command_without_the_host_tier_says_so():
    assert not parse_launch("sglang serve --model m --hicache-ratio 2").hierarchical


def test_known_flags_that_are_not_supported_are_listed_as_ignored():
    supported = KNOWN_FLAGS - {"--hicache-storage-backend"}
    launch = parse_launch(
        "sglang serve --model m --hicache-storage-backend file", supported=supported
    )
    assert launch == ({"--model": "m"}, ("--hicache-storage-backend file",))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "no SGLang launch command"),
        ("vllm serve m", "no SGLang launch command"),
        ("sglang serve --model 'm", "check its quotes"),
        ("sglang serve --page-size", "--page-size takes one value"),
        ("sglang serve --page-size=", "--page-size takes one value"),
        ("sglang serve --page-size --tp 2", "--page-size takes one value"),
        ("sglang serve --tp 2 4", "--tp takes one value"),
        ("sglang serve --enable-hierarchical-cache yes", "takes no value"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(command, words):
    with pytest.raises(ConfigError) as refusal:
        parse_launch(command)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
