// All but the timeline: the answer, tables, curves. Runs when the timeline's functions are there.
const meanings = {
  runtime: 'the next task was not submitted yet: loss read, batch awaited, validation, submission',
  dependency: 'a task it needs was unfinished',
  data: 'its inputs were on their way to this worker’s memory',
  exchange: 'an exchange between ranks was under way',
  policy: 'a task was ready, but placed elsewhere or held back',
};

document.title = 'Starling report: ' + data.run;
$('title').textContent = 'Starling report: ' + data.run;
$('subtitle').textContent = data.model + ', ' + data.ranks + (data.ranks === 1 ? ' rank' : ' ranks') + ', ' +
  sum(data.totals.map((r) => r.workers.length)) + ' workers, policy ' + data.sched + ', ' +
  Math.max(...data.totals.map((r) => r.steps)).toLocaleString('en') + ' whole steps kept' +
  (data.totals.length < data.ranks ? '; of ' + (data.ranks - data.totals.length) + ' ranks there is no timeline' : '');
data.answer.forEach((sentence) => $('answer').append(element('p', sentence.replace(/(\d) (%|ms|s)(?!\w)/g, '$1\u00a0$2'))));

// --- shares of time -------------------------------------------------------------------------------------------------

// Percentages to one place that add up to 100.0: what rounding down leaves goes to the largest remainders.
function rounded(percent) {
  const tenths = percent.map((p) => Math.floor(p * 10)), left = Math.round(sum(percent) * 10) - sum(tenths);
  const order = percent.map((p, i) => i).sort((a, b) => (percent[b] * 10 - tenths[b]) - (percent[a] * 10 - tenths[a]));
  for (let k = 0; k < left; k++) tenths[order[k]]++;
  return tenths.map((t) => (t / 10).toFixed(1));
}

function row(cells, tag) {
  const tr = element('tr');
  cells.forEach((cell) => tr.append(cell instanceof Node ? cell : element(tag || 'td', cell)));
  return tr;
}
function table(id, heads, body, foot) {
  const head = element('thead'), middle = element('tbody');
  const tr = row(heads.map((h) => element('th', h, {scope: 'col'})));
  head.append(tr);
  middle.append(...body);
  const t = typeof id === 'string' ? $(id) : id;
  t.replaceChildren(head, middle);
  if (foot) {
    const tfoot = element('tfoot');
    tfoot.append(foot);
    t.append(tfoot);
  }
}
function swatch(colour, text) {
  const td = element('td'), mark = element('span', '', {class: 'swatch'});
  mark.style.background = 'var(' + colour + ')';
  td.append(mark, text);
  return td;
}

const usage = {names: [], rows: []}; // kernels and causes; per cent of them for all ranks, and each
{
  // Of each rank, and of all workers together.
  const names = ['kernels', ...data.causes], each = data.totals.filter((r) => r.steps > 0);
  const list = each.map((r) => [r.kernel_percent, ...data.causes.map((c) => r.idle_percent[c])]);
  const weight = each.map((r) => r.window_s * r.workers.length), all = sum(weight);
  const mean = names.map((_, i) => all > 0 ? sum(list.map((l, k) => l[i] * weight[k])) / all : 0);
  const columns = [mean, ...(list.length > 1 && list.length <= 8 ? list : [])].map(rounded);
  const heads = ['', columns.length > 1 ? 'all ranks, %' : '%', ...(columns.length > 1 ? each.map((r) => 'rank ' + r.rank + ', %') : []), ''];
  table('causes', heads, names.map((name, i) => {
    const tr = row([swatch('--' + name, name), ...columns.map((c) => c[i])]);
    tr.append(element('td', i ? meanings[name] : 'tasks at work', {class: 'meaning'}));
    return tr;
  }), row(['all of the workers’ time', ...columns.map((c) => (sum(c.map((x) => Math.round(x * 10))) / 10).toFixed(1)), '']));
  usage.names = names;
  usage.rows = columns.map((percent, k) => ({name: k ? 'rank ' + each[k - 1].rank : 'all ranks', percent: percent.map(Number)}));
}

table('bounds', ['', 'whole steps', 'tasks', 'exchanges', 'critical path, ms', 'area, ms', 'mixed bound, ms', 'a step took, ms', 'bound / step'],
  data.totals.map((r) => row(['rank ' + r.rank, ...[r.steps, r.tasks, r.exchanges].map((n) => n.toLocaleString('en')),
    ...(r.bound ? [r.bound.critical_path_s, r.bound.area_s, r.bound.mixed_s].map((s) => figure(1e3 * s)) : ['–', '–', '–']),
    r.steps ? figure(1e3 * r.step_s) : '–', r.bound && r.step_s > 0 ? (100 * r.bound.mixed_s / r.step_s).toFixed(1) + ' %' : '–'])));

{
  const each = data.totals.filter((r) => r.exchange && r.exchange.under_way_s > 0), of = (a, b) => b > 0 ? (100 * a / b).toFixed(1) + ' %' : '–';
  $('exchange').hidden = each.length === 0;
  table('exchanges', ['', 'under way, ms a step', 'hidden, ms', 'exposed, ms', 'hidden', '', 'gradients: can be hidden, ms', 'of these, hidden'], each.map((r) => {
    const e = r.exchange, bar = element('div', '', {class: 'bar'}), cell = element('td');
    for (const [part, colour] of [[e.hidden_s, '--kernels'], [e.exposed_s, '--exchange']]) {
      const span = element('span');
      span.style.width = 100 * part / (e.hidden_s + e.exposed_s) + '%';
      span.style.background = 'var(' + colour + ')';
      bar.append(span);
    }
    cell.append(bar);
    return row(['rank ' + r.rank, ...[e.under_way_s, e.hidden_s, e.exposed_s].map((s) => figure(1e3 * s / r.steps)), of(e.hidden_s, e.under_way_s), cell,
      figure(1e3 * e.hideable_s / r.steps), of(e.achieved_s, e.hideable_s)]);
  }));
}

