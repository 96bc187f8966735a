// The promises: what the checkers have checked and found.
import {$, clock, keyed, make, natural, number, set, text} from './dom.js';

const rows = new Map();

export function show(s, changed, all) {
  if (changed.has('checking') || changed.has('watching') || changed.has('load') || all) {
    const c = s.checking;
    const n = Object.keys(s.promises).length;
    text($('promises-sum'), s.watching ? s.watching : c ? `${n} promises, checked until ${clock(c.until, s.mode === 'recording').slice(0, 8)}: ${c.how} (${number(c.entries)} entries${c.tookMs ? ` in ${c.tookMs} ms` : ''}).`
      : s.load ? 'the first check is in progress' : 'None is checked: this console only watches, and has no clients of its own.');
  }
  if (!changed.has('promises') && !all) return;
  const order = {I: 0, P: 1, L: 2};
  const ids = Object.keys(s.promises).sort((a, b) => order[a[0]] - order[b[0]] || natural(a, b));
  keyed($('promises').tBodies[0], ids, () => make('tr', {}, make('td'), make('td'), make('td', {class: 'n'}), make('td', {class: 'n'}), make('td')), (tr, id) => {
    const p = s.promises[id];
    set(tr, 'data-promise', id);
    text(tr.children[0], id);
    text(tr.children[1], p.says);
    text(tr.children[2], p.checks ? number(p.checks) : s.mode === 'recording' ? 'none' : 'none yet');
    text(tr.children[3], p.broken ? `✗ ${p.broken}` : p.checks ? '✓ 0' : '-');
    set(tr.children[3], 'class', 'n ' + (p.broken ? 'bad' : p.checks ? 'ok' : 'dim'));
    text(tr.children[4], clock(p.since, s.mode === 'recording').slice(0, 8));
  }, rows);
}
