// The timeline: a row for each worker, exchange lane and loader thread. Only what is in view is visited, found by binary
// search; what is narrower than a pixel is summed up in it.
const ROW = 36, LABEL = 14, BAR = 18, AXIS = 22;
const timeline = {
  canvas: $('timeline'), width: 0, height: AXIS + ROW * Math.max(1, rows.length) + 6,
  extent: [0, 1], view: [0, 1], colours: {}, operationColour: {},
  chosen: null, // {row, record} or {row, idle}, and before: a task's predecessors
  wanted: '', criticalOnly: false,
  only: null, // {name, has(rank, node)}: a part of the graph that stands out in place of a searched word
  pending: false, drawn: 0,
};
timeline.context = timeline.canvas.getContext('2d');
timeline.extent = ranks.length && rows.length ? [Math.min(...allRanks.map((r) => r.from)), Math.max(...allRanks.map((r) => r.to))] : [0, 1];
if (timeline.extent[1] <= timeline.extent[0]) timeline.extent[1] = timeline.extent[0] + 1;
timeline.view = timeline.extent.slice();

// The operations that take most have colours of their own, the same in table, legend and rows.
{
  let next = 0;
  for (const line of data.operations)
    if (!(line.operation in timeline.operationColour)) {
      timeline.operationColour[line.operation] = line.exchange ? '--exchange' : next < 10 ? '--op' + next++ : '--other';
    }
  for (const r of allRanks) r.colour = r.nodes.operation.map((o) => timeline.operationColour[data.texts[o]] || '--other');
}
function readColours() {
  const style = getComputedStyle(document.documentElement), names = ['paper', 'ink', 'soft', 'line', 'select', 'other', 'input', 'accent', 'exchange'];
  for (let i = 0; i < 10; i++) names.push('op' + i);
  for (const name of names.concat(data.causes)) timeline.colours['--' + name] = style.getPropertyValue('--' + name).trim();
}

// Which nodes stand out: all where nothing is asked for.
function light() {
  const word = timeline.wanted.trim().toLowerCase();
  const part = timeline.only;
  timeline.filtered = word !== '' || timeline.criticalOnly || part !== null;
  let n = 0;
  for (const r of allRanks) {
    const count = r.nodes.layer.length, found = data.texts.map((t) => t.toLowerCase().includes(word));
    r.lit = new Uint8Array(count);
    for (let i = 0; i < count; i++)
      r.lit[i] = (part ? part.has(r, i) : word === '' || found[r.nodes.layer[i]] || found[r.nodes.operation[i]]) && (!timeline.criticalOnly || r.nodes.critical[i] === 1);
    for (let i = 0; i < r.records.n; i++) n += r.records.node[i] >= 0 && r.lit[r.records.node[i]];
  }
  timeline.matches = n;
  $('matches').textContent = timeline.filtered ? n.toLocaleString('en') + (n === 1 ? ' match' : ' matches') : '';
}
// Makes a part of the graph stand out, as a search does (null: none), until the user types in the search field.
function only(part) {
  timeline.only = part;
  timeline.wanted = '';
  $('search').value = part ? part.name : '';
  light();
  drawSoon();
}

// The first of list[first] ... list[last - 1], which rise, that is above x; last if none is.
function above(list, first, last, x) {
  while (first < last) {
    const middle = (first + last) >> 1;
    if (list[middle] > x) last = middle;
    else first = middle + 1;
  }
  return first;
}

const toX = (t) => (t - timeline.view[0]) / (timeline.view[1] - timeline.view[0]) * timeline.width;
const toTime = (x) => timeline.view[0] + x / timeline.width * (timeline.view[1] - timeline.view[0]);

// Intervals first ... last - 1 as boxes; colour(i) is what one has, weight(i) how strongly it shows (1, or less for what is dimmed).
function paint(start, end, first, last, y, height, colour, weight) {
  const c = timeline.context, scale = timeline.width / (timeline.view[1] - timeline.view[0]), from = timeline.view[0];
  let cell = -1, busy = 0, best = 0, bestColour = '', bestWeight = 0;
  const flush = () => {
    if (cell < 0) return;
    c.globalAlpha = Math.min(1, Math.max(0.25, busy)) * bestWeight;
    c.fillStyle = bestColour;
    c.fillRect(cell, y, 1, height);
    cell = -1;
  };
  for (let i = above(end, first, last, from); i < last && start[i] < timeline.view[1]; i++) {
    timeline.drawn++;
    const x = (start[i] - from) * scale, width = (end[i] - start[i]) * scale;
    if (width >= 1) {
      flush();
      const left = Math.max(x, -2), right = Math.min(x + width, timeline.width + 2);
      c.globalAlpha = weight(i);
      c.fillStyle = colour(i);
      c.fillRect(left, y, Math.max(1, right - left - (width > 4 ? 1 : 0)), height);
      continue;
    }
    const at = Math.max(0, Math.floor(x));
    if (at !== cell) flush(), cell = at, busy = best = bestWeight = 0;
    busy += width;
    // What stands out wins the pixel, else what is longest.
    const w = weight(i);
    if (w > bestWeight || (w === bestWeight && width > best)) best = width, bestColour = colour(i), bestWeight = w;
  }
  flush();
  c.globalAlpha = 1;
}

