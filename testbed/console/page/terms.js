// The terms: a lane for each meta, with the intervals in which it led and in which it only believed so.
import {$, clock, draw, keyed, make, natural, set, span, text} from './dom.js';

const left = 64, lane = 24, top = 18;
const spans = new Map(), believed = new Map(), gaps = new Map(), names = new Map(), ticks = new Map(), rows = new Map();
let state, body, labels, axis, lanes = [], view = {span: 90000, to: 0}, following = true, width = 600, origin = 0, last = {};

export function init(s) {
  state = s;
  const svg = $('lanes');
  const hatch = draw('pattern', {id: 'hatch', width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'}, draw('path', {d: 'M0 0V5'}));
  body = draw('g'); axis = draw('g'); labels = draw('g');
  svg.append(draw('defs', {}, hatch), axis, body, draw('rect', {class: 'cover', x: 0, y: 0, width: left, height: 400}), labels);
  const zoom = by => { view.span = Math.max(500, Math.min(3600000 * 6, view.span * by)); origin = 0; render(); };
  const pan = by => { following = false; view.to += by * view.span; render(); };
  const follow = on => { following = on; render(); };
  $('zoom-in').addEventListener('click', () => zoom(0.5));
  $('zoom-out').addEventListener('click', () => zoom(2));
  $('pan-left').addEventListener('click', () => pan(-0.3));
  $('pan-right').addEventListener('click', () => pan(0.3));
  $('follow').addEventListener('click', () => follow(!following));
  svg.addEventListener('keydown', e => {
    const act = {'+': () => zoom(0.5), '-': () => zoom(2), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), End: () => follow(true)}[e.key];
    if (act) { e.preventDefault(); act(); }
  });
  svg.addEventListener('wheel', e => { if (e.ctrlKey || e.shiftKey) { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8); } }, {passive: false});
  let from = null;
  svg.addEventListener('pointerdown', e => { from = {x: e.clientX, to: view.to}; svg.setPointerCapture(e.pointerId); });
  svg.addEventListener('pointermove', e => {
    if (!from || Math.abs(e.clientX - from.x) < 4) return;
    following = false;
    view.to = from.to - (e.clientX - from.x) * view.span / (width - left);
    render();
  });
  svg.addEventListener('pointerup', () => { from = null; });
  new ResizeObserver(() => { width = svg.clientWidth || 600; origin = 0; render(); }).observe(svg);
}

export function show(s, changed, all) {
  if (all && (s.title !== last.title || s.mode === 'live' && s.now < last.now)) following = true; // another source
  last = {title: s.title, now: s.now};
  if (changed.has('terms') || all) elections(s);
  if (changed.has('now') || changed.has('believed') || changed.has('terms') || all) render();
}

function elections(s) {
  const list = Object.values(s.terms).sort((a, b) => b.term - a.term);
  keyed($('elections').tBodies[0], list.map(t => String(t.term)), () => make('tr', {}, ...Array.from({length: 5}, () => make('td'))), (tr, k) => {
    const t = s.terms[k];
    [t.term, t.owner, t.cause + (t.previous && t.cause !== 'first' ? ` (${t.previous})` : ''), t.cause === 'first' ? '-' : span(t.leaderlessMs), clock(t.at, s.mode === 'recording')].forEach((v, i) => text(tr.children[i], v));
    set(tr.children[0], 'class', 'n'); set(tr.children[3], 'class', 'n');
  }, rows);
}

