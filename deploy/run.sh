#!/bin/sh
# What a controller starts, `a2a-bench controller` or AgentBeats' own: the assessor, where they say that it has to be.
exec a2a-bench assess --host "${HOST:-127.0.0.1}" --port "${AGENT_PORT:-9009}" --card-url "${AGENT_URL:-http://127.0.0.1:9009}/" "$@"
