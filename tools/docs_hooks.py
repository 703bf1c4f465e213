"""Hooks of mkdocs for the documentation."""

from __future__ import annotations

import re

_CODE = re.compile(r"<code>.*?</code>", re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w]*(?:-\w+)*")


def on_page_content(html: str, **_: object) -> str:
    """Keep each option of a command on one line: browsers would break it after any of its hyphens."""
    return _CODE.sub(lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)
