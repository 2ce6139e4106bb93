// The table that divides the difference to the run beside this one.
$('beside').hidden = !data.beside;
if (data.beside) {
  const signed = (seconds) => (seconds < 0 ? '\u2212' : '+') + (1e3 * Math.abs(seconds)).toFixed(3), ms = (seconds) => (1e3 * seconds).toFixed(3);
  // Placement and the number of workers have no time of their own, and no line where they change nothing.
  const hasTime = (p) => p.cause !== 'placement' && p.cause !== 'workers';
  const lines = data.beside.parts.filter((p) => hasTime(p) || p.difference_s !== 0);
  $('beside-heading').textContent = 'Beside ' + data.beside.run;
  $('beside-answer').textContent = data.beside.answer;
  table('beside-parts', ['', 'run, ms a step', 'beside, ms', 'difference, ms'],
    lines.map((p) => row([p.name, hasTime(p) ? ms(p.run_s) : '', hasTime(p) ? ms(p.beside_s) : '', signed(p.difference_s)])),
    row(['a step', ms(data.beside.run_step_s), ms(data.beside.beside_step_s), signed(data.beside.difference_s)]));
}
