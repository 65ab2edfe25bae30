"""What the service counts and times, in the text format of Prometheus."""

from collections.abc import Sized

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from pipeline.service.batching import Search

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LINES = (1, 2, 4, 8, 16, 32, 64, 128)


class Measures:
    """The metrics of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter("nmt_requests", "Requests by status; 499: the client went away before the answer.",
                                 ["path", "status"], registry=self._registry)
        self._latency = Histogram("nmt_request_seconds", "From the request's head to the end of the answer.", ["path"],
                                  buckets=_SECONDS, registry=self._registry)
        self._lines = Counter("nmt_lines", "Lines searched.", ["model", "decoder"], registry=self._registry)
        self._search_seconds = Counter("nmt_search_seconds", "Time that the search of batches has taken.",
                                       ["model", "decoder"], registry=self._registry)
        self._batches = Histogram("nmt_batch_lines", "Lines per batch.", ["model"], buckets=_LINES,
                                  registry=self._registry)
        self._waiting = Gauge("nmt_waiting_lines", "Lines that wait for a model.", ["model"], registry=self._registry)

    def watch(self, model: str, waiting: Sized) -> None:
        """Report the length of a model's queue whenever somebody asks."""
        self._waiting.labels(model).set_function(lambda: len(waiting))

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(path, status).inc()
        self._latency.labels(path).observe(seconds)

    def batch(self, model: str, search: Search, lines: int, seconds: float) -> None:
        """Count a searched batch."""
        self._lines.labels(model, search.decoder).inc(lines)
        self._search_seconds.labels(model, search.decoder).inc(seconds)
        self._batches.labels(model).observe(lines)

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)
