#!/bin/sh
# Other frameworks made these errors when they combined ways of dividing a step. Nobody noticed, since a network learns
# with wrong gradients, too. docs/how-to/pipeline.md lists the errors with their sources. In this test each error would
# change bits. The runs use sgd without clipping: with clipping, or with adamw, nobody would see that all gradients are
# too large by the same factor.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"
export MPIR_CVAR_NOLOCAL=1 # MPICH: no two ranks share memory
gpt2='gpt2-nano --size layers=2,width=64,heads=4 --data text --length 16'
bert='bert-nano --size layers=2,width=64,heads=4 --data text --length 16'
common='--batch 8 --leaves 8 --steps 4 --val-fraction 0 --quiet --workers 1 --log-every 1 --rate-schedule constant'
common="$common --optimizer sgd --momentum 0 --decay 0 --learning-rate 0.1 --clip 0 --force"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
same_losses() { [ -n "$(losses one)" ] && [ "$(losses one)" = "$(losses several)" ]; }
same() { cmp one/model.safetensors several/model.safetensors && same_losses; }
different() { ! cmp -s "$1" "$2"; }
# shellcheck disable=SC2086 # several words, here and below
reference() { # model and options: what one rank gives
  plan=$*
  ranks 1 train $common $* --out one
  [ $code = 0 ] || not_ok "one rank: $*"
}
alike() { # name, ranks, then what they have in addition; $judge: other than `same`
  name=$1 count=$2
  shift 2
  ranks "$count" train $common $plan "$@" --out several
  if [ $code = 0 ]; then check "$name: $*" ${judge:-same}; else not_ok "$name: $*"; fi
}

# Random numbers are those of a tensor and of a sample, and not of a rank.
name_of='the model begins alike on every mesh'
reference $gpt2 --folds 2 --steps 1 --learning-rate 1e-30
alike "$name_of" 4 --mesh pipe=2,tensor=2
alike "$name_of" 2 --zero 3
name_of='dropout is that of one rank'
reference $gpt2 --folds 2 --dropout 0.4
alike "$name_of" 2 --mesh data=2
alike "$name_of" 4 --mesh pipe=2,tensor=2 --recompute block

# Gradients are divided once, by the number of tokens of the whole batch.
name_of='micro-batches do not scale gradients'
reference $gpt2
alike "$name_of" 1 --micro-batches 4
alike "$name_of" 2 --mesh pipe=2 --micro-batches 8
alike "$name_of" 2 --mesh pipe=2 --micro-batches 4 --pipe-order gpipe
name_of='the gradients of a tied table are summed once'
alike "$name_of" 2 --mesh pipe=2 --micro-batches 1
alike "$name_of" 2 --zero 3
losses one >whole
name_of='tokens count, and not the ranks that have them'
reference $bert --folds 2
alike "$name_of" 2 --mesh data=2 --balance 2,6
alike "$name_of" 4 --mesh data=2,pipe=2 --micro-batches 2

# What is shown is the loss of all ranks.
judge=same_losses
alike 'the loss that is shown is that of all ranks' 4 --mesh data=2,tensor=2
validation() { sed -n 's/.*"validation_loss": *\([0-9.e+-]*\).*/\1/p' "$1/summary.json"; }
same_validation() { [ -n "$(validation one)" ] && [ "$(validation one)" = "$(validation several)" ]; }
judge=same_validation name_of='the loss of the validation is the mean over all tokens'
reference $bert --val-fraction 0.05 --eval-every 4
alike "$name_of" 3 --mesh data=3
alike "$name_of" 2 --mesh pipe=2
judge=''

# The ranks of a stage sum their gradients, and those of a sample do not.
name_of='sums stay within their group'
reference $gpt2 --folds 2
alike "$name_of" 4 --mesh data=2,pipe=2
alike "$name_of" 4 --mesh data=2,tensor=2
cp one/model.safetensors unclipped

# The norm is that of all parameters, once each.
name_of='clipping takes the norm of all parameters'
reference $gpt2 --folds 2 --clip 0.2
check 'clipping counts here' different unclipped one/model.safetensors
alike "$name_of" 4 --mesh pipe=2,tensor=2
alike "$name_of" 3 --zero 3

# All meshes would agree on gradients that lack a part, so these are compared with undivided products: other bits, but
# nearly the same losses.
near() { losses several | paste -d ' ' whole - | awk '{ d = $2 / $5 - 1; if (NF != 6 || d > 2e-5 || d < -2e-5) bad = 1 } END { exit bad || NR < 4 }'; }
judge=near
reference $gpt2 --folds 4
alike 'what stands before divided products gets the gradients of all parts' 4 --mesh tensor=4
judge=''

# Checkpoints: layers have the numbers that they have in the model, not in their stage.
name_of='checkpoints name the layers of the model, not those of a stage'
layers() { for part in "$(newest "$1")"/part-*; do head -c 30000 "$part" | tr -d '\000' | grep -ao '"h\.[0-9a-z._]*":{"dtype"'; done | sort -u; }
larger='gpt2-nano --size layers=3,width=64,heads=4 --data text --length 16'
reference $larger --momentum 0.9
ranks 3 train $common $larger --momentum 0.9 --steps 2 --mesh pipe=3 --out several
check "$name_of" test -n "$(layers one)" -a "$(layers several)" = "$(layers one)"
ranks 2 train --resume --out several --mesh pipe=2 --steps 3
[ $code != 0 ] || ranks 1 train --resume --out several --mesh pipe=1 --steps 4
check 'and stages that begin elsewhere read their own layers' same
finish
