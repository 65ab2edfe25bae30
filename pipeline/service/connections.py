"""Connections, which are not kept for clients that send nothing or no end of it."""

from asyncio import Transport

from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(patience: float) -> type[H11Protocol]:
    """HTTP on a connection that is closed unless the head of a request arrives in time.

    Args:
        patience: seconds from the connection, or from its last answer, to the end of the next head.
    """
    class Impatient(H11Protocol):
        def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._late = self.loop.call_later(patience, self._close_unless_answering)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._late.cancel()
            self._late = self.loop.call_later(patience, self._close_unless_answering)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._late.cancel()

        def _close_unless_answering(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.timeout_keep_alive_handler()  # as it closes what has been idle

    return Impatient
