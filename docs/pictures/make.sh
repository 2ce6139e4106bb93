#!/bin/sh
# Makes timeline.svg, the picture of README.md: two steps of lenet on two workers, as `starling report --svg` draws
# them. Of seven tries the fastest is taken, since what else runs on the machine tears holes into a timeline. STARLING:
# which program.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
starling=${STARLING:-$here/../../build/starling}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
best=''
for try in 1 2 3 4 5 6 7; do
  "$starling" bench lenet --no-measure --steps 2 --workers 2 --threads-per-worker 1 --gpus 0 --out "$work/$try" --json >"$work/$try.json"
  seconds=$(sed -n 's/^ *"step_s": *\([0-9.e-]*\).*/\1/p' "$work/$try.json")
  if [ -z "$best" ] || awk "BEGIN { exit !($seconds < $least) }"; then best=$try least=$seconds; fi
done
"$starling" report "$work/$best" --svg "$work/pictures" --quiet
cp "$work/pictures/timeline.svg" "$here/timeline.svg"
echo "$here/timeline.svg: steps of $least s"
