"""The decoder service from Python: `Service`, its jobs, results, lists and releases.

    service = Service("https://decode.example", key)
    job = service.decode("homepage", words, first=date(2026, 11, 2), last=date(2026, 11, 8))
    result = job.wait().result()
    result.to_frame()

Standard library only; pandas for `to_frame`.
"""

from decoder_client.client import KEY_VARIABLE, CandidateList, Job, Result, Service, ServiceRelease

__all__ = ["KEY_VARIABLE", "CandidateList", "Job", "Result", "Service", "ServiceRelease"]
