"""What a job's end says, as a row of `requests.csv`."""

from math import nan

from harness.engine.job import Job, JobStatus
from harness.record.requests import Phase, RequestRow


def row_of(
    job: Job, *, page_size: int, phase: Phase, ideal_tokens: int, verified: bool
) -> RequestRow:
    """`job` has ended. `verified` is whether content is checked at all; it is said of completed
    requests only."""
    request = job.request
    started = job.first_token_s >= 0
    whole = job.status is JobStatus.COMPLETED
    tpot = (job.end_s - job.first_token_s) / (job.generated - 1) if job.generated > 1 else nan
    assert job.status is not None
    return RequestRow(
        request_id=request.request_id,
        session_id=request.session_id,
        turn=request.turn,
        phase=phase,
        tenant=request.tenant,
        scheduled_ns=_ns(job.scheduled_s),
        sent_ns=_ns(job.sent_s),
        first_token_ns=_ns(job.first_token_s) if started else -1,
        end_ns=_ns(job.end_s),
        prompt_tokens=job.prompt_len,
        output_tokens=job.generated,
        cached_tokens_device=job.device_tokens,
        cached_tokens_host=job.host_tokens,
        cached_tokens_storage=job.storage_tokens,
        eligible_tokens=(job.prompt_len - 1) // page_size * page_size,
        ideal_tokens=ideal_tokens,
        ttft_ms=_ms(job.sent_s, job.first_token_s, started),
        ttft_scheduled_ms=_ms(job.scheduled_s, job.first_token_s, started),
        queue_ms=_ms(job.sent_s, job.admitted_s, started),
        match_ms=_ms(job.admitted_s, job.matched_s, started),
        load_ms=_ms(job.matched_s, job.loaded_s, started),
        prefill_ms=_ms(job.loaded_s, job.first_token_s, started),
        tpot_ms=tpot * 1e3 if whole else nan,
        e2e_latency_ms=_ms(job.sent_s, job.end_s, whole),
        status=job.status.value,
        error=job.error,
        verified=whole and verified,
    )


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _ms(start_s: float, stop_s: float, known: bool) -> float:
    return (stop_s - start_s) * 1e3 if known and start_s >= 0 else nan