// A round number of ns such that ticks stand `pixels` apart or more.
function tickOf(pixels) {
  const least = pixels / timeline.width * (timeline.view[1] - timeline.view[0]), power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least) return factor * power;
}
function tickText(t, tick) {
  const [unit, name] = tick >= 1e9 ? [1e9, 's'] : tick >= 1e6 ? [1e6, 'ms'] : tick >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  return Math.round(t / unit * 1000) / 1000 + ' ' + name;
}

function drawAxis() {
  const c = timeline.context, colours = timeline.colours, tick = tickOf(90);
  c.font = '11px system-ui, sans-serif';
  c.fillStyle = colours['--soft'];
  c.strokeStyle = colours['--line'];
  c.beginPath();
  for (let t = Math.ceil(timeline.view[0] / tick) * tick; t < timeline.view[1]; t += tick) {
    const x = Math.round(toX(t)) + 0.5;
    c.moveTo(x, AXIS - 6);
    c.lineTo(x, timeline.height);
    if (x < timeline.width - 50) c.fillText(tickText(t, tick), x + 3, 13);
  }
  c.stroke();
}

// "rank 1 (stage 0, part 1)"
const rankText = (rank) => 'rank ' + rank.rank + (rank.place ? ' (' + rank.place + ')' : '');
// The run of a rank where two are drawn.
const runOf = (rank) => !data.beside ? '' : (rank.beside ? data.beside.run : data.run) + ', ';

function drawRow(row, y) {
  const c = timeline.context, colours = timeline.colours, r = row.rank, records = r.records, dim = timeline.filtered ? 0.15 : 1;
  c.fillStyle = colours['--soft'];
  c.font = '11px system-ui, sans-serif';
  c.fillText(runOf(r) + (ranks.length > 1 ? rankText(r) + ': ' : '') + row.name, 4, y + 11);
  paint(r.idle.start, r.idle.end, row.idleFirst, row.idleLast, y + LABEL + BAR - 6, 6,
    (i) => colours['--' + data.causes[r.idle.cause[i]]], () => dim);
  paint(records.start, records.end, row.first, row.last, y + LABEL, BAR,
    (i) => colours[row.kind === RECORD_INPUT ? '--input' : row.kind === RECORD_TASK ? r.colour[records.node[i]] : '--exchange'],
    (i) => !timeline.filtered || (hasNode(row) && r.lit[records.node[i]]) ? 1 : dim);
}

const rowY = (row) => AXIS + rows.indexOf(row) * ROW;

function drawChosen() {
  const c = timeline.context, chosen = timeline.chosen;
  if (!chosen) return;
  const r = chosen.row.rank, list = chosen.record !== undefined ? r.records : r.idle, i = chosen.record !== undefined ? chosen.record : chosen.idle;
  const x = toX(list.start[i]), width = Math.max(3, toX(list.end[i]) - x), y = rowY(chosen.row) + LABEL;
  c.strokeStyle = timeline.colours['--select'];
  c.lineWidth = 2;
  c.strokeRect(x - 1, y - 1, width + 1, BAR + 2);
  c.lineWidth = 1;
  c.strokeStyle = timeline.colours['--accent'];
  for (const before of chosen.before) {
    const at = before.record >= 0 && rowOf(r, before.record);
    if (!at) continue;
    c.beginPath();
    c.moveTo(toX(r.records.end[before.record]), rowY(at) + LABEL + BAR / 2);
    c.lineTo(x, y + BAR / 2);
    c.stroke();
  }
}

