#!/bin/sh
# simulate.sh HIDDEN BATCH LEAVES GIGABYTES LATENCY OPTIONS...: training steps of the lesson's network, as `starling
# scale` simulates them with these options, on cluster.yaml with a network of so many GB/s and microseconds. Starling is
# found by pkg-config.
hidden=$1 batch=$2 leaves=$3 rate=$4 latency=$5
shift 5
starling=$(pkg-config --variable=starling starling)
simulated=${SIMULATED:-$(pkg-config --variable=simulated starling)}
[ ! -x "$simulated/starling-sim" ] || export STARLING_SIM="$simulated/starling-sim"
machine=$(mktemp) || exit 2
trap 'rm -f "$machine"' EXIT
sed "s/^network:.*/network: {latency_us: $latency, gigabytes_per_s_per_rank: $rate, gigabytes_per_s_per_node: $rate, topology: star}/" \
  cluster.yaml >"$machine"
"$starling" scale mlp --size layers=3,hidden="$hidden" --batch "$batch" --leaves "$leaves" --shards "$leaves" \
  --workers 1 --threads-per-worker 8 --machine "$machine" --json --quiet "$@"
