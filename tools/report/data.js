'use strict';
// The data, unpacked: columns of differences become arrays of times (ns) from the first submission that is shown.
const errors = [];
addEventListener('error', (event) => {
  errors.push(event.message + ' (line ' + event.lineno + ')');
  const box = document.getElementById('errors');
  box.hidden = false;
  box.textContent = 'This page has a fault: ' + errors.join('; ');
});

const $ = (id) => document.getElementById(id);
// Text goes in as text, never as markup: names of layers and folders may hold anything.
function element(tag, text, attributes) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  for (const name in attributes) e.setAttribute(name, attributes[name]);
  return e;
}
const sum = (list) => list.reduce((a, b) => a + b, 0);

const data = JSON.parse($('data').textContent);
const RECORD_TASK = 0, RECORD_EXCHANGE = 1, RECORD_INPUT = 2, RECORD_COPY = 3;
const hasNode = (row) => row.kind < RECORD_INPUT;

function unpackRecords(from) {
  const n = from.node.length;
  const r = {n, node: Int32Array.from(from.node), step: new Float64Array(n)};
  for (const name of ['submit', 'ready', 'taken', 'start', 'end']) r[name] = new Float64Array(n);
  let start = 0, step = 0;
  for (let i = 0; i < n; i++) {
    r.step[i] = step += from.step[i];
    r.start[i] = start += from.start[i];
    r.end[i] = start + from.time[i];
    r.taken[i] = start - from.taken[i];
    r.ready[i] = r.taken[i] - from.ready[i];
    r.submit[i] = r.ready[i] - from.submit[i];
  }
  return r;
}

function unpackIdle(from) {
  const n = from.start.length;
  const idle = {n, worker: Int32Array.from(from.worker), cause: Uint8Array.from(from.cause),
    start: new Float64Array(n), end: new Float64Array(n)};
  let start = 0;
  for (let i = 0; i < n; i++) {
    idle.start[i] = start += from.start[i];
    idle.end[i] = start + from.time[i];
  }
  return idle;
}

const unpackRanks = (timelines, beside) => timelines.map((t) => ({
  rank: t.rank, place: t.place, beside, from: t.from, to: t.to, nodes: t.nodes, records: unpackRecords(t.records), idle: unpackIdle(t.idle),
}));
// The ranks of the run, and those of the run beside it, which are drawn below. The times of each run count from its
// first submission that is shown.
const ranks = unpackRanks(data.timelines, false), besides = data.beside ? unpackRanks(data.beside.timelines, true) : [];
const allRanks = [...ranks, ...besides];

// The rows of the timeline, from the top. A row has the records first ... last - 1, sorted by time, and the idle
// intervals idleFirst ... idleLast - 1.
const rows = [];
[...data.timelines, ...(data.beside ? data.beside.timelines : [])].forEach((t, k) => {
  const idle = allRanks[k].idle;
  let at = 0;
  t.rows.name.forEach((name, i) => {
    const row = {rank: allRanks[k], name, kind: t.rows.kind[i], first: t.rows.first[i], last: t.rows.last[i], idleFirst: 0, idleLast: 0};
    if (row.kind === RECORD_TASK) { // workers come first, in their order
      row.idleFirst = at;
      while (at < idle.n && idle.worker[at] === i) at++;
      row.idleLast = at;
    }
    rows.push(row);
  });
});

const nodeText = (rank, node, what) => node < 0 ? '' : data.texts[rank.nodes[what][node]];

// 12345678 ns as "12.346 ms", in the unit that fits it.
function time(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toFixed(3) + ' s';
  if (size >= 1e6) return (ns / 1e6).toFixed(3) + ' ms';
  if (size >= 1e3) return (ns / 1e3).toFixed(2) + ' µs';
  return ns.toFixed(0) + ' ns';
}
function figure(x) { // three digits that matter
  if (!isFinite(x)) return '–';
  const size = Math.abs(x);
  return size >= 100 || x === 0 ? Math.round(x).toLocaleString('en') : size >= 0.001 ? String(+x.toPrecision(3)) : x > 0 ? '<0.001' : '>-0.001';
}
