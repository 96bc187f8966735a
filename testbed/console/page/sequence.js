// The messages between chosen hosts, as a sequence diagram: a lane for each host, a row for each message.
import {$, draw, hide, keyed, make, set, text} from './dom.js';
import {send} from './actions.js';
import {ask} from './why.js';

const top = 30, row = 24, first = 88;
const lanes = new Map(), labels = new Map(), rows = new Map(), boxes = new Map(), others = new Map();
const main = /^(client|session|data|meta)-|^db$/;
let state, body, heads, names, cover, width = 700, newest = 0, oldest;

export function init(s) {
  state = s;
  const svg = $('diagram');
  const head = (id, d) => draw('marker', {id, viewBox: '0 0 10 10', refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: 'auto-start-reverse'}, draw('path', {d}));
  heads = draw('g'); body = draw('g'); names = draw('g'); cover = draw('rect', {class: 'cover', height: 20});
  svg.append(draw('defs', {}, head('arrow', 'M0 0L10 5L0 10z')), heads, body, draw('g', {}, cover, names));
  const box = svg.parentElement;
  box.addEventListener('scroll', () => set(names.parentElement, 'transform', `translate(0 ${box.scrollTop})`)); // the names stay above their lanes
  $('transport').addEventListener('change', () => send({do: 'transport', value: $('transport').checked ? 'on' : 'off'}));
  new ResizeObserver(() => { width = svg.parentElement.clientWidth - 12 || 700; render(); }).observe(svg.parentElement);
}

export function show(s, changed, all) {
  hide($('sequence'), s.mode !== 'recording');
  if (s.mode !== 'recording' || !s.playback) return;
  if (changed.has('playback') || all) choices(s.playback);
  if (changed.has('messages') || changed.has('playback') || all) render();
}

/** choices shows a box for each host; those that come and go are folded away. */
function choices(p) {
  $('transport').checked = p.transport;
  for (const [parent, fits, index] of [[$('hosts'), h => main.test(h), boxes], [$('others'), h => !main.test(h), others]]) {
    keyed(parent, p.hosts.filter(fits), h => {
      const box = make('input', {type: 'checkbox', value: h});
      box.addEventListener('change', choose);
      return make('label', {}, box, h);
    }, (el, h) => { if (document.activeElement !== el.firstChild) el.firstChild.checked = p.between.includes(h); }, index);
  }
  hide($('more-hosts'), !others.size);
}

async function choose() {
  const chosen = [...$('sequence').querySelectorAll('input[value]:checked')].map(b => b.value).filter(h => h !== 'on');
  const answer = await send({do: 'between', value: chosen.join(',')});
  text($('sequence-says'), answer.error ? 'Choose two hosts or more.' : '');
}

/** asks makes a message one whose causes a click shows. */
function asks(id, g) {
  g.addEventListener('click', () => ask(id));
  return g;
}

function render() {
  const p = state?.playback;
  if (!p || state.mode !== 'recording') return;
  const hosts = p.between, list = state.messages || [];
  const wide = Math.max(width, first + hosts.length * 96), lane = (wide - first) / hosts.length;
  const x = h => first + lane * (hosts.indexOf(h) + 0.5), height = top + row * Math.max(1, list.length) + 14;
  set($('diagram'), 'viewBox', `0 0 ${wide} ${height}`);
  set($('diagram'), 'width', wide);
  set($('diagram'), 'height', height);
  set(cover, 'width', wide);
  keyed(heads, hosts, () => draw('line', {class: 'lane', y1: 20}), (l, h) => { set(l, 'x1', x(h)); set(l, 'x2', x(h)); set(l, 'y2', height); }, lanes);
  keyed(names, hosts, () => draw('text', {'text-anchor': 'middle', y: 14, class: 'name'}), (el, h) => { text(el, h); set(el, 'x', x(h)); }, labels);
  text($('sequence-sum'), list.length ? `the last ${list.length} before ${(p.atMs / 1000).toFixed(3)} s` : 'no message yet');
  const at = new Map(list.map((m, i) => [String(m.id), i]));
  keyed(body, [...at.keys()], id => asks(id, draw('g', {}, draw('text', {class: 'at', x: first - 14, 'text-anchor': 'end'}), draw('line'), draw('path', {class: 'lost'}), draw('text', {class: 'what', 'text-anchor': 'middle'}), draw('title'))), (g, id) => {
    const i = at.get(id), m = list[i], y = top + row * i + 14;
    const a = x(m.from), b = x(m.to), side = b > a ? 1 : -1, whole = m.fate === 'arrived';
    const end = whole ? b - side * 2 : a + (b - a) * 0.7;
    set(g, 'class', `${m.kind} ${m.fate.replaceAll(' ', '-')}${m.why ? ' why' : ''}`);
    set(g, 'data-message', m.what);
    text(g.children[0], (m.sentMs / 1000).toFixed(5)); set(g.children[0], 'y', y + 4);
    const line = g.children[1];
    set(line, 'x1', a); set(line, 'x2', end.toFixed(1)); set(line, 'y1', y); set(line, 'y2', y); set(line, 'marker-end', m.fate === 'lost' ? null : 'url(#arrow)');
    set(g.children[2], 'd', m.fate === 'lost' ? `M${end - 5} ${y - 5}l10 10m0 -10l-10 10` : 'M0 0');
    text(g.children[3], m.what); set(g.children[3], 'x', ((a + b) / 2).toFixed(1)); set(g.children[3], 'y', y - 4);
    text(g.children[4], `${m.from} to ${m.to}: ${m.what}, ${m.bytes} bytes, sent ${m.sentMs.toFixed(3)} ms, ${m.fate === 'arrived' ? `arrived ${(m.gotMs - m.sentMs).toFixed(3)} ms later` : m.fate}`);
  }, rows);
  const last = list.length ? list[list.length - 1].id : 0;
  const box = $('diagram').parentElement, chain = list.findIndex(m => m.why);
  if (last !== newest) { newest = last; box.scrollTop = box.scrollHeight; }
  if (list[chain]?.id !== oldest) { oldest = list[chain]?.id; if (chain >= 0) box.scrollTop = row * chain; }
}