/** render places the intervals; while it follows the clock, one transform moves all of them. */
function render() {
  if (!state?.mode) return;
  if (following) view.to = state.now + view.span * 0.03;
  set($('follow'), 'aria-pressed', following);
  const metas = Object.keys(state.nodes).filter(n => state.nodes[n].role === 'meta').sort(natural);
  for (const b of Object.values(state.believed)) if (!metas.includes(b.node)) metas.push(b.node);
  lanes = metas;
  const height = top + lane * Math.max(1, lanes.length) + 20;
  set($('lanes'), 'height', height);
  set($('lanes'), 'viewBox', `0 0 ${width} ${height}`);
  const k = (width - left) / view.span, from = view.to - view.span;
  if (!origin || Math.abs(from - origin) > 20 * view.span) origin = from;
  // A browser does not know the place of what is thousands of views away.
  const near = at => Math.min(Math.max(at, origin - 22 * view.span), origin + 22 * view.span);
  const x = at => (at - origin) * k, y = node => top + lane * lanes.indexOf(node);
  const shift = `translate(${(left - (from - origin) * k).toFixed(1)} 0)`;
  set(body, 'transform', shift);
  set(axis, 'transform', shift);
  keyed(labels, lanes, () => draw('g', {}, draw('text', {class: 'name', x: 0}), draw('line', {class: 'lane', x1: 0})), (g, n) => {
    text(g.children[0], n); set(g.children[0], 'y', y(n) + 15);
    set(g.children[1], 'x2', width); set(g.children[1], 'y1', y(n) + lane - 1); set(g.children[1], 'y2', y(n) + lane - 1);
  }, names);
  const led = new Map(), only = new Map(), none = new Map();
  const live = state.mode !== 'recording';
  for (const [key, b] of Object.entries(state.believed)) {
    const to = b.open ? state.now : b.to, t = state.terms[b.term], next = state.terms[b.term + 1]?.at ?? Infinity;
    const began = live && t?.owner === b.node ? Math.min(b.from, t.at) : b.from; // the console may have come later
    if (to < from || began > view.to) continue;
    led.set(key, {...b, from: began, to: Math.min(to, next)});
    if (to > next) only.set(key, {...b, from: Math.max(b.from, next), to});
  }
  if (live) for (const t of Object.values(state.terms)) { // those that ended before the console began, by the history
    const key = `${t.owner} ${t.term}`, next = state.terms[t.term + 1], to = next ? next.at - next.leaderlessMs : 0;
    if (!state.believed[key] && lanes.includes(t.owner) && to > Math.max(from, t.at) && t.at <= view.to) led.set(key, {node: t.owner, term: t.term, from: t.at, to});
  }
  for (const t of Object.values(state.terms)) if (t.cause !== 'first' && t.at >= from && t.at - t.leaderlessMs <= view.to) none.set(String(t.term), t);
  const bar = kind => (g, b) => {
    const r = g.children[0];
    const begins = near(b.from);
    set(r, 'class', kind); set(r, 'x', x(begins).toFixed(1)); set(r, 'y', y(b.node) + 3);
    set(r, 'width', Math.max(1.5, (near(b.to) - begins) * k).toFixed(1)); set(r, 'height', lane - 8); set(r, 'rx', 2);
  };
  const box = () => draw('g', {}, draw('rect'), draw('title'), draw('text', {class: 'label'}));
  const sorted = m => [...m.keys()].sort(natural);
  keyed(group('led'), sorted(led), box, (g, key) => {
    const b = led.get(key);
    bar('led')(g, b);
    text(g.children[1], `${b.node} leads term ${b.term} from ${clock(b.from, state.mode === 'recording')}`);
    const wide = (b.to - Math.max(b.from, from)) * k > 46;
    text(g.children[2], wide ? `term ${b.term}` : '');
    if (wide) { set(g.children[2], 'x', (x(Math.max(b.from, from)) + 5).toFixed(0)); set(g.children[2], 'y', y(b.node) + 15); }
  }, spans);
  keyed(group('only'), sorted(only), box, (g, key) => {
    const b = only.get(key);
    bar('believed')(g, b);
    text(g.children[1], `${b.node} believed that it led term ${b.term} for ${span(b.to - b.from)} longer`);
  }, believed);
  keyed(group('none'), sorted(none), () => draw('g', {}, draw('line', {class: 'election'}), draw('rect', {class: 'gap', y: top - 5, height: 4}), draw('text', {y: top - 8, 'text-anchor': 'end'})), (g, key) => {
    const t = none.get(key), a = x(t.at);
    set(g.children[0], 'x1', a.toFixed(1)); set(g.children[0], 'x2', a.toFixed(1)); set(g.children[0], 'y1', top - 8); set(g.children[0], 'y2', height - 18);
    set(g.children[1], 'x', (a - Math.max(2, t.leaderlessMs * k)).toFixed(1)); set(g.children[1], 'width', Math.max(2, t.leaderlessMs * k).toFixed(1));
    text(g.children[2], `${t.cause} ${span(t.leaderlessMs)}`); set(g.children[2], 'x', (a - 3).toFixed(1));
  }, gaps);
  const every = [100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000, 120000, 300000, 600000, 1800000, 3600000].find(n => view.span / n <= (width - left) / 90) || 7200000;
  const marks = [];
  for (let at = Math.ceil(from / every) * every; at < view.to; at += every) marks.push(String(at));
  keyed(axis, marks, () => draw('text', {'text-anchor': 'middle'}), (el, at) => {
    set(el, 'x', x(Number(at)).toFixed(1)); set(el, 'y', height - 5);
    text(el, state.mode === 'recording' ? (at / 1000) + ' s' : clock(Number(at)).slice(0, every < 1000 ? 12 : 8));
  }, ticks);
}

const groups = {};
/** group returns the part of the picture with a kind of bars. */
function group(name) {
  if (!groups[name]) body.append(groups[name] = draw('g'));
  return groups[name];
}
