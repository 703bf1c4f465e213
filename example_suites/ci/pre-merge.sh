#!/bin/sh
# Before a merge, on one's own machine: the tasks that the baseline has, once each, until it is decided.
# Usage: pre-merge.sh URL [BASELINE]
set -eu
endpoint=${1:?the URL of the agent}
baseline=${2:-a2a-baseline.json}
suite=${SUITE:-airline}
if [ ! -e "$baseline" ]; then
  echo "$baseline is not there; make it where the agent is as it should be:" >&2
  echo "  pytest --a2a-endpoint $endpoint --a2a-suite $suite --a2a-min-pass 0 && a2a-bench gate a2a-results --write-baseline $baseline" >&2
  exit 2
fi
exec pytest --a2a-endpoint "$endpoint" --a2a-suite "$suite" --a2a-baseline "$baseline" --a2a-trials auto:1 \
    --a2a-concurrency 8 -q
