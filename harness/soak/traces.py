"""What a person is told of a trace: how it was read, and what its hit rates cannot mean."""

from collections.abc import Mapping

Source = Mapping[str, str | int | float]


def how_read(source: Source) -> str:
    """One line: format, unit of time, block size, what says that prompts begin alike."""
    size = source["block_size"]
    blocks = f"blocks of {size} tokens" if isinstance(size, int) else f"block size {size}"
    unit = source["time_unit"]
    times = "no times" if unit == "none" else f"times in {unit}"
    line = f"trace {source['file']}: {source['format']}, {times}, {blocks}, prefixes:"
    line += f" {source['prefixes']}"
    return f"{line}; {source['warnings']}" if source["warnings"] else line


def is_trace(source: Source) -> bool:
    return "prefixes" in source


def caveat(source: Source) -> str:
    """A note for the report where hit rates mean nothing or little; "" elsewhere."""
    if "unique" not in str(source.get("prefixes", "")):
        return ""
    return (
        "The trace does not say which prompts begin alike (prefixes:"
        f" {source['prefixes']}). Beyond sessions its hit rates mean nothing."
    )
