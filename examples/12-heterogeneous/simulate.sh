#!/bin/sh
# simulate.sh BATCH DIR OPTIONS...: five steps of the lesson's network on node.yaml, as `starling simulate` computes
# them with these options. The timeline goes to DIR. Starling is found by pkg-config.
batch=$1 folder=$2
shift 2
starling=$(pkg-config --variable=starling starling)
simulated=${SIMULATED:-$(pkg-config --variable=simulated starling)}
[ ! -x "$simulated/starling-sim" ] || export STARLING_SIM="$simulated/starling-sim"
exec "$starling" simulate uneven --size depth=4,narrow=1024,towers=8,wide=8192 --batch "$batch" --steps 5 \
  --machine node.yaml --out "$folder" --quiet "$@"
