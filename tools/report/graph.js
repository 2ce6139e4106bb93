// The graph of a step, its tasks put together by layer and phase, or by block and phase: what waits for what, where the time goes, where the
// critical path runs. Of the first rank that is shown; times are of all ranks.

const graph = {by: 'block', groups: [], edges: new Map(), chosen: null};

// "h.0.mlp.fc" is in the block "h.0", "layer1.2.conv1" in "layer1.2"; what has no number behind a dot is a block of its own.
const blockOf = (layer) => (layer.match(/^(.*?\.\d+)\./) || [0, layer])[1];

// The layer that a node's time is told with: an update's "fc1.weight" is with fc1, where there is such a layer.
const layerOf = {};
if (ranks.length) {
  const n = ranks[0].nodes, names = new Set(n.layer.map((l, i) => data.texts[n.phase[i]] === 'update' ? null : data.texts[l]));
  for (const r of ranks)
    for (const l of new Set(r.nodes.layer)) {
      const name = data.texts[l], short = name.replace(/\.[^.]*$/, '');
      layerOf[name] = !names.has(name) && names.has(short) ? short : name;
    }
}
function placeOf(r, i) {
  const layer = layerOf[nodeText(r, i, 'layer')], phase = nodeText(r, i, 'operation') === 'exchange' ? 'exchange' : nodeText(r, i, 'phase');
  return {layer, row: graph.by === 'block' ? blockOf(layer) : layer, phase};
}

// Returns for each node on the critical path the node before it on the path; -1 for the first node and for all other
// nodes. If several critical nodes come directly before a node, the one with the longest chain before it counts.
function alongPath(nodes) {
  const count = nodes.layer.length, along = new Int32Array(count), before = new Int32Array(count).fill(-1);
  const on = (i) => nodes.critical[i] === 1;
  for (let start = 0; start < count; start++) {
    const stack = on(start) && !along[start] ? [start] : [];
    while (stack.length) {
      const i = stack[stack.length - 1], list = [];
      for (let k = nodes.from[i]; k < nodes.from[i + 1]; k++) if (on(nodes.before[k])) list.push(nodes.before[k]);
      const open = list.filter((p) => !along[p] && !stack.includes(p));
      stack.push(...open);
      if (open.length) continue;
      for (const p of list) if (along[p] > (before[i] < 0 ? 0 : along[before[i]])) before[i] = p;
      along[i] = 1 + (before[i] < 0 ? 0 : along[before[i]]);
      stack.pop();
    }
  }
  return before;
}

function groupNodes() {
  const r = ranks[0], count = r.nodes.layer.length, of = new Array(count), known = new Map(), rowAt = new Map(), onPath = alongPath(r.nodes);
  graph.groups = [];
  graph.edges = new Map();
  const phases = ['forward', 'backward', 'exchange', 'update'];
  for (let i = 0; i < count; i++) {
    const {layer, row, phase} = placeOf(r, i), key = row + '\n' + phase;
    if (!rowAt.has(row)) rowAt.set(row, rowAt.size);
    if (!known.has(key)) {
      if (!phases.includes(phase)) phases.push(phase);
      const g = {row, phase, at: graph.groups.length, tasks: 0, time: 0, critical: false, layers: new Set(), before: new Map(), after: new Map()};
      known.set(key, g);
      graph.groups.push(g);
    }
    const g = of[i] = known.get(key);
    g.tasks++;
    g.layers.add(layer);
    g.critical = g.critical || r.nodes.critical[i] === 1;
  }
  for (let i = 0; i < count; i++)
    for (let k = r.nodes.from[i]; k < r.nodes.from[i + 1]; k++) {
      const a = of[r.nodes.before[k]], b = of[i], critical = onPath[i] === r.nodes.before[k];
      if (a === b) continue;
      const key = a.at * graph.groups.length + b.at, edge = graph.edges.get(key) || {a, b, n: 0, critical: false};
      edge.n++;
      edge.critical = edge.critical || critical;
      graph.edges.set(key, edge);
      a.after.set(b, edge.n);
      b.before.set(a, edge.n);
    }
  for (const rank of ranks) {
    const group = rank.nodes.layer.map((_, i) => {
      const {row, phase} = placeOf(rank, i);
      return known.get(row + '\n' + phase);
    });
    for (let i = 0; i < rank.records.n; i++) {
      const node = rank.records.node[i], g = node >= 0 && group[node];
      if (g) g.time += rank.records.end[i] - rank.records.start[i];
    }
  }
  graph.rowAt = rowAt;
  graph.phases = phases.filter((p) => graph.groups.some((g) => g.phase === p));
  graph.kernels = sum(graph.groups.filter((g) => g.phase !== 'exchange').map((g) => g.time));
  graph.exchanges = sum(graph.groups.filter((g) => g.phase === 'exchange').map((g) => g.time));
}

