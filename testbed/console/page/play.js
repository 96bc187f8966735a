// A scenario that is played: its steps on a time axis as they happen.
import {$, draw, hide, keyed, make, set, span, text} from './dom.js';

const dots = new Map(), rows = new Map();
let width = 600, state, axis;

export function init(s) {
  state = s;
  axis = draw('g');
  $('play-axis').append(axis);
  set($('play-axis'), 'height', 56);
  new ResizeObserver(() => { width = $('play-axis').clientWidth || 600; set($('play-axis'), 'viewBox', `0 0 ${width} 56`); render(); }).observe($('play-axis'));
}

export function show(s, changed, all) {
  if (changed.has('play') || all || s.play?.state === 'playing' && changed.has('now')) render();
}

function render() {
  const p = state?.play;
  hide($('play'), !p);
  if (!p) return;
  text($('play-name'), `${p.name}: ${p.state}`);
  set($('play-name'), 'class', p.state === 'passed' ? 'ok' : p.state === 'failed' ? 'bad' : 'dim');
  text($('play-about'), [p.about, ...(p.result || [])].join(' '));
  const steps = p.steps || [], lasts = Math.max(p.lastsMs, 1000, ...steps.map(s => s.atMs));
  const x = ms => 10 + (width - 30) * ms / lasts;
  const ids = steps.map((_, i) => String(i));
  const every = [1000, 2000, 5000, 10000, 20000, 60000].find(n => lasts / n < 14) || 120000;
  const ticks = [];
  for (let at = 0; at <= lasts; at += every) ticks.push('t' + at);
  keyed(axis, ['axis', ...ticks, ...ids, ...(p.state === 'playing' ? ['now'] : [])], k =>
    k === 'axis' ? draw('line', {class: 'axis', x1: 10, y1: 28, y2: 28}) : k === 'now' ? draw('line', {class: 'now', y1: 6, y2: 42})
    : k[0] === 't' ? draw('text', {'text-anchor': 'middle', y: 54}) : draw('circle', {r: 5}, draw('title')), (el, k) => {
    if (k === 'axis') return set(el, 'x2', width - 20);
    if (k === 'now') { const at = x(Math.min(lasts, state.now - p.began)).toFixed(1); set(el, 'x1', at); return set(el, 'x2', at); }
    if (k[0] === 't') { text(el, span(Number(k.slice(1)))); return set(el, 'x', x(Number(k.slice(1))).toFixed(1)); }
    const s = steps[Number(k)];
    set(el, 'class', s.error ? 'failed' : s.done ? 'done' : null);
    set(el, 'cx', x(s.atMs).toFixed(1)); set(el, 'cy', s.done ? 36 : 20);
    text(el.firstChild, `${span(s.atMs)} ${s.what}${s.error ? ': ' + s.error : ''}`);
  }, dots);
  const done = ids.filter(i => steps[Number(i)].done).reverse();
  keyed($('play-steps'), done, () => make('li', {}, make('time'), make('span')), (li, i) => {
    const s = steps[Number(i)];
    text(li.children[0], span(s.atMs));
    text(li.children[1], s.what + (s.error ? ': ' + s.error : ''));
    set(li.children[1], 'class', s.error ? 'bad' : null);
  }, rows);
}
