#!/bin/sh
# Figure: Starling's tokenizers give the ids of Hugging Face's on the King James text and on odd text; and their
# speed. PYTHON: an interpreter with the package tokenizers; TEXT: another text (default: Debian's bible-kjv).
set -eu
: "${STARLING:=./starling}" "${PYTHON:=python3}" "${top_srcdir:=$(dirname "$0")/../../..}"
if ! "$PYTHON" -c 'import tokenizers' 2>/dev/null; then
  echo "1..0 # SKIP $PYTHON has no package tokenizers (PYTHON names another interpreter)"
  exit 77
fi
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
if [ -z "${TEXT:-}" ]; then
  if ! command -v bible >/dev/null; then
    echo '1..0 # SKIP no text: apt-get install bible-kjv, or TEXT=FILE'
    exit 77
  fi
  TEXT=$out/kjv.txt
  bible -f 'Gen1:1-Rev22:21' >"$TEXT"
fi
"$PYTHON" "$top_srcdir/tests/figures/peers/tokenizers_compare.py" compare "$STARLING" "$TEXT" "$out"
