#!/bin/sh
# Entry point of the image. Arguments are those of AgentBeats' green agents, --host, --port and --card-url (9009 on every
# address unless they say otherwise), and further ones of `a2a-bench assess`; or another command of a2a-bench, such as
# `controller` or `agent oracle`, with its own.
#
# A2A_BENCH_TOKENS      who may call: NAME=TOKEN, commas between. Or they are in the file A2A_BENCH_TOKENS_FILE.
# A2A_BENCH_NO_AUTH     1: everybody may who reaches it, as in a network of AgentBeats' own.
# A2A_BENCH_ALLOW_CIDR  addresses of agents beside public ones, commas between, such as 127.0.0.0/8,172.16.0.0/12.
# A2A_BENCH_ALLOW_MODEL models that callers may name for the user, commas between; the first is the one by default.
# A2A_BENCH_DATABASE    SQLAlchemy URL of a database that several instances share, beside one directory of results.
# A2A_BENCH_RESULTS     directory of what is kept (/data).
# PORT                  the port where no --port says another, as Cloud Run gives it.
set -euf

case ${1-} in
  "" | -*) ;;
  *) exec a2a-bench "$@" ;;
esac

# each OPTION LIST -> OPTION and an entry, in turn, before the arguments that there are
each() {
  option=$1 list=$2 IFS=,
  for entry in $list; do
    [ -z "$entry" ] || printf '%s\n%s\n' "$option" "$entry"
  done
}

options=$(
  each --allow-cidr "${A2A_BENCH_ALLOW_CIDR-}"
  each --allow-model "${A2A_BENCH_ALLOW_MODEL-}"
  [ -z "${A2A_BENCH_DATABASE-}" ] || printf '%s\n%s\n' --database-env A2A_BENCH_DATABASE
  # The tokens themselves are never arguments, which everybody on the machine may read.
  if [ -n "${A2A_BENCH_TOKENS_FILE-}" ]; then
    printf '%s\n%s\n' --auth-file "$A2A_BENCH_TOKENS_FILE"
  elif [ -n "${A2A_BENCH_TOKENS-}" ]; then
    printf '%s\n%s\n' --auth-env A2A_BENCH_TOKENS
  elif [ "${A2A_BENCH_NO_AUTH-}" = 1 ]; then
    printf '%s\n' --no-auth
  fi
)

# What comes later wins, so the caller's own arguments stand last. A line is an argument; an empty list is none.
IFS='
'
exec a2a-bench assess --host 0.0.0.0 --port "${PORT:-9009}" --results "${A2A_BENCH_RESULTS:-/data}" $options "$@"