function draw() {
  timeline.pending = false;
  const c = timeline.context, ratio = devicePixelRatio || 1;
  timeline.width = Math.max(1, timeline.canvas.clientWidth);
  const wide = Math.round(timeline.width * ratio), high = Math.round(timeline.height * ratio);
  if (timeline.canvas.width !== wide || timeline.canvas.height !== high) {
    timeline.canvas.width = wide;
    timeline.canvas.height = high;
    timeline.canvas.style.height = timeline.height + 'px';
  }
  timeline.drawn = 0;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, timeline.width, timeline.height);
  paintAll();
}
function paintAll() {
  drawAxis();
  rows.forEach((row, i) => drawRow(row, AXIS + i * ROW));
  const own = rows.filter((row) => !row.rank.beside).length;
  if (own < rows.length) {
    timeline.context.fillStyle = timeline.colours['--ink'];
    timeline.context.fillRect(0, AXIS + own * ROW - 2, timeline.width, 1);
  }
  drawChosen();
}
function drawSoon() {
  if (!timeline.pending) requestAnimationFrame(draw);
  timeline.pending = true;
}

// --- moving about ---------------------------------------------------------------------------------------------------

function look(from, to) {
  const [first, last] = timeline.extent, least = 20, all = last - first; // ns across the canvas at least
  let span = Math.min(all, Math.max(least, to - from)), middle = (from + to) / 2;
  let begin = Math.min(last - span, Math.max(first, middle - span / 2));
  timeline.view = [begin, begin + span];
  drawSoon();
}
// Around the time that stays where it is.
function zoom(factor, t) {
  const [from, to] = timeline.view, [first, last] = timeline.extent;
  const span = Math.min(last - first, Math.max(20, (to - from) * factor)), begin = t - (t - from) * span / (to - from);
  look(begin, begin + span);
}
const middle = () => (timeline.view[0] + timeline.view[1]) / 2;
function pan(part) {
  const by = part * (timeline.view[1] - timeline.view[0]);
  look(timeline.view[0] + by, timeline.view[1] + by);
}

function lookAt(start, end) {
  const span = timeline.view[1] - timeline.view[0], x = toX(start), width = toX(end) - x;
  if (width < 4) look((start + end) / 2 - 8 * (end - start + 1), (start + end) / 2 + 8 * (end - start + 1));
  else if (x < 0 || x + width > timeline.width) look((start + end - span) / 2, (start + end + span) / 2);
  else drawSoon();
}

// --- what is where --------------------------------------------------------------------------------------------------

const rowOf = (rank, record) => rows.find((row) => row.rank === rank && record >= row.first && record < row.last);

// What a task waited for: nodes, each with its record in the same step; -1: it is not shown.
function predecessors(rank, record) {
  const r = rank.records, node = r.node[record], recordOf = new Map(), list = [];
  for (let i = 0; i < r.n; i++) if (r.step[i] === r.step[record]) recordOf.set(r.node[i], i);
  for (let k = rank.nodes.from[node]; k < rank.nodes.from[node + 1]; k++)
    list.push({node: rank.nodes.before[k], record: recordOf.has(rank.nodes.before[k]) ? recordOf.get(rank.nodes.before[k]) : -1});
  return list;
}

// What lies at a point: a task, or else the idle time there; null beside rows.
function hit(x, y) {
  const row = rows[Math.floor((y - AXIS) / ROW)];
  if (!row) return null;
  const r = row.rank.records, t = toTime(x), reach = 3 * (timeline.view[1] - timeline.view[0]) / timeline.width;
  let i = above(r.end, row.first, row.last, t), near = -1, gap = reach;
  for (const k of [i - 1, i]) {
    if (k < row.first || k >= row.last) continue;
    const d = t < r.start[k] ? r.start[k] - t : t > r.end[k] ? t - r.end[k] : 0;
    if (d < gap) near = k, gap = d;
  }
  if (near >= 0 && gap === 0) return {row, record: near};
  const idle = row.rank.idle, k = above(idle.end, row.idleFirst, row.idleLast, t);
  if (k < row.idleLast && idle.start[k] <= t && (idle.end[k] - idle.start[k]) > reach) return {row, idle: k};
  return near >= 0 ? {row, record: near} : null;
}

function choose(chosen) {
  timeline.chosen = chosen;
  if (chosen) chosen.before = chosen.record !== undefined && hasNode(chosen.row) ? predecessors(chosen.row.rank, chosen.record) : [];
  showDetails();
  drawSoon();
}
function chooseRecord(rank, record) {
  choose({row: rowOf(rank, record), record});
  lookAt(rank.records.start[record], rank.records.end[record]);
}

