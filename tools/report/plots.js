// Plots as inline SVG: curves of the metrics, the roofline; and any picture of the page as a file of its own.

const SVG = $('svg').namespaceURI;
function make(tag, attributes, text) {
  const e = document.createElementNS(SVG, tag);
  for (const name in attributes) e.setAttribute(name, attributes[name]);
  if (text !== undefined) e.textContent = text;
  return e;
}
const coloured = (e, property, colour) => {
  e.style[property] = 'var(' + colour + ')';
  return e;
};

// --- files ----------------------------------------------------------------------------------------------------------

// What look() gives while the page has the colours of paper.
function inLight(look) {
  const before = document.documentElement.classList.contains('printing');
  document.documentElement.classList.add('printing');
  try {
    return look();
  } finally {
    document.documentElement.classList.toggle('printing', before);
  }
}

// Returns an <svg> of the page as the text of a file: styles become attributes, and the legend `meanings` ([[colour,
// text]]) stands below the plot.
function svgText(svg, meanings) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')];
  let [, , w, h] = svg.getAttribute('viewBox').split(' ').map(Number), x = 8;
  inLight(() => from.forEach((e, i) => {
    const style = getComputedStyle(e);
    for (const name of ['style', 'class', 'tabindex', 'role', 'id']) to[i].removeAttribute(name);
    if (!['path', 'circle', 'rect', 'text', 'line'].includes(e.tagName)) return;
    for (const name of ['fill', 'fill-opacity', 'stroke', 'stroke-opacity', 'stroke-width', 'stroke-dasharray', 'opacity', 'paint-order']) to[i].setAttribute(name, style.getPropertyValue(name));
    if (e.tagName === 'text') for (const name of ['font-size', 'font-family', 'font-weight', 'text-anchor']) to[i].setAttribute(name, style.getPropertyValue(name));
  }));
  for (const [colour, text] of meanings || []) {
    const wide = 16 + 6.6 * text.length;
    if (x === 8 || x + wide > w) x = 8, h += 18;
    copy.append(make('rect', {x, y: h - 13, width: 10, height: 10, fill: inLight(() => getComputedStyle(document.documentElement).getPropertyValue(colour).trim())}),
      make('text', {x: x + 14, y: h - 4, fill: '#333', 'font-size': 11, 'font-family': 'system-ui, sans-serif'}, text));
    x += wide + 8;
  }
  copy.setAttribute('viewBox', '0 0 ' + w + ' ' + h);
  copy.setAttribute('width', w);
  copy.setAttribute('height', h);
  copy.prepend(make('rect', {width: w, height: h, fill: '#fff'}));
  return new XMLSerializer().serializeToString(copy);
}

