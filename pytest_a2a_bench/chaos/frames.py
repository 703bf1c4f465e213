"""Just enough of HTTP/2 (RFC 9113 §4.1) to see in a server's bytes where calls end (pure)."""

from __future__ import annotations

_HEADER = 9
_DATA, _HEADERS = 0, 1
_END_STREAM = 1


class StreamEnds:
    """Reads what a server sends, in pieces of any size."""

    def __init__(self) -> None:
        self._header = b""
        self._skip = 0

    def feed(self, data: bytes) -> int:
        """Return how many streams ended in these bytes: the frames that end them are complete."""
        ended = 0
        while data:
            if self._skip > len(data):
                self._skip -= len(data)
                break
            data, self._skip = data[self._skip :], 0
            ended += self._pending_end()
            need = _HEADER - len(self._header)
            self._header, data = self._header + data[:need], data[need:]
            if len(self._header) == _HEADER:
                self._skip = int.from_bytes(self._header[:3])
                if not self._skip:
                    ended += self._pending_end()
        return ended

    def _pending_end(self) -> int:
        """Forget the frame that is complete, and return 1 if it ended its stream."""
        if len(self._header) < _HEADER:
            return 0
        kind, flags = self._header[3], self._header[4]
        self._header = b""
        return int(kind in (_DATA, _HEADERS) and bool(flags & _END_STREAM))
