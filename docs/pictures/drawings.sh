#!/bin/sh
# Draws life-of-a-step.svg and scopes.svg, for docs/architecture.md, and meshes.svg, for docs/meshes.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

open_svg() { # width, height, title
  cat <<END
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $1 $2" width="$1" height="$2" role="img" font-family="sans-serif" font-size="13" text-anchor="middle">
<title>$3</title>
<rect width="$1" height="$2" fill="#ffffff"/>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>
END
}
text() { echo "<text x=\"$1\" y=\"$2\" fill=\"${4:-#222}\"${5:+ $5}>$3</text>"; } # x, y, words, colour, attributes
box() { # x, y, width, height, colour, first line, second line
  echo "<rect x=\"$1\" y=\"$2\" width=\"$3\" height=\"$4\" rx=\"5\" fill=\"$5\" stroke=\"#888\"/>"
  if [ -n "${7-}" ]; then
    text $(($1 + $3 / 2)) $(($2 + $4 / 2 - 4)) "$6" '#222' 'font-weight="bold"'
    text $(($1 + $3 / 2)) $(($2 + $4 / 2 + 13)) "$7" '#444' 'font-size="11"'
  else text $(($1 + $3 / 2)) $(($2 + $4 / 2 + 5)) "$6"; fi
}
arrow() { echo "<path d=\"M$1 $2 L$3 $4\" fill=\"none\" stroke=\"#555\" stroke-width=\"1.5\" marker-end=\"url(#tip)\"/>"; }
line() { echo "<path d=\"M$1 $2 L$3 $4\" stroke=\"#bbb\" stroke-dasharray=\"4 3\"/>"; }
left='text-anchor="start"' small='font-size="11"'

# ---- the life of a step: what is done once, and what in each step --------------------------------------------------
{
  open_svg 900 330 'The life of a training step'
  text 20 24 'Once, before the first step' '#222' "$left font-weight=\"bold\""
  build='#dbe9f6' run='#fde7cf'
  box 20 40 150 54 $build Build 'layers, loss, gradients'
  arrow 170 67 194 67
  box 196 40 150 54 $build Spread 'shards, leaves, ranks'
  arrow 346 67 370 67
  box 372 40 150 54 $build Order 'dependencies, priorities'
  arrow 522 67 546 67
  box 548 40 150 54 $build 'Plan memory' 'slots, predicted peak'
  arrow 698 67 722 67
  box 724 40 150 54 $build Lower 'StarPU tasks, handles'
  text 95 112 'logical graph' '#666' "$small"
  text 271 112 'step graph' '#666' "$small"
  text 447 112 'schedule' '#666' "$small"
  text 623 112 'memory plan' '#666' "$small"
  text 799 112 'program' '#666' "$small"
  line 20 134 874 134
  text 20 158 'Each step' '#222' "$left font-weight=\"bold\""
  arrow 799 118 799 172
  box 724 174 150 54 $run Submit 'all tasks, in order'
  arrow 724 201 702 201
  box 550 174 150 54 $run 'StarPU schedules' 'ready tasks to workers'
  arrow 550 201 528 201
  box 376 174 150 54 $run 'Workers run' 'kernels of each task'
  arrow 376 201 354 201
  box 202 174 150 54 $run 'Ranks exchange' 'sums of gradients'
  arrow 202 201 180 201
  box 28 174 150 54 $run Update 'parameters of the store'
  echo '<path d="M103 228 L103 300 L799 300 L799 232" fill="none" stroke="#555" stroke-width="1.5" marker-end="url(#tip)"/>'
  text 451 294 'the next step: the same tasks, another step number, learning rate and batch' '#444' "$small"
  box 376 246 150 32 '#e2f0d9' 'loader: next batches'
  arrow 451 246 451 231
  echo '</svg>'
} >"$here/life-of-a-step.svg"

