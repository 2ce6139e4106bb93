#!/bin/bash
# Figure: the plan that `starling plan --run` finds for this machine, beside all of 30 plans: 1, 2 (and for small
# batches more) leaves, 1 to 16 shards of a leaf, three policies. All are measured in turn ROUNDS (3) times; then the
# fastest three and the found plan again, AGAIN (9) times, because the fastest of 30 noisy measurements is partly luck.
# The found plan may take at most 3% longer than the fastest of these three. MODELS: fewer of the models. Needs a quiet
# machine.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/plans.XXXXXX")
trap 'rm -rf "$work"' EXIT
export STARPU_HOME=$work STARPU_SILENT=1
cd "$work" || exit 1
# Appends the seconds of a step of each plan to the file: number, seconds.
measure() { # file, rounds, numbers of plans
  local file=$1 rounds=$2
  shift 2
  for _ in $(seq "$rounds"); do
    for n; do
      # shellcheck disable=SC2046 # words
      "$starling" bench $model --batch $batch --steps $steps $(cat "plan-$n") --no-measure --json 2>err | jq -r --arg n "$n" '"\($n) \(.step_s)"' >>"$file"
      [ "${PIPESTATUS[0]}" = 0 ] || { cat err; exit 1; }
    done
  done
}
# Plans and the medians of their seconds, the fastest first.
medians() { # file
  sort -k 1,1 -k 2,2g "$1" | awk '{ if ($1 != last) { if (n) print last, v[int((n + 1) / 2)]; n = 0; last = $1 } v[++n] = $2 }
    END { print last, v[int((n + 1) / 2)] }' | sort -k 2g
}
while read -r model batch steps; do
  case " ${MODELS:-$model} " in *" $model "*) ;; *) continue ;; esac
  rm -f ./*
  began=$SECONDS
  # shellcheck disable=SC2086 # words
  "$starling" plan $model --batch $batch --run --json >found 2>err || { cat err; exit 1; }
  took=$((SECONDS - began))
  # Of the measured plans, the fastest: its command without the program, the model and the batch.
  jq -er '[.plans[], .default | select(.measured_step_s)] | min_by(.measured_step_s) | .command' found >command || { echo "plan $model measured nothing"; exit 1; }
  tr ' ' '\n' <command | grep -E '^--' | grep -vE '^--batch' | tr '\n' ' ' >plan-found
  number=0
  for leaves in 1 2 4 8; do
    for each in 1 2 4 8 16; do
      [ $((leaves * each)) -le "$batch" ] || continue
      for policy in eager lws prio; do
        [ $number -lt 30 ] || continue
        number=$((number + 1))
        echo "--leaves $leaves --shards $((leaves * each)) --sched $policy" >plan-$number
      done
    done
  done
  # shellcheck disable=SC2046 # words
  measure all "${ROUNDS:-3}" $(seq 30) found
  # shellcheck disable=SC2046
  measure again "${AGAIN:-9}" found $(medians all | awk '$1 != "found" && n++ < 3 { print $1 }')
  echo "$model, batch $batch: searched in $took s, found $(cat plan-found)"
  medians all | awk '{ printf "  %-6s %9.3f ms\n", $1, 1e3 * $2 }' | sed -n '1,5p;$p'
  found=$(medians again | awk '$1 == "found" { print $2 }') best=$(medians again | awk '$1 != "found" { print $2; exit }')
  echo "  again: found $found s; fastest of the three: $(cat "plan-$(medians again | awk '$1 != "found" { print $1; exit }')"), $best s"
  figure "$model: step of the found plan over the best of 30" '<= 1.03' "$(ratio "$found" "$best")"
done <<'END'
mlp 256 40
lenet 128 60
gpt2-nano 8 4
END
exit $missed