const part = (g) => g.phase === 'exchange' ? g.time / graph.exchanges : g.time / graph.kernels;
const percent = (x) => isFinite(x) ? (100 * x).toFixed(1) + ' %' : '–';
const nameOf = (g) => g.row + ', ' + g.phase;

// Columns are phases, rows layers. Within a column edges between neighbours are straight, longer ones bend to its left (down) or right (up).
const WIDE = 150, HIGH = 22, PITCH = 32, GAP = 70, SIDE = 34;
function drawGraph() {
  $('graph-section').hidden = ranks.length === 0 || ranks[0].nodes.layer.length === 0;
  if ($('graph-section').hidden) return;
  groupNodes();
  const W = 2 * SIDE + graph.phases.length * WIDE + (graph.phases.length - 1) * GAP, H = 26 + graph.rowAt.size * PITCH;
  const svg = make('svg', {viewBox: '0 0 ' + W + ' ' + H, width: W, height: H, role: 'group', 'aria-label': 'Layers by phase, with what they wait for'});
  const x = (g) => SIDE + graph.phases.indexOf(g.phase) * (WIDE + GAP), y = (g) => 26 + graph.rowAt.get(g.row) * PITCH;
  graph.phases.forEach((p, i) => svg.append(make('text', {x: SIDE + i * (WIDE + GAP) + WIDE / 2, y: 14, 'text-anchor': 'middle', class: 'strong'}, p)));
  const lines = make('g', {}), most = Math.max(...graph.groups.filter((g) => g.phase !== 'exchange').map(part), 1e-9);
  svg.append(lines);
  for (const e of graph.edges.values()) {
    const [x1, y1, x2, y2] = [x(e.a), y(e.a), x(e.b), y(e.b)], down = y2 > y1, middle = HIGH / 2;
    let d;
    if (x1 === x2) {
      if (Math.abs(y2 - y1) <= PITCH) d = 'M' + (x1 + WIDE / 2) + ' ' + (down ? y1 + HIGH : y1) + 'V' + (down ? y2 : y2 + HIGH);
      else {
        const side = down ? x1 : x1 + WIDE, bend = (down ? -1 : 1) * Math.min(SIDE - 4, 8 + Math.abs(y2 - y1) / PITCH * 1.5);
        d = 'M' + side + ' ' + (y1 + middle) + 'C' + (side + bend) + ' ' + (y1 + middle) + ' ' + (side + bend) + ' ' + (y2 + middle) + ' ' + side + ' ' + (y2 + middle);
      }
    } else {
      const from = x2 > x1 ? x1 + WIDE : x1, to = x2 > x1 ? x2 : x2 + WIDE, pull = (x2 > x1 ? 1 : -1) * GAP * 0.6;
      d = 'M' + from + ' ' + (y1 + middle) + 'C' + (from + pull) + ' ' + (y1 + middle) + ' ' + (to - pull) + ' ' + (y2 + middle) + ' ' + to + ' ' + (y2 + middle);
    }
    e.path = make('path', {d, class: 'edge' + (e.critical ? ' critical' : Math.abs(y2 - y1) > 3 * PITCH ? ' far' : ''), 'stroke-width': Math.min(4, 0.8 + Math.log2(e.n) / 3).toFixed(1)});
    e.path.append(make('title', {}, nameOf(e.b) + ' waits for ' + nameOf(e.a) + ': ' + e.n.toLocaleString('en') + (e.n === 1 ? ' dependency' : ' dependencies')));
    lines.append(e.path);
  }
  for (const g of graph.groups) {
    const share = part(g), box = make('g', {class: 'group', tabindex: 0, role: 'button', transform: 'translate(' + x(g) + ' ' + y(g) + ')',
      'aria-label': nameOf(g) + ': ' + g.tasks + ' tasks, ' + percent(share) + (g.critical ? ', on the critical path' : '')});
    const strength = g.phase === 'exchange' ? 0.45 * Math.sqrt(share || 0) : 0.75 * Math.sqrt(share / most || 0);
    const back = make('rect', {width: WIDE, height: HIGH, rx: 4, class: 'back'}), fill = make('rect', {width: WIDE, height: HIGH, rx: 4, class: 'fill' + (g.critical ? ' critical' : ''), 'fill-opacity': strength.toFixed(3)});
    coloured(fill, 'fill', g.phase === 'exchange' ? '--exchange' : '--accent');
    const name = g.row.length > 16 ? g.row.slice(0, 6) + '…' + g.row.slice(-9) : g.row;
    box.append(back, fill, make('text', {x: 6, y: 15, class: 'strong'}, name), make('text', {x: WIDE - 6, y: 15, 'text-anchor': 'end', class: 'strong'}, percent(share)),
      make('title', {}, nameOf(g) + ': ' + g.tasks.toLocaleString('en') + ' tasks a step' + (g.critical ? ', on the critical path' : '')));
    box.addEventListener('click', () => chooseGroup(g));
    box.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      chooseGroup(g);
      event.preventDefault();
    });
    g.box = box;
    svg.append(box);
  }
  $('graph').replaceChildren(svg);
  chooseGroup(graph.groups.find((g) => graph.chosen && g.row === graph.chosen.row && g.phase === graph.chosen.phase) || null);
}

