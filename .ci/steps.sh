# Functions of run and nightly, to be sourced: a working directory, steps with their times, installation.
# $work is a temporary directory that goes with the shell; $root the clone; $python the interpreter (PYTHON).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_PROGRESS_BAR=off NO_MKDOCS_2_WARNING=1
# Settings of the caller's shell are no part of the checks.
for name in $(compgen -e | grep '^A2A_' | grep -v '^A2A_BENCH_' || true) PYTEST_ADDOPTS; do unset "$name"; done
# Bytecode is kept, as it is on a user's machine: without, each of some thousand processes compiles all that it imports.
unset PYTHONDONTWRITEBYTECODE

# Every step says at its end how long it took, and before the last one all do: the last line is pytest's own summary.
current="" began=0 table=""
finish() {
  local line; line=$(printf '%6d s  %s' $((SECONDS - began)) "$current")
  printf '=== took %s\n' "${line#"${line%%[! ]*}"}"
  table+="$line"$'\n'
}
step() { [ -z "$current" ] || finish; current=$1 began=$SECONDS; printf '\n=== %s\n' "$1"; }
last_step() { finish; current=""; printf '\n=== So far\n%s%6d s  in all\n' "$table" "$SECONDS"; step "$1"; }
# pip warns about package indexes that it cannot see; what matters is whether it succeeded.
install() { local log; log=$work/pip-$(basename "$1").log; "$1/bin/pip" install -q "${@:2}" 2>"$log" || { cat "$log"; return 1; }; }
chromium() {
  # Without it the tests of the page in a browser are skipped, and say so.
  if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq chromium chromium-driver; } >"$work/apt.log" 2>&1 \
      || { tail -n 3 "$work/apt.log"; echo "no Chromium here"; }
  fi
}
