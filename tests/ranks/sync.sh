#!/bin/sh
# Ranks that train apart and meet every few steps (--sync): they have the same parameters after each meeting; runs
# repeat their bits; a resumed run continues as if nobody had interrupted it; few bytes move; and ranks that meet after
# every step have the losses of ranks that train together.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
last_loss() { losses "$1" | tail -n 1 | cut -d' ' -f2; }
near() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { d = a - b; exit !(a > 0 && (d < 0 ? -d : d) <= most * a) }'; }
mlp='mlp --data data --batch 96 --leaves 4 --val-fraction 0 --quiet --workers 1 --log-every 1 --force'

# A meeting after each step of plain sgd: the mean of the ranks' parameters is that of their gradients.
# shellcheck disable=SC2086 # several words, here and below
{
  ranks 2 train $mlp --steps 6 --optimizer sgd --momentum 0 --decay 0 --out together
  ranks 2 train $mlp --steps 6 --optimizer sgd --momentum 0 --decay 0 --sync local:1 --out apart
  check 'local:1, sgd: exit code' test $code = 0
  check 'local:1, sgd: the loss of steps together' near "$(last_loss together)" "$(last_loss apart)" 1e-5
}

for sync in local:3 diloco:3; do
  # shellcheck disable=SC2086
  {
    ranks 2 train $mlp --steps 9 --checkpoint-every 3 --verify-every 3 --sync $sync --out one
    check "$sync: the ranks are alike after a meeting" test $code = 0
    ranks 2 train $mlp --steps 9 --checkpoint-every 3 --sync $sync --out again
    check "$sync: runs repeat their bits" cmp one/model.safetensors again/model.safetensors
    ranks 2 train $mlp --steps 9 --checkpoint-every 3 --verify-every 2 --sync $sync --out again
    check "$sync: comparisons between meetings change nothing" cmp one/model.safetensors again/model.safetensors
    check "$sync: other bits than steps together" sh -c '! cmp -s one/model.safetensors together/model.safetensors'
    ranks 2 train $mlp --steps 9 --checkpoint-every 3 --sync $sync --out broken --rate-schedule constant --warmup 0
    cp broken/model.safetensors whole.safetensors
    ranks 2 train $mlp --steps 3 --checkpoint-every 3 --sync $sync --out broken --rate-schedule constant --warmup 0
    [ $code != 0 ] || ranks 2 train --resume --steps 9 --out broken
    check "$sync: resumed after 3 of 9 steps: exit code" test $code = 0
    check "$sync: resumed after 3 of 9 steps: the same model" cmp whole.safetensors broken/model.safetensors
    ranks 2 train $mlp --steps 60 --sync $sync --out long
    check "$sync: it learns" sh -c "awk 'BEGIN { exit !($(last_loss long) < 0.7 * $(last_loss together)) }'"
  }
done
# A meeting that only a validation asks for, and 7 steps, which 3 does not divide.
# shellcheck disable=SC2086
ranks 2 train ${mlp%%--val-fraction 0*} --val-fraction 0.2 ${mlp#*--val-fraction 0} --steps 7 --eval-every 2 --verify-every 2 --sync local:3 --out validated
check 'validated between meetings' test $code = 0
check 'validated: best model' test -s validated/model.safetensors
for sync in local:1 local:3; do
  # shellcheck disable=SC2086
  ranks 2 train ${mlp%%--val-fraction 0*} --val-fraction 0.2 ${mlp#*--val-fraction 0} --steps 4 --eval-every 1 --sync $sync --out "met-$sync"
done
check 'ranks meet before each validation' cmp met-local:1/model.safetensors met-local:3/model.safetensors
# Leaves that the ranks share unevenly; a language model with dropout, clipping, bf16.
# shellcheck disable=SC2086
ranks 3 train ${mlp%%--quiet*} ${mlp#*--quiet} --steps 6 --verify-every 2 --sync local:2 --out uneven
check 'uneven shares: the ranks are alike' test $code = 0
check 'says that the bits depend on the ranks' grep -q 'gives up the promise of the same bits' err
ranks 2 train gpt2-nano --size layers=2,width=64,heads=4 --data text --length 16 --batch 8 --leaves 4 --dropout 0.1 --clip 0.5 --precision bf16 --steps 6 --sync diloco:2 --verify-every 2 --val-fraction 0 --quiet --workers 1 --out text-run
check 'a language model in bf16' test $code = 0
# diloco for a run that began without it: its velocities begin at 0.
# shellcheck disable=SC2086
{
  ranks 2 train $mlp --steps 3 --out later --rate-schedule constant --warmup 0
  ranks 2 train --resume --steps 6 --sync diloco:3 --out later
  check 'diloco from a later step on' test $code = 0
  check 'is told' grep -q 'has no outer velocities, which begin at 0' err
}
# One rank: local is what it is without; diloco moves on by its own rule.
# shellcheck disable=SC2086
{
  ranks 1 train $mlp --steps 6 --out alone
  ranks 1 train $mlp --steps 6 --sync local:2 --out likewise
  check 'one rank, local: the same bytes' cmp alone/model.safetensors likewise/model.safetensors
  ranks 1 train $mlp --steps 6 --sync diloco:2 --out likewise
  check 'one rank, diloco: other bytes' sh -c '! cmp -s alone/model.safetensors likewise/model.safetensors'
}

# What moves: parameters and state each 8 steps. MPIR_CVAR_NOLOCAL: as if the ranks were on two hosts.
export MPIR_CVAR_NOLOCAL=1
sent() { # bench's options
  ranks 2 bench lenet --batch 64 --steps 16 --workers 1 --no-measure --json "$@"
  number_of sent_bytes out
}
every=$(sent) eighth=$(sent --sync local:8)
unset MPIR_CVAR_NOLOCAL
# adamw's two moments are averaged, too: three times the parameters, a meeting of 8 steps.
check "bytes of a step: $eighth of $every" sh -c "[ ${eighth:-0} -gt 0 ] && [ $((2 * ${eighth:-0})) -lt ${every:-0} ]"

refused() { # name, pattern, options
  name=$1 pattern=$2
  shift 2
  # shellcheck disable=SC2086
  ranks 2 train $mlp --steps 2 --out refused "$@"
  check "refused: $name" sh -c "[ $code = 2 ] && grep -qE -e '$pattern' err"
}
refused 'no number of steps' 'sync local is none of step, local:H and diloco:H' --sync local
refused 'with stages' 'sync: ranks that share their samples' --sync local:2 --mesh pipe=2
refused 'with --zero' 'leave --zero out' --sync local:2 --zero 1
refused 'fp16' 'loss scale' --sync local:2 --precision fp16
finish
