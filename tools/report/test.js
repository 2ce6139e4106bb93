// With #test behind the address the page uses itself, by the events that a person's hands make, and leaves what came of it as JSON
// in the document: tests/report.sh reads it from a browser without a window.
if (location.hash === '#test') {
  const result = {}, canvas = timeline.canvas, span = () => timeline.view[1] - timeline.view[0];
  const key = (name) => canvas.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));
  const pointer = (type, x, y) => {
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent(type, {pointerId: 1, button: 0, bubbles: true, cancelable: true,
      clientX: box.left + canvas.clientLeft + x, clientY: box.top + canvas.clientTop + y}));
  };
  const timed = (action) => {
    const began = performance.now();
    action();
    draw();
    return Math.round((performance.now() - began) * 10) / 10;
  };
  try {
    result.first_draw_ms = Math.round(firstDraw);
    result.width = innerWidth;
    result.dark = matchMedia('(prefers-color-scheme: dark)').matches;
    result.records = sum(ranks.map((r) => r.records.n));
    result.overflows = document.documentElement.scrollWidth > innerWidth;

    const all = span(), target = rows.find((r) => r.kind === RECORD_TASK && r.last > r.first);
    result.wheel_ms = timed(() => canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, ctrlKey: true, bubbles: true,
      cancelable: true, clientX: canvas.getBoundingClientRect().left + timeline.width / 2})));
    result.wheel_zooms = span() < 0.5 * all;
    const before = timeline.view[0];
    key('ArrowRight');
    result.keys_pan = timeline.view[0] > before;
    key('0');
    result.keys_reset = span() === all;
    key('+');
    const held = toTime(200);
    pointer('pointerdown', 200, 5), pointer('pointermove', 150, 5), pointer('pointerup', 150, 5);
    result.drag_pans = Math.abs(toTime(150) - held) < span() / 1000;
    key('0');

    // A task in the middle of the first row, by zooming there and clicking it.
    if (target) {
      const r = target.rank.records, i = (target.first + target.last) >> 1, node = r.node[i];
      look(r.start[i] - 50 * (r.end[i] - r.start[i] + 1), r.end[i] + 50 * (r.end[i] - r.start[i] + 1));
      draw();
      const x = (toX(r.start[i]) + toX(r.end[i])) / 2, y = rowY(target) + LABEL + BAR / 2;
      pointer('pointerdown', x, y), pointer('pointerup', x, y);
      const text = $('details').textContent;
      result.click_finds = timeline.chosen !== null && timeline.chosen.record === i && text.includes(nodeText(target.rank, node, 'layer')) &&
        text.includes(nodeText(target.rank, node, 'operation')) && text.includes('critical path');
      result.details = text;
      key('0');

      const word = nodeText(target.rank, node, 'operation');
      const wanted = sum(allRanks.map((k) => k.records.node.reduce((n, at) =>
        n + (at >= 0 && (nodeText(k, at, 'operation') + '\n' + nodeText(k, at, 'layer')).toLowerCase().includes(word.toLowerCase())), 0)));
      result.search_ms = timed(() => {
        $('search').value = word;
        $('search').dispatchEvent(new Event('input', {bubbles: true}));
      });
      result.search_finds = wanted > 0 && timeline.matches === wanted;
      choose(null);
      $('next').click();
      const first = timeline.chosen;
      $('next').click();
      result.next_steps = first !== null && timeline.chosen !== null && (wanted === 1 || timeline.chosen.record !== first.record || timeline.chosen.row !== first.row) &&
        first.row.rank.lit[first.row.rank.records.node[first.record]] === 1;
      $('search').value = '';
      $('search').dispatchEvent(new Event('input', {bubbles: true}));
      key('0');
    }
    // The graph: shares add up to all, a click makes the group's tasks stand out and nothing else, a word typed takes their place.
    const kernels = graph.groups.filter((g) => g.phase !== 'exchange'), busiest = kernels.reduce((a, b) => b.time > a.time ? b : a);
    result.graph_whole = Math.abs(sum(kernels.map(part)) - 1) < 1e-9 && sum(graph.groups.map((g) => g.tasks)) === ranks[0].nodes.layer.length;
    busiest.box.dispatchEvent(new MouseEvent('click', {bubbles: true}));
    const mine = sum(allRanks.map((k) => k.records.node.reduce((n, at) => {
      const p = at >= 0 && placeOf(k, at);
      return n + (p && p.row === busiest.row && p.phase === busiest.phase ? 1 : 0);
    }, 0)));
    result.graph_click = timeline.matches === mine && mine > 0 && $('search').value === nameOf(busiest) &&
      sum([...$('group-table').tBodies[0].rows].map((tr) => +tr.cells[2].textContent.replace(/,/g, ''))) === busiest.tasks;
    $('group').querySelector('button').click();
    result.graph_shows = timeline.chosen !== null && timeline.chosen.row.rank.lit[timeline.chosen.row.rank.records.node[timeline.chosen.record]] === 1;
    for (const by of ['layer', 'block']) {
      $('by-' + by).click();
      const places = new Set(ranks[0].nodes.layer.map((_, i) => Object.values(placeOf(ranks[0], i)).slice(1).join('\n')));
      result['graph_by_' + by] = graph.groups.length === places.size && $('graph').querySelectorAll('.group').length === places.size;
    }
    const critical = [...graph.edges.values()].filter((e) => e.critical);
    result.graph_path = critical.every((e) => e.a.critical && e.b.critical);
    $('search').dispatchEvent(new Event('input', {bubbles: true}));
    $('search').value = '';
    $('search').dispatchEvent(new Event('input', {bubbles: true}));
    result.graph_ends = timeline.only === null && !timeline.filtered;
    choose(null);
    const exchanged = data.totals.filter((r) => r.exchange && r.exchange.under_way_s > 0).length;
    result.exchange_told = $('exchange').hidden === (exchanged === 0) && $('exchanges').tBodies[0].rows.length === exchanged;
    const peak = data.roofline.peak_gflops;
    result.roofline_drawn = peak > 0 ? $('roofline').querySelectorAll('circle').length === data.operations.filter((o) => !o.exchange && o.flops > 0 && o.bytes > 0).length
      : $('roofline').hidden && $('roof-note').textContent.includes('starling bench');
    result.shares_drawn = $('shares').querySelectorAll('rect').length === sum(usage.rows.map((r) => r.percent.filter((p) => p > 0).length)) &&
      usage.rows.every((r) => Math.abs(sum(r.percent) - 100) < 1e-6);
    // A run beside it: rows of its own below, on the same axis, and a table whose last column adds up.
    result.beside_drawn = $('beside').hidden === !data.beside && (!data.beside || (besides.length > 0 &&
      rows.slice(rows.findIndex((row) => row.rank.beside)).every((row) => row.rank.beside) &&
      timeline.extent[1] >= Math.max(...besides.map((r) => r.to)) && $('beside-parts').tBodies[0].rows.length >= data.beside.parts.length - 2 &&
      Math.abs(sum(data.beside.parts.map((p) => p.difference_s)) - data.beside.difference_s) < 1e-9));
    const memories = (data.timelines.some((t) => t.memory) ? 1 : 0) + (data.train && data.train.memory_bytes.some((v) => v !== null) ? 1 : 0);
    result.memory_drawn = $('memory').hidden === (memories === 0) && $('memory-plots').querySelectorAll('svg').length === memories;
    // Every picture as a file: XML, with nothing left to a style sheet.
    const files = [...document.querySelectorAll('button.save')].map((button) => button.save());
    result.svg_files = files.length >= 1 && files.every((text) => {
      const xml = new DOMParser().parseFromString(text, 'image/svg+xml');
      return xml.documentElement.tagName === 'svg' && !xml.querySelector('parsererror') && !text.includes('var(');
    });
    const head = $('operations').tHead.rows[0].cells;
    head[2].firstChild.click();
    const counts = [...$('operations').tBodies[0].rows].map((tr) => +tr.cells[2].textContent.replace(/,/g, ''));
    result.table_sorts = $('operations').tHead.rows[0].cells[2].getAttribute('aria-sort') === 'descending' &&
      counts.every((n, i) => i === 0 || counts[i - 1] >= n);
    $('operations').tHead.rows[0].cells[4].firstChild.click();
    canvas.focus({preventScroll: true});
    if (target) choose({row: target, record: (target.first + target.last) >> 1});
    draw();

    // What the columns add up to, for holding against other accounts of the same run.
    result.kernel_s = 1e-9 * sum(rows.filter((r) => r.kind === RECORD_TASK).map((r) => {
      let time = 0;
      for (let i = r.first; i < r.last; i++) time += r.rank.records.end[i] - r.rank.records.start[i];
      return time;
    }));
    result.idle_s = data.causes.map((_, cause) => 1e-9 * sum(ranks.map((r) => r.idle.cause.reduce((t, c, i) => t + (c === cause ? r.idle.end[i] - r.idle.start[i] : 0), 0))));
  } catch (fault) {
    errors.push(String(fault && fault.stack || fault));
  }
  result.errors = errors;
  document.body.append(element('pre', JSON.stringify(result), {id: 'test-result', hidden: ''}));
}
