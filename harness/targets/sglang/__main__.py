"""`make sglang VERSION=0.5.12`: bring a release, import it, say what it is."""

import sys
import time

from harness.targets.sglang.environment import ROOT, MissingRelease, fetch
from harness.targets.sglang.eras import era_of


def main(version: str) -> int:
    """0 when the release imports and a small cache of it can be built."""
    started = time.monotonic()
    try:
        folder = fetch(version, ROOT)
    except MissingRelease as error:
        print(error, file=sys.stderr)
        return 2
    from harness.targets.sglang.loader import stood_in
    from harness.targets.sglang.release import Release
    from harness.targets.sglang.scenario import complete
    from harness.targets.sglang.world import World

    release = Release(folder, version)
    era = era_of(version)
    assert era is not None
    print(f"sglang {version} in {folder} (era {era.name}: {era.about})")
    for components in ("full", "full+swa", "full+mamba"):
        world = World(release, complete({"components": components}))
        cache, controller = world.cache, world.cache.cache_controller
        print(f"  {components}: {type(cache).__name__} with {type(controller).__name__}")
    print(f"  stand-ins: {', '.join(name for name in stood_in() if '.' not in name)}")
    print(f"ready after {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) == 2 else ""))