// What a group is made of, and its tasks in the timeline, as a search would show them.
function chooseGroup(g) {
  if (!g && graph.chosen) only(null);
  graph.chosen = g;
  for (const other of graph.groups) other.box.classList.toggle('chosen', other === g);
  for (const e of graph.edges.values()) e.path.classList.toggle('chosen', g !== null && (e.a === g || e.b === g));
  const box = $('group');
  box.replaceChildren();
  if (!g) return;
  const inside = (r, i) => {
    const p = placeOf(r, i);
    return p.row === g.row && p.phase === g.phase;
  };
  only({name: nameOf(g), has: inside});
  const lines = new Map(), steps = Math.max(1, ...ranks.map((r) => new Set(r.records.step).size));
  for (const r of ranks) {
    const of = r.nodes.layer.map((_, i) => {
      if (!inside(r, i)) return null;
      const layer = nodeText(r, i, 'layer'), operation = nodeText(r, i, 'operation'), key = layer + '\n' + operation;
      if (!lines.has(key)) lines.set(key, {layer, operation, tasks: 0, time: 0, critical: 0});
      const line = lines.get(key);
      if (r === ranks[0]) line.tasks++, line.critical += r.nodes.critical[i] === 1;
      return line;
    });
    for (let i = 0; i < r.records.n; i++) {
      const line = r.records.node[i] >= 0 && of[r.records.node[i]];
      if (line) line.time += r.records.end[i] - r.records.start[i];
    }
  }
  const list = [...lines.values()].sort((a, b) => b.time - a.time), whole = g.phase === 'exchange' ? graph.exchanges : graph.kernels;
  const go = element('button', 'Show in the timeline', {type: 'button'});
  go.addEventListener('click', () => {
    choose(null);
    nextMatch(1);
    $('timeline').scrollIntoView({block: 'center'});
    $('timeline').focus({preventScroll: true});
  });
  const wide = element('div', '', {class: 'wide'}), t = element('table', '', {id: 'group-table'});
  wide.append(t);
  box.append(element('h3', nameOf(g)), go, wide);
  table(t, ['layer', 'operation', 'tasks a step', 'time, ms a step', 'share', 'on the critical path'], list.map((l) => row([l.layer,
    element('td', l.operation, {class: 'words'}), l.tasks.toLocaleString('en'), figure(1e-6 * l.time / steps), percent(l.time / whole), l.critical || '–'])));
  t.tHead.rows[0].cells[1].className = 'words';
  const told = (map) => [...map].sort((a, b) => b[1] - a[1]).map(([other, n]) => nameOf(other) + ' (' + n.toLocaleString('en') + ')').join('; ') || 'nothing';
  const dl = element('dl');
  for (const [name, map] of [['waits for', g.before], ['is waited for by', g.after]]) dl.append(element('dt', name), element('dd', told(map)));
  box.append(dl);
}

for (const by of ['block', 'layer'])
  $('by-' + by).addEventListener('change', () => {
    graph.by = by;
    drawGraph();
  });
{
  // Few layers need no putting together.
  const layers = new Set(Object.values(layerOf)), blocks = new Set([...layers].map(blockOf));
  graph.by = layers.size <= 24 ? 'layer' : 'block';
  $('by-' + graph.by).checked = true;
  $('by').hidden = layers.size === blocks.size;
  $('save-graph').append(saver('graph', () => svgText($('graph').firstChild)));
}