// A button that saves text() as NAME.svg.
function saver(name, text) {
  const button = element('button', 'SVG', {type: 'button', class: 'save', 'aria-label': 'Save ' + name + ' as SVG', title: 'Save as SVG'});
  button.save = text;
  button.addEventListener('click', () => {
    const link = element('a', '', {download: name + '.svg', href: URL.createObjectURL(new Blob([text()], {type: 'image/svg+xml'}))});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
  return button;
}

// The part of a canvas's context that the timeline draws with, as an SVG.
function svgContext(width, height) {
  const svg = make('svg', {viewBox: '0 0 ' + width + ' ' + height, width, height}), round = (x) => Math.round(x * 100) / 100;
  let path = '';
  const c = {globalAlpha: 1, fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, font: ''};
  const add = (tag, attributes, text) => {
    if (c.globalAlpha < 1) attributes.opacity = round(c.globalAlpha);
    svg.append(make(tag, attributes, text));
  };
  return Object.assign(c, {
    svg,
    fillRect: (x, y, w, h) => add('rect', {x: round(x), y: round(y), width: round(w), height: round(h), fill: c.fillStyle}),
    strokeRect: (x, y, w, h) => add('rect', {x: round(x), y: round(y), width: round(w), height: round(h), fill: 'none', stroke: c.strokeStyle, 'stroke-width': c.lineWidth}),
    fillText: (text, x, y) => add('text', {x: round(x), y: round(y), fill: c.fillStyle, 'font-size': 11, 'font-family': 'system-ui, sans-serif'}, text),
    beginPath: () => path = '',
    moveTo: (x, y) => path += 'M' + round(x) + ' ' + round(y),
    lineTo: (x, y) => path += 'L' + round(x) + ' ' + round(y),
    stroke: () => path && add('path', {d: path, fill: 'none', stroke: c.strokeStyle, 'stroke-width': c.lineWidth}),
  });
}
function timelineText() {
  const context = timeline.context, picture = svgContext(timeline.width, timeline.height);
  inLight(() => {
    readColours();
    timeline.context = picture;
    picture.fillStyle = timeline.colours['--paper'];
    picture.fillRect(0, 0, timeline.width, timeline.height);
    paintAll();
    timeline.context = context;
  });
  readColours();
  return new XMLSerializer().serializeToString(picture.svg);
}
$('save').append(saver('timeline', timelineText));

// A plot with its title, the legend `meanings`, and the button that saves it. legend: the legend of the saved file, if
// the page shows the legend elsewhere.
function figureOf(title, svg, meanings, legend) {
  const caption = element('figcaption', title + (meanings ? ': ' : '')), box = element('figure');
  for (const [colour, text] of meanings || []) {
    const key = element('span', '', {class: 'key'});
    key.append(...swatch(colour, text).childNodes);
    caption.append(key, ' ');
  }
  caption.append(saver(title.toLowerCase().replace(/[^a-z0-9]+/g, '-'), () => svgText(svg, legend || meanings)));
  box.append(caption, svg);
  return box;
}

// --- axes -----------------------------------------------------------------------------------------------------------

// Round numbers from low to high, about n of them.
function ticks(low, high, n) {
  const least = (high - low) / n || 1, power = 10 ** Math.floor(Math.log10(least));
  const tick = [1, 2, 5, 10].map((f) => f * power).find((t) => t >= least * 0.999), list = [];
  for (let k = Math.ceil(low / tick - 1e-9); k * tick <= high + tick * 1e-9; k++) list.push(k * tick);
  return list;
}
const number = (y) => Math.abs(y) >= 1e4 ? (y / 1000).toLocaleString('en') + 'k' : String(+y.toPrecision(4));
const widthOf = (box) => Math.max(240, Math.min(640, $(box).clientWidth || 640));

// A bar for all ranks, and one for each.
function drawShares() {
  const W = Math.max(240, $('shares').clientWidth || 640), left = usage.rows.length > 1 ? 58 : 0, scale = (W - left) / 100;
  const svg = make('svg', {viewBox: '0 0 ' + W + ' ' + (26 * usage.rows.length + 2), role: 'img'});
  svg.setAttribute('aria-label', usage.rows.map((r) => r.name + ': ' + usage.names.map((name, i) => name + ' ' + r.percent[i] + ' %').join(', ')).join('; '));
  usage.rows.forEach((r, k) => {
    let from = 0;
    if (left) svg.append(make('text', {x: left - 6, y: 26 * k + 17, 'text-anchor': 'end', class: 'strong'}, r.name));
    usage.names.forEach((name, i) => {
      if (!(r.percent[i] > 0)) return;
      const part = coloured(make('rect', {x: left + scale * from, y: 26 * k + 2, width: scale * r.percent[i], height: 22}), 'fill', '--' + name);
      part.append(make('title', {}, r.name + ': ' + name + ' ' + r.percent[i].toFixed(1) + ' %'));
      svg.append(part);
      from += r.percent[i];
    });
  });
  $('shares').replaceChildren(figureOf('Kernels, and idle time by cause', svg, null, usage.names.map((name) => ['--' + name, name])));
}

// series: [{name, colour, x: [], y: []}], where y may hold null. x are steps, or what `unit` names; stairs: y stays until the next x; rule:
// a line across at that y, with its name; zero: y begins there.
function plot(box, title, series, {unit = 'step', stairs = false, rule = null, zero = false} = {}) {
  const W = widthOf(box), H = 220;
  const points = series.map((s) => s.x.map((x, i) => [x, s.y[i]]).filter((p) => p[0] !== null && p[1] !== null && p[1] !== undefined));
  const all = points.flat();
  const range = (k) => all.reduce((r, p) => [Math.min(r[0], p[k]), Math.max(r[1], p[k])], [Infinity, -Infinity]);
  let [x0, x1] = range(0), [y0, y1] = range(1);
  if (rule) y1 = Math.max(y1, 1.12 * rule.y);
  if (x0 === x1) x0 -= 1, x1 += 1;
  if (y0 > 0 && (zero || y0 < 0.4 * y1)) y0 = 0;
  if (y0 === y1) y0 -= Math.abs(y0) / 10 || 1, y1 += Math.abs(y1) / 10 || 1;
  const left = 48, right = W - 10, top = 10, bottom = H - 24;
  const X = (x) => left + (x - x0) / (x1 - x0) * (right - left), Y = (y) => bottom - (y - y0) / (y1 - y0) * (bottom - top);
  const svg = make('svg', {viewBox: '0 0 ' + W + ' ' + H, role: 'img'});
  svg.setAttribute('aria-label', title + ': ' + series.map((s, k) => {
    const [a, b] = [points[k][0], points[k][points[k].length - 1]], most = points[k].reduce((m, p) => Math.max(m, p[1]), -Infinity);
    return stairs ? s.name + ' ' + figure(most) + ' at most' : s.name + ' from ' + figure(a[1]) + ' at ' + unit + ' ' + a[0] + ' to ' + figure(b[1]) + ' at ' + unit + ' ' + b[0];
  }).join('; '));
  for (const y of ticks(y0, y1, 5)) {
    svg.append(make('path', {class: 'grid', d: 'M' + left + ' ' + Y(y) + 'H' + right}));
    svg.append(make('text', {x: left - 5, y: Y(y) + 4, 'text-anchor': 'end'}, number(y)));
  }
  const marks = ticks(x0, x1, W / 90).filter((x) => unit !== 'step' || Number.isInteger(x));
  marks.forEach((x, i) => svg.append(make('text', {x: X(x), y: H - 8, 'text-anchor': X(x) > right - 20 ? 'end' : 'middle'},
    unit === 'step' ? x.toLocaleString('en') : number(x) + (i === marks.length - 1 ? ' ' + unit : ''))));
  if (rule) {
    svg.append(make('path', {class: 'curve rule', d: 'M' + left + ' ' + Y(rule.y) + 'H' + right}));
    svg.append(make('text', {x: right, y: Y(rule.y) - 4, 'text-anchor': 'end', class: 'name strong'}, rule.name));
  }
  series.forEach((s, k) => {
    const path = points[k].map((p, i) => (i ? stairs ? 'H' + X(p[0]).toFixed(1) + 'V' : 'L' + X(p[0]).toFixed(1) + ' ' : 'M' + X(p[0]).toFixed(1) + ' ') + Y(p[1]).toFixed(1)).join('');
    svg.append(coloured(make('path', {class: 'curve', d: path}), 'stroke', s.colour));
    if (points[k].length <= 30 && !stairs)
      for (const p of points[k]) svg.append(coloured(make('circle', {cx: X(p[0]).toFixed(1), cy: Y(p[1]).toFixed(1), r: 2.5}), 'fill', s.colour));
  });
  return figureOf(title, svg, series.length > 1 && series.map((s) => [s.colour, s.name]));
}

// Returns a field of metrics.jsonl as a list of one series; an empty list if no line has a value.
const curveOf = (lines, name, label, colour, factor) => lines && lines[name].some((v) => v !== null) ?
  [{name: label, colour, x: lines.step, y: lines[name].map((v) => v === null ? null : v * (factor || 1))}] : [];

function drawCurves() {
  const train = data.train, validation = data.validation, list = [
    ['Loss, by step', [...curveOf(train, 'loss', 'training', '--op0'), ...curveOf(validation, 'loss', 'validation', '--op1')]],
    ['Samples per second', curveOf(train, 'samples_per_s', 'training', '--op2')],
    ['Tokens per second', curveOf(train, 'tokens_per_s', 'training', '--op2')],
    ['GFLOP/s, all ranks', curveOf(train, 'gflops', 'training', '--op3')],
  ].filter(([, series]) => series.length);
  $('curves').hidden = list.length === 0;
  $('plots').replaceChildren(...list.map(([title, series]) => plot('plots', title, series)));
}

// Temporaries in use over a step of each rank (eight at most), and the process's memory over the run.
function drawMemory() {
  const known = data.timelines.filter((t) => t.memory).slice(0, 8), list = [];
  if (known.length) {
    const slots = Math.max(...known.map((t) => t.memory.slots_bytes));
    const series = known.map((t, k) => {
      let at = 0;
      const x = t.memory.time.map((d, i) => (at += i ? d : 0) / 1e6);
      return {name: 'rank ' + t.rank, colour: '--op' + k, x, y: t.memory.bytes.map((b) => b / 1e6)};
    });
    list.push(plot('memory-plots', 'Temporaries in use over step ' + known[0].memory.step.toLocaleString('en') + ', MB', series,
      {unit: 'ms', stairs: true, rule: {y: slots / 1e6, name: 'set aside by the plan: ' + figure(slots / 1e6)}}));
  }
  const resident = [...curveOf(data.train, 'memory_bytes', 'now', '--op6', 1e-6), ...curveOf(data.train, 'peak_memory_bytes', 'most so far', '--op1', 1e-6)];
  if (resident.length) list.push(plot('memory-plots', 'Resident memory of rank 0 by step, MB', resident, {zero: true}));
  $('memory').hidden = list.length === 0;
  $('memory-plots').replaceChildren(...list);
}

// --- the roofline ---------------------------------------------------------------------------------------------------

// Both axes logarithmic: what an operation computes of a byte, and how fast. Discs are as large as their share of kernel time.
function drawRoofline() {
  const peak = data.roofline.peak_gflops, memory = data.roofline.peak_gigabytes_per_s, box = $('roofline');
  $('roof-note').textContent = data.roofline.note;
  const list = data.operations.filter((o) => !o.exchange && o.flops > 0 && o.bytes > 0 && o.seconds > 0)
    .map((o) => ({o, x: o.flops / o.bytes, y: 1e-9 * o.flops / o.seconds}));
  box.hidden = !(peak > 0) || list.length === 0;
  if (box.hidden) return;
  const W = Math.max(240, Math.min(900, box.clientWidth || 640)), H = 320, left = 48, right = W - 12, top = 12, bottom = H - 36;
  const ridge = peak / memory, kernels = sum(list.map((p) => p.o.seconds)), decade = (list, round) => round(Math.log10(list));
  const x0 = decade(Math.min(ridge / 2, ...list.map((p) => p.x)), Math.floor), x1 = decade(1.5 * Math.max(ridge, ...list.map((p) => p.x)), Math.ceil);
  const big = list.filter((p) => p.o.seconds > 0.001 * kernels);
  const y0 = decade(Math.min(memory * 10 ** x0, ...big.map((p) => p.y)), Math.floor), y1 = decade(Math.max(peak, ...list.map((p) => p.y)), Math.ceil);
  const X = (x) => left + (Math.log10(x) - x0) / (x1 - x0) * (right - left), Y = (y) => bottom - (Math.log10(y) - y0) / (y1 - y0) * (bottom - top);
  const svg = make('svg', {viewBox: '0 0 ' + W + ' ' + H, role: 'img'});
  svg.setAttribute('aria-label', 'Roofline: ' + figure(peak) + ' GFLOP/s from ' + figure(ridge) + ' FLOP a byte on, below that ' + figure(memory) + ' GB/s; ' +
    list.map((p) => p.o.operation + ' (' + p.o.phase + ') ' + figure(p.x) + ' FLOP a byte, ' + figure(p.y) + ' GFLOP/s').join('; '));
  for (let e = y0; e <= y1; e++) {
    svg.append(make('path', {class: 'grid', d: 'M' + left + ' ' + Y(10 ** e) + 'H' + right}));
    svg.append(make('text', {x: left - 5, y: Y(10 ** e) + 4, 'text-anchor': 'end'}, number(10 ** e)));
  }
  for (let e = x0; e <= x1; e++) {
    svg.append(make('path', {class: 'grid', d: 'M' + X(10 ** e) + ' ' + top + 'V' + bottom}));
    svg.append(make('text', {x: X(10 ** e), y: bottom + 14, 'text-anchor': e === x1 ? 'end' : 'middle'}, number(10 ** e)));
  }
  svg.append(make('text', {x: (left + right) / 2, y: H - 5, 'text-anchor': 'middle'}, 'FLOP a byte (both axes logarithmic)'));
  svg.append(make('text', {x: left + 6, y: top + 10}, 'GFLOP/s of a worker'));
  // Where memory's line comes in from below, it begins at the frame.
  const from = Math.max(10 ** x0, 10 ** y0 / memory);
  svg.append(coloured(make('path', {class: 'curve roof', d: 'M' + X(from) + ' ' + Y(memory * from) + 'L' + X(ridge) + ' ' + Y(peak) + 'H' + right}), 'stroke', '--ink'));
  const slope = Math.atan2(Y(memory * ridge) - Y(memory * from), X(ridge) - X(from)) * 180 / Math.PI, along = from * (ridge / from) ** 0.25;
  const taken = [], clear = (x, y, w) => taken.every((t) => x > t[2] || x + w < t[0] || y - 9 > t[3] || y + 2 < t[1]); // boxes that names keep off
  const label = (x, y, text, attributes) => svg.append(make('text', {x, y, class: 'name', ...attributes}, text));
  list.sort((a, b) => b.o.seconds - a.o.seconds).forEach((p) => {
    p.share = p.o.seconds / kernels, p.cx = X(p.x), p.cy = Math.min(bottom, Y(p.y)), p.r = 3 + 14 * Math.sqrt(p.share);
    const disc = coloured(make('circle', {cx: p.cx, cy: p.cy, r: p.r, class: 'disc'}), 'fill', timeline.operationColour[p.o.operation]);
    disc.append(make('title', {}, p.o.operation + ' (' + p.o.phase + '): ' + figure(p.x) + ' FLOP a byte, ' + figure(p.y) + ' GFLOP/s, ' +
      figure(100 * p.o.roof_seconds / p.o.seconds) + ' % of the roof, ' + figure(100 * p.share) + ' % of kernel time'));
    svg.append(disc);
    taken.push([p.cx - p.r, p.cy - p.r, p.cx + p.r, p.cy + p.r]);
  });
  const roof = 'sgemm ' + figure(peak) + ' GFLOP/s', long = 6.4 * roof.length;
  const flat = [[right - 4 - long, -5], [right - 4 - long, 13], [X(ridge) + 4, -5], [Math.max(left + 4, X(ridge) - long - 4), -5], [right - 4 - long, -24], [right - 4 - long, -40]];
  const [roofX, roofY] = flat.find(([x, y]) => clear(x, Y(peak) + y, long)) || flat[0];
  label(roofX, Y(peak) + roofY, roof, {class: 'name strong'});
  taken.push([roofX, Y(peak) + roofY - 9, roofX + long, Y(peak) + roofY + 2]);
  label(0, 0, 'memory ' + figure(memory) + ' GB/s', {'text-anchor': 'middle', class: 'name strong',
    transform: 'translate(' + (X(along) - 5) + ' ' + (Y(memory * along) - 5) + ') rotate(' + slope + ')'});
  for (const p of list.filter((p) => p.share >= 0.005)) {
    const w = 6.2 * p.o.operation.length;
    const places = [[p.cx + p.r + 3, p.cy + 4], [p.cx - p.r - 3 - w, p.cy + 4], [p.cx - w / 2, p.cy - p.r - 4], [p.cx - w / 2, p.cy + p.r + 11]];
    const at = places.find(([x, y]) => x >= left && x + w <= right && y > top + 20 && y < bottom && clear(x, y, w));
    if (!at) continue; // its disc still tells it
    label(at[0], at[1], p.o.operation);
    taken.push([at[0], at[1] - 9, at[0] + w, at[1] + 2]);
  }
  box.replaceChildren(figureOf('Roofline', svg));
}