# ---- scopes, and the tree over leaves ------------------------------------------------------------------------------
{
  open_svg 900 400 'Scopes and the tree over leaves'
  sample='#dbe9f6' leaf='#fde7cf' whole='#e2f0d9'
  text 20 43 'SAMPLE' '#222' "$left font-weight=\"bold\""
  text 20 60 'a piece per shard' '#666' "$left $small"
  text 20 143 'LEAF' '#222' "$left font-weight=\"bold\""
  text 20 160 'a piece per leaf' '#666' "$left $small"
  text 20 333 'WHOLE' '#222' "$left font-weight=\"bold\""
  text 20 350 'one piece' '#666' "$left $small"
  i=0
  while [ $i -lt 8 ]; do # two shards a leaf
    x=$((160 + i * 88))
    box $x 30 78 36 $sample "shard $i"
    i=$((i + 1))
  done
  i=0
  while [ $i -lt 4 ]; do
    x=$((160 + i * 176))
    box $x 130 166 36 $leaf "sum of leaf $i"
    arrow $((x + 39)) 66 $((x + 68)) 128
    arrow $((x + 127)) 66 $((x + 98)) 128
    text $((x + 32)) 102 1. '#666' "$small"
    text $((x + 134)) 102 2. '#666' "$small"
    i=$((i + 1))
  done
  box 275 225 112 36 '#ffffff' '0 + 1'
  box 627 225 112 36 '#ffffff' '2 + 3'
  arrow 243 166 315 223
  arrow 419 166 347 223
  arrow 595 166 667 223
  arrow 771 166 699 223
  box 411 320 192 36 $whole 'gradient of a weight'
  arrow 331 261 470 318
  arrow 683 261 544 318
  line 507 20 507 215
  text 333 20 'rank 0' '#666' "$small"
  text 683 20 'rank 1' '#666' "$small"
  text 507 385 'The order of every sum is fixed by shard and leaf numbers. Which worker or rank computes a piece, and when, changes no bit.' '#444' "$small"
  echo '</svg>'
} >"$here/scopes.svg"

# ---- who holds what of a perceptron, by form of parallelism --------------------------------------------------------
part() { # x, y, what: all, none, sum, or the half that is there: upper, lower, left, right
  w=56 h=40
  case $3 in
  none) echo "<rect x=\"$1\" y=\"$2\" width=\"$w\" height=\"$h\" fill=\"none\" stroke=\"#bbb\" stroke-dasharray=\"4 3\"/>" && return ;;
  sum) set -- "$1" "$2" 0 0 $w $h '#fde7cf' ;;
  all) set -- "$1" "$2" 0 0 $w $h '#9cc3e6' ;;
  upper) set -- "$1" "$2" 0 0 $w $((h / 2)) '#9cc3e6' ;;
  lower) set -- "$1" "$2" 0 $((h / 2)) $w $((h / 2)) '#9cc3e6' ;;
  left) set -- "$1" "$2" 0 0 $((w / 2)) $h '#9cc3e6' ;;
  right) set -- "$1" "$2" $((w / 2)) 0 $((w / 2)) $h '#9cc3e6' ;;
  esac
  echo "<rect x=\"$(($1 + $3))\" y=\"$(($2 + $4))\" width=\"$5\" height=\"$6\" fill=\"$7\"/>"
  echo "<rect x=\"$1\" y=\"$2\" width=\"$w\" height=\"$h\" fill=\"none\" stroke=\"#888\"/>"
}
{
  open_svg 900 492 'Who holds what of a perceptron on two ranks'
  column=0
  for form in data 'ZeRO 1' 'ZeRO 3' pipeline tensor; do
    x=$((150 + column * 150))
    text $((x + 62)) 24 "$form" '#222' 'font-weight="bold"'
    text $((x + 28)) 44 'rank 0' '#666' "$small"
    text $((x + 96)) 44 'rank 1' '#666' "$small"
    column=$((column + 1))
  done
  row=0
  while read -r name what parts; do
    y=$((54 + row * 54))
    text 20 $((y + 18)) "$name" '#222' "$left font-weight=\"bold\""
    text 20 $((y + 34)) "$(echo "$what" | tr _ ' ')" '#666' "$left $small"
    column=0
    for pair in $parts; do
      x=$((150 + column * 150))
      part $x $y "${pair%-*}"
      part $((x + 68)) $y "${pair#*-}"
      column=$((column + 1))
    done
    row=$((row + 1))
  done <<'END'
x samples upper-lower upper-lower upper-lower all-none all-all
W1 parameters all-all all-all all-none all-none left-right
h activations upper-lower upper-lower upper-lower all-all left-right
W2 parameters all-all all-all none-all none-all upper-lower
y outputs upper-lower upper-lower upper-lower none-all all-all
dW1 its_own_samples sum-sum sum-sum sum-sum all-none left-right
dW1 of_all_samples all-all all-none all-none all-none left-right
S1 optimizer_state all-all all-none all-none all-none left-right
END
  echo '</svg>'
} >"$here/meshes.svg"