// The next (by 1) or previous (by -1) record that stands out, in the order of starts over all rows.
function nextMatch(by) {
  const chosen = timeline.chosen && timeline.chosen.record !== undefined ? timeline.chosen : null;
  const now = chosen ? chosen.row.rank.records.start[chosen.record] : by > 0 ? -Infinity : Infinity;
  let best = null, bestKey = by * Infinity;
  allRanks.forEach((rank, k) => {
    const r = rank.records;
    for (let i = 0; i < r.n; i++) {
      if (r.node[i] < 0 || !rank.lit[r.node[i]]) continue;
      const t = r.start[i];
      // Equal starts in the order of ranks and records.
      const after = t !== now ? (t - now) * by > 0 : chosen && (k - allRanks.indexOf(chosen.row.rank) || i - chosen.record) * by > 0;
      if (after && ((t - bestKey) * by < 0 || (by < 0 && t === bestKey))) best = [rank, i], bestKey = t;
    }
  });
  if (best) chooseRecord(best[0], best[1]);
}

function step(by) { // to the task after or before in the row
  const c = timeline.chosen;
  if (!c) {
    const row = rows.find((r) => r.last > r.first);
    if (row) chooseRecord(row.rank, Math.min(row.last - 1, above(row.rank.records.end, row.first, row.last, timeline.view[0])));
    return;
  }
  const r = c.row.rank.records;
  const at = c.record !== undefined ? c.record + by
    : above(r.end, c.row.first, c.row.last, c.row.rank.idle.start[c.idle]) - (by < 0 ? 1 : 0);
  if (at >= c.row.first && at < c.row.last) chooseRecord(c.row.rank, at);
}
function changeRow(by) {
  const c = timeline.chosen;
  if (!c) return step(1);
  const t = c.record !== undefined ? c.row.rank.records.start[c.record] : c.row.rank.idle.start[c.idle];
  for (let i = rows.indexOf(c.row) + by; i >= 0 && i < rows.length; i += by)
    if (rows[i].last > rows[i].first) {
      chooseRecord(rows[i].rank, Math.min(rows[i].last - 1, above(rows[i].rank.records.end, rows[i].first, rows[i].last, t)));
      return;
    }
}
function zoomToChosen() {
  const c = timeline.chosen;
  if (!c) return;
  const list = c.record !== undefined ? c.row.rank.records : c.row.rank.idle, i = c.record !== undefined ? c.record : c.idle;
  const around = 2 * (list.end[i] - list.start[i] + 1);
  look(list.start[i] - around, list.end[i] + around);
}

// --- details --------------------------------------------------------------------------------------------------------

function showDetails() {
  const box = $('details'), c = timeline.chosen;
  box.replaceChildren();
  if (!c) return;
  const dl = element('dl'), line = (name, value) => dl.append(element('dt', name), value instanceof Node ? value : element('dd', value));
  const rank = c.row.rank, where = runOf(rank) + rankText(rank) + ', ' + c.row.name;
  if (c.idle !== undefined) {
    const from = rank.idle.start[c.idle], to = rank.idle.end[c.idle], cause = data.causes[rank.idle.cause[c.idle]];
    box.append(element('h3', 'Idle: ' + cause));
    line('where', where);
    line('because', meanings[cause]);
    line('from, to', time(from) + ', ' + time(to) + ' (' + time(to - from) + ')');
    const next = above(rank.records.end, c.row.first, c.row.last, from);
    if (next < c.row.last) line('next task here', link(rank, next));
    box.append(dl);
    return;
  }
  const r = rank.records, i = c.record, node = r.node[i], n = rank.nodes;
  const title = c.row.kind === RECORD_INPUT ? 'A batch is read' : c.row.kind === RECORD_COPY ? 'A copy of ' + figure((-1 - node) * 1024e-6) + ' MB' : nodeText(rank, node, 'layer') + ' ' + nodeText(rank, node, 'operation');
  box.append(element('h3', title));
  line('where', where + ', step ' + r.step[i]);
  if (hasNode(c.row)) {
    line('layer', nodeText(rank, node, 'layer'));
    line('operation', nodeText(rank, node, 'operation') + ', ' + nodeText(rank, node, 'phase'));
    line('shapes', nodeText(rank, node, 'shapes'));
    line('shard, leaf', (n.shard[node] < 0 ? '–' : n.shard[node]) + ', ' + (n.leaf[node] < 0 ? '–' : n.leaf[node]));
    if (n.micro_batch[node] >= 0) line('micro-batch', String(n.micro_batch[node]));
    line('priority', String(n.priority[node]));
    line('submitted', time(r.submit[i]));
    line('ready', time(r.ready[i]) + ', ' + time(r.ready[i] - r.submit[i]) + ' later');
    line(c.row.kind === RECORD_EXCHANGE ? 'data there' : 'taken', time(r.taken[i]) + ', ' + time(r.taken[i] - r.ready[i]) + ' later');
  }
  line('start', time(r.start[i]) + (!hasNode(c.row) ? '' : ', ' + time(r.start[i] - r.taken[i]) + ' later'));
  line('end', time(r.end[i]) + ', took ' + time(r.end[i] - r.start[i]));
  if (hasNode(c.row)) {
    const seconds = 1e-9 * (r.end[i] - r.start[i]);
    line('cost', figure(1e-9 * n.flops[node]) + ' GFLOP, ' + figure(1e-6 * n.bytes[node]) + ' MB; ' +
      (n.flops[node] > 0 ? figure(1e-9 * n.flops[node] / seconds) + ' GFLOP/s, ' : '') + figure(1e-9 * n.bytes[node] / seconds) + ' GB/s');
    line('critical path', n.critical[node] === null ? 'not known' : n.critical[node] ? 'on it' : 'not on it');
    const list = c.before, dd = element('dd', list.length ? undefined : 'nothing');
    list.slice(0, 40).forEach((p) => dd.append(p.record >= 0 ? link(rank, p.record).firstChild
      : nodeText(rank, p.node, 'layer') + ' ' + nodeText(rank, p.node, 'operation') + ' '));
    if (list.length > 40) dd.append('and ' + (list.length - 40) + ' more');
    line('waited for', dd);
  }
  box.append(dl);
}
function link(rank, record) {
  const node = rank.records.node[record], dd = element('dd');
  const name = node < 0 ? 'a batch' : nodeText(rank, node, 'layer') + ' ' + nodeText(rank, node, 'operation') +
    (rank.nodes.shard[node] >= 0 ? ' ' + rank.nodes.shard[node] : '');
  const button = element('button', name, {type: 'button'});
  button.addEventListener('click', () => chooseRecord(rank, record));
  dd.append(button);
  return dd;
}

