#!/bin/sh
# A language model of bytes on the King James text: gpt2-nano (10.8 million parameters) learns spelling, then verses,
# names and numbers. About nine minutes on two cores. Options given here are passed on to starling train:
#   examples/kjv.sh                 trains in runs/kjv and writes some verses
#   examples/kjv.sh --steps 200     the same, shorter
# The text comes from Debian's packages bible-kjv and bible-kjv-text, which quickstart does not install:
#   apt-get install bible-kjv bible-kjv-text
# STARLING, TEXT and RUN name another program, text or run directory.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
starling=${STARLING:-$top/build/starling} text=${TEXT:-runs/kjv.txt} run=${RUN:-runs/kjv}

if [ ! -s "$text" ]; then
  command -v bible >/dev/null || { echo 'kjv.sh: no bible: apt-get install bible-kjv bible-kjv-text, or name a text with TEXT=FILE' >&2; exit 1; }
  mkdir -p "$(dirname "$text")"
  bible -f 'Gen1:1-Rev22:21' >"$text.part" # 4.4 MB, a verse a line: "Ge1:1 In the beginning God created the heaven and the earth."
  mv "$text.part" "$text"
fi

# The last tenth of the text is for validation. A loss of 1.7 nats a byte is a perplexity of 5.5.
"$starling" train gpt2-nano --data "$text" --out "$run" --steps 1000 --eval-every 250 --learning-rate 1e-3 --warmup 100 --rate-schedule cosine "$@"
"$starling" eval "$run" --split validation
"$starling" generate "$run" --prompt 'Ge1:1 In the beginning' --tokens 400 --temperature 0.8 --top-p 0.95
