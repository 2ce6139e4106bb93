#!/bin/sh
# Draws the validation curve of a run (SPLIT=train: that of training) as SVG with gnuplot, and prints it as a table:
#   curve.sh RUN loss|accuracy OUT.svg
set -eu
run=$1 measure=$2 out=$3 split=${SPLIT:-validation}
command -v gnuplot >/dev/null && command -v jq >/dev/null || { echo 'SKIP: apt-get install gnuplot-nox jq'; exit 77; }
points=$(mktemp)
trap 'rm -f "$points"' EXIT
jq -r "select(.split == \"$split\") | [.time_s, .step, .loss, .accuracy] | @tsv" "$run/metrics.jsonl" >"$points"
column=3
[ "$measure" = loss ] || column=4
gnuplot <<END
set terminal svg size 560,320 font 'sans-serif,12' background rgb 'white'
set output '$out'
set xlabel 'minutes'
set ylabel '$split $measure'
set grid
plot '$points' using (\$1 / 60):$column with linespoints pointtype 7 pointsize 0.5 linewidth 2 notitle
END
echo 'seconds	step	loss	accuracy'
cat "$points"