// --- hands ----------------------------------------------------------------------------------------------------------

{
  const canvas = timeline.canvas, fingers = new Map();
  let moved = 0;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left - canvas.clientLeft, event.clientY - box.top - canvas.clientTop];
  };
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return; // the page scrolls
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) pan((event.deltaX || event.deltaY) / timeline.width);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), toTime(place(event)[0]));
    event.preventDefault();
  }, {passive: false});
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    if (fingers.size === 0) moved = 0;
    fingers.set(event.pointerId, place(event));
  });
  addEventListener('pointermove', (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = place(event), other = [...fingers].find(([id]) => id !== event.pointerId);
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    if (other) { // two fingers: what is under each stays there
      const still = other[1][0], was = Math.max(8, Math.abs(before[0] - still)), is = Math.max(8, Math.abs(now[0] - still));
      zoom(was / is, toTime(still));
    } else if (moved > 4) {
      pan((before[0] - now[0]) / timeline.width);
    }
    fingers.set(event.pointerId, now);
  });
  addEventListener('pointerup', (event) => {
    if (!fingers.delete(event.pointerId) || moved > 4 || fingers.size) return;
    choose(hit(...place(event)));
  });
  addEventListener('pointercancel', (event) => fingers.delete(event.pointerId));

  const keys = {
    'ArrowLeft': () => pan(-0.1), 'ArrowRight': () => pan(0.1), 'ArrowUp': () => changeRow(-1), 'ArrowDown': () => changeRow(1),
    '+': () => zoom(0.7, middle()), '=': () => zoom(0.7, middle()), '-': () => zoom(1 / 0.7, middle()),
    '0': () => look(...timeline.extent), 'Home': () => look(...timeline.extent), ',': () => step(-1), '.': () => step(1),
    'Enter': zoomToChosen, 'Escape': () => choose(null), 'n': () => nextMatch(1), 'p': () => nextMatch(-1),
  };
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    keys[event.key]();
    event.preventDefault();
  });
  $('in').addEventListener('click', () => zoom(0.5, middle()));
  $('out').addEventListener('click', () => zoom(2, middle()));
  $('all').addEventListener('click', () => look(...timeline.extent));
  $('next').addEventListener('click', () => nextMatch(1));
  $('previous').addEventListener('click', () => nextMatch(-1));
  $('search').addEventListener('input', (event) => {
    timeline.wanted = event.target.value;
    timeline.only = null;
    light();
    drawSoon();
  });
  $('search').addEventListener('keydown', (event) => {
    if (event.key === 'Enter') nextMatch(event.shiftKey ? -1 : 1);
  });
  $('critical').addEventListener('change', (event) => {
    timeline.criticalOnly = event.target.checked;
    light();
    drawSoon();
  });
}
