"""What a rank runs on: memory, arithmetic, and the link to the host.

Peaks are the vendor's, dense; link speeds are what copies from pinned memory are seen to reach.
The efficiencies and overheads are assumptions, the same for all GPUs, and named so that a run's
record shows them. Invariant: nothing here was measured on the machine that runs this program; what
was comes from a file that `bench.py calibrate` has written.
"""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cache.config import ConfigError
from cache.layout import Layout

GB = 1e9
TFLOPS = 1e12


class IoBackend(enum.StrEnum):
    """Who moves the bytes: the copy engine, or a gather/scatter kernel."""

    DIRECT = "direct"
    KERNEL = "kernel"


class CopyRate(NamedTuple):
    """Measured: what a copy takes before its first byte, and bytes per second from then on.
    `direction` is the name of a `compute.Direction`."""

    backend: IoBackend
    layout: Layout
    direction: str
    begin_s: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device. Speeds are bytes or operations per second, in one direction; times seconds.

    `mfu` and `mbu` are the shares of the arithmetic and bandwidth peaks that a forward reaches.
    `copies`, where they were measured, stand for the links and the model of a copy.
    """

    name: str
    source: str
    memory_bytes: int
    memory_bandwidth: float
    bf16_flops: float
    fp8_flops: float
    to_host_bandwidth: float
    to_device_bandwidth: float
    mfu: float = 0.5
    mbu: float = 0.8
    attention_mfu: float = 0.0  # the shares that attention reaches; 0: `mfu`, `mbu`
    attention_mbu: float = 0.0
    step_overhead_s: float = 300e-6  # scheduling and launching one forward
    sequence_overhead_s: float = 0.0  # and each of its requests
    allreduce_s: float = 10e-6  # latency of one reduction between ranks, two in each layer
    agreement_s: float = 50e-6  # latency of one number agreed on between the ranks' schedulers
    copies: tuple[CopyRate, ...] = ()

    def copy_rate(self, backend: IoBackend, layout: Layout, direction: str) -> CopyRate | None:
        """What was measured; None where nothing was. Where only one backend was measured, there is
        only one."""
        found = [rate for rate in self.copies if rate[1:3] == (layout, direction)]
        for rate in found:
            if rate.backend is backend:
                return rate
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class CopyPath:
    """The time of a copy between device and host. A model, not a measurement.

    A copy costs one launch, a small price for each contiguous fragment, and its bytes at a share of
    the link. The copy engine fills the link and pays for each fragment's descriptor; the kernel
    hardly minds fragments and reaches less of the link: 68.5 against 83.4 GB/s, both ways together,
    in vLLM's post on its offloading connector (January 2026). Launch and fragment prices are
    assumptions.
    """

    launch_s: float
    fragment_s: float
    efficiency: float


COPY_PATHS = {
    IoBackend.DIRECT: CopyPath(launch_s=20e-6, fragment_s=0.5e-6, efficiency=1.0),
    IoBackend.KERNEL: CopyPath(launch_s=10e-6, fragment_s=0.01e-6, efficiency=68.5 / 83.4),
}

# NVIDIA's post on nvbandwidth shows 55.6 GB/s over PCIe 5 x16; 24.8 GB/s over PCIe 4 x16 on an
# A100: forums.developer.nvidia.com/t/352186.
_PCIE5 = 55 * GB
_PCIE4 = 25 * GB

_PRESETS = (
    Hardware(
        name="H200",
        source="https://www.nvidia.com/en-us/data-center/h200/ (SXM)",
        memory_bytes=int(141 * GB),
        memory_bandwidth=4800 * GB,
        bf16_flops=989.4 * TFLOPS,
        fp8_flops=1978.9 * TFLOPS,
        to_host_bandwidth=_PCIE5,
        to_device_bandwidth=_PCIE5,
    ),
    Hardware(
        name="B200",
        # 180 GB of the chip's 192 are the server's to use; not confirmed beyond the data sheet.
        source="https://www.nvidia.com/en-us/data-center/dgx-b200/ (one of eight, 1000 W)",
        memory_bytes=int(180 * GB),
        memory_bandwidth=8000 * GB,
        bf16_flops=2250 * TFLOPS,
        fp8_flops=4500 * TFLOPS,
        to_host_bandwidth=_PCIE5,
        to_device_bandwidth=_PCIE5,
    ),
    Hardware(
        name="H100",
        source="https://www.nvidia.com/en-us/data-center/h100/ (SXM, 80 GB)",
        memory_bytes=int(80 * GB),
        memory_bandwidth=3350 * GB,
        bf16_flops=989.4 * TFLOPS,
        fp8_flops=1978.9 * TFLOPS,
        to_host_bandwidth=_PCIE5,
        to_device_bandwidth=_PCIE5,
    ),
    Hardware(
        name="A100",
        source="https://www.nvidia.com/en-us/data-center/a100/ (SXM, 80 GB); no 8-bit floats",
        memory_bytes=int(80 * GB),
        memory_bandwidth=2039 * GB,
        bf16_flops=312 * TFLOPS,
        fp8_flops=312 * TFLOPS,
        to_host_bandwidth=_PCIE4,
        to_device_bandwidth=_PCIE4,
    ),
    Hardware(
        name="cpu",
        source="assumed: a 16-core server with DDR5; the host tier is another part of its memory",
        memory_bytes=int(64 * GB),
        memory_bandwidth=100 * GB,
        bf16_flops=2 * TFLOPS,
        fp8_flops=2 * TFLOPS,
        to_host_bandwidth=20 * GB,
        to_device_bandwidth=20 * GB,
    ),
)

HARDWARE = {hardware.name: hardware for hardware in _PRESETS}


def base_of(device: str) -> Hardware:
    """The preset whose assumptions stand where a machine was not measured."""
    return HARDWARE["cpu" if device == "cpu" else "H200"]


def load_hardware(name: str) -> Hardware:
    """The preset of that name, in any case, or the one in a file that `bench.py calibrate` has
    written. Raises `ConfigError`."""
    if Path(name).suffix == ".json":
        from harness.engine.hardware_file import read_hardware

        return read_hardware(Path(name))
    for known, hardware in HARDWARE.items():
        if known.lower() == name.lower():
            return hardware
    known = ", ".join(HARDWARE)
    raise ConfigError(
        f"no hardware {name!r}: choose --hardware {known}, or a .json from bench.py calibrate"
    )


def fragments(layout: Layout, *, pages: int, layer_fragments: float) -> float:
    """Contiguous pieces of `pages` pages: `layer_fragments` where layers come first, for the keys
    and values of every layer lie apart; one a page where pages do; two where keys and values of a
    page are kept apart."""
    match layout:
        case Layout.LAYER_FIRST:
            return layer_fragments
        case Layout.PAGE_FIRST:
            return float(pages)
        case Layout.PAGE_FIRST_DIRECT:
            return 2.0 * pages
