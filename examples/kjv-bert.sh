#!/bin/sh
# Masked-language training on the King James text: bert-nano (6 layers, 384 wide) restores masked letters, a seventh of
# all, from the letters on both sides. Three minutes on two cores; --steps 2000 takes a quarter of an hour. Options
# given here are passed on to starling train. The text comes from Debian's packages bible-kjv and bible-kjv-text, which
# quickstart does not install:
#   apt-get install bible-kjv bible-kjv-text
# STARLING, TEXT and RUN name another program, text or run directory.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
starling=${STARLING:-$top/build/starling} text=${TEXT:-runs/kjv.txt} run=${RUN:-runs/kjv-bert}

if [ ! -s "$text" ]; then
  command -v bible >/dev/null || { echo 'kjv-bert.sh: no bible: apt-get install bible-kjv bible-kjv-text, or name a text with TEXT=FILE' >&2; exit 1; }
  mkdir -p "$(dirname "$text")"
  bible -f 'Gen1:1-Rev22:21' >"$text.part"
  mv "$text.part" "$text"
fi

# The loss covers only the masked letters.
"$starling" train bert-nano --data "$text" --out "$run" --length 32 --batch 64 --learning-rate 8e-4 --warmup 60 --steps 480 \
  --eval-every 240 --log-every 40 --val-fraction 0.02 "$@"
"$starling" eval "$run" --split validation
