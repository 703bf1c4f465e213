"""Every way in which a secret may be written, and what looks for all of them."""

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Callable

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda s: s,
    "percent": lambda s: urllib.parse.quote(s, safe=""),
    "percent, lower case": lambda s: re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(s, safe="")),
    "path": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "twice": lambda s: urllib.parse.quote(urllib.parse.quote(s)),
    "every octet": lambda s: "".join(f"%{b:02x}" for b in s.encode()),
    "JSON": lambda s: json.dumps(s)[1:-1],
    "JSON in JSON": lambda s: json.dumps(json.dumps(s)[1:-1])[1:-1],
    "every \\u": lambda s: "".join(f"\\u{ord(c):04X}" for c in s),
    "HTML": html.escape,
    "entities": lambda s: "".join(f"&#{ord(c)};" for c in s),
    "entities, hexadecimal": lambda s: "".join(f"&#x{ord(c):x};" for c in s),
    "repr": lambda s: repr(s)[1:-1],
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64, URL-safe": lambda s: base64.urlsafe_b64encode(s.encode()).decode().rstrip("="),
    "base64, later": lambda s: base64.b64encode(b"user:" + s.encode() + b"!?").decode(),
    "base64, one later": lambda s: base64.urlsafe_b64encode(b"x" + s.encode() + b"yz").decode(),
    "base64 in a URL": lambda s: urllib.parse.quote_plus(base64.b64encode(b"ab" + s.encode()).decode()),
}


def found_in(text: str, secret: str) -> list[str]:
    """Return in which encodings a text holds a secret."""
    found = []
    for name, encode in ENCODINGS.items():
        spelt = encode(secret)
        # In base64 that begins elsewhere, a character at each end holds bits of its neighbours.
        if (spelt[8:-6] if "base64" in name else spelt) in text:
            found.append(name)
    return found
