"""What a worker has to know to send its share: the same settings as the master, and which share."""

from dataclasses import asdict, dataclass
from typing import Any

from harness.load.settings import Loading
from harness.soak.settings import Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """Share `worker` of `workers` of the traffic, whose workload has `digest` everywhere."""

    traffic: Traffic
    loading: Loading
    model: str
    digest: str
    worker: int
    workers: int

    def packed(self) -> dict[str, Any]:
        """Without the API key: a worker has its own."""
        return {**asdict(self), "traffic": asdict(self.traffic), "loading": asdict(self.loading)}

    @classmethod
    def unpacked(cls, page: dict[str, Any]) -> "WorkPlan":
        traffic = dict(page["traffic"])
        traffic["set"] = tuple((name, value) for name, value in traffic["set"])
        return cls(
            traffic=Traffic(**traffic),
            loading=Loading(**page["loading"]),
            model=page["model"],
            digest=page["digest"],
            worker=page["worker"],
            workers=page["workers"],
        )