// --- operations -----------------------------------------------------------------------------------------------------

{
  const kernels = sum(data.operations.filter((o) => !o.exchange).map((o) => o.seconds));
  const columns = [
    ['operation', (o) => o.operation, (o) => swatch(timeline.operationColour[o.operation], o.operation)],
    ['phase', (o) => o.phase, (o) => element('td', o.phase, {class: 'words'})],
    ['count', (o) => o.count, (o) => o.count.toLocaleString('en')],
    ['time, ms', (o) => o.seconds, (o) => figure(1e3 * o.seconds)],
    ['share', (o) => o.exchange ? -1 : o.seconds, (o) => o.exchange ? '–' : (100 * o.seconds / kernels).toFixed(1) + ' %'],
    ['mean, µs', (o) => o.seconds / o.count, (o) => figure(1e6 * o.seconds / o.count)],
    ['GFLOP/s', (o) => o.flops / o.seconds, (o) => o.flops > 0 && o.seconds > 0 ? figure(1e-9 * o.flops / o.seconds) : '–'],
    ['GB/s', (o) => o.bytes / o.seconds, (o) => o.seconds > 0 ? figure(1e-9 * o.bytes / o.seconds) : '–'],
    ['FLOP/byte', (o) => o.flops / o.bytes, (o) => o.flops > 0 && o.bytes > 0 ? figure(o.flops / o.bytes) : '–'],
  ];
  if (data.operations.some((o) => o.moved_bytes > 0))
    columns.push(['moved, MB', (o) => o.moved_bytes, (o) => o.moved_bytes > 0 ? figure(1e-6 * o.moved_bytes) : '–']);
  if (data.roofline.peak_gflops > 0)
    columns.push(['roof', (o) => o.roof_seconds > 0 ? o.flops / o.roof_seconds : -1, (o) => o.flops > 0 && o.roof_seconds > 0 ? figure(1e-9 * o.flops / o.roof_seconds) : '–'],
      ['of the roof', (o) => o.roof_seconds / o.seconds, (o) => o.roof_seconds > 0 && o.seconds > 0 ? figure(100 * o.roof_seconds / o.seconds) + ' %' : '–']);
  let by = 4, down = true; // exchanges, which hold no worker, at the end
  const show = () => {
    const key = columns[by][1], list = data.operations.slice().sort((a, b) => {
      const x = key(a), y = key(b);
      return (typeof x === 'string' ? x.localeCompare(y) : x - y) * (down ? -1 : 1);
    });
    table('operations', columns.map(() => ''), list.map((o) => row(columns.map((c) => c[2](o)))));
    [...$('operations').tHead.rows[0].cells].forEach((th, i) => {
      const button = element('button', columns[i][0], {type: 'button'});
      if (i === by) th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      if (i === 1) th.className = 'words';
      button.addEventListener('click', () => {
        down = i === by ? !down : i > 1;
        by = i;
        show();
        $('operations').tHead.rows[0].cells[i].firstChild.focus();
      });
      th.append(button);
    });
  };
  show();

  const legend = (colour, text) => {
    const li = element('li'), mark = element('span', '', {class: 'swatch'});
    mark.style.background = 'var(' + colour + ')';
    li.append(mark, text);
    $('legend').append(li);
  };
  const seen = new Set();
  for (const o of data.operations) {
    const colour = timeline.operationColour[o.operation];
    if (seen.has(o.operation) || colour === '--other' || o.exchange) continue;
    seen.add(o.operation);
    legend(colour, o.operation);
  }
  if (Object.values(timeline.operationColour).includes('--other')) legend('--other', 'other operations');
  if (data.operations.some((o) => o.exchange)) legend('--exchange', 'exchange');
  data.causes.forEach((cause) => legend('--' + cause, 'idle: ' + cause));
}

{
  const shown = ranks.map((r) => r.records.n ? r.records.step : [0]).map((s) => [s.reduce((a, b) => Math.min(a, b)), s.reduce((a, b) => Math.max(a, b))]);
  const from = Math.min(...shown.map((s) => s[0])), to = Math.max(...shown.map((s) => s[1]));
  const cut = data.totals.some((r) => r.lost > 0) ? ' What came before is no longer in the ring.' : '';
  $('shown').textContent = 'Steps ' + from.toLocaleString('en') + ' to ' + to.toLocaleString('en') + ', ' +
    sum(ranks.map((r) => r.records.n)).toLocaleString('en') + ' tasks and exchanges, on one clock. Boxes are kernels, the band at a row’s foot is idle time, by cause.' + cut;
}

// --- first picture, and again when the page changes --------------------------------------------------------------------

readColours();
light();
draw();
drawShares();
drawGraph();
drawRoofline();
drawCurves();
drawMemory();
const firstDraw = performance.now();
{
  let wide = innerWidth;
  addEventListener('resize', () => {
    drawSoon();
    if (innerWidth !== wide) drawShares(), drawRoofline(), drawCurves(), drawMemory();
    wide = innerWidth;
  });
  const again = () => {
    readColours();
    draw();
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
  const printing = (on) => () => { // paper is light
    document.documentElement.classList.toggle('printing', on);
    again();
  };
  addEventListener('beforeprint', printing(true));
  addEventListener('afterprint', printing(false));
}
