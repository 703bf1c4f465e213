"""What hiding secrets costs: a transcript of about a megabyte, with and without secrets in it.

    python perf/hiding.py [--secrets 8]

Times are CPU milliseconds, the least of several rounds.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import string
import time

from pytest_a2a_bench.secret import KNOWN, KnownSecret

ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--secrets", type=int, default=8)
    number = parser.parse_args().secrets
    rng = random.Random(7)
    secrets = ["sk-" + "".join(rng.choices(string.ascii_letters + string.digits + "+/=", k=48)) for _ in range(number)]
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(3000)]
    turns = [{"content": " ".join(rng.choices(words, k=60)) + '\n"quoted" 50% & more', "n": n} for n in range(2300)]
    clean = json.dumps({"turns": turns}, indent=1)
    leaks = [s + base64.b64encode(b"Basic user:" + s.encode()).decode() for s in secrets]
    leaky = json.dumps({"turns": turns, "leaks": leaks}, indent=1)
    begin = time.process_time()
    KNOWN.remember(KnownSecret("S", s) for s in secrets)
    KNOWN.hide("compile")
    print(f"{number} secrets; made ready in {1000 * (time.process_time() - begin):.0f} ms")
    for name, text in (("clean", clean), ("with every secret", leaky)):
        took = []
        for _ in range(ROUNDS):
            begin = time.process_time()
            hidden = KNOWN.hide(text)
            took.append(time.process_time() - begin)
        assert not any(s in hidden for s in secrets)
        print(f"{len(text) / 1e6:.2f} MB, {name}: {1000 * min(took):.0f} ms")


main()
