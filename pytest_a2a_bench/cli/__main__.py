"""``python -m pytest_a2a_bench.cli``: the command where no script is on the path."""

from __future__ import annotations

import sys

from pytest_a2a_bench.cli.main import main

sys.exit(main())
