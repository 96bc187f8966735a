// The map: the database, metas, data nodes, sessions and clients, and their connections.
import {$, draw, keyed, make, natural, set, text} from './dom.js';
import {choose, chosen} from './actions.js';

const roles = ['db', 'meta', 'data', 'session'];
const rows = {}, cards = {}, wires = new Map(), chips = new Map();
const still = matchMedia('(prefers-reduced-motion: reduce)');
let clients, state, lease = null, resized = false, nowAt = 0;

export function init(s) {
  state = s;
  for (const role of roles) {
    rows[role] = make('div', {class: 'row'});
    cards[role] = new Map();
    $('map').append(rows[role]);
  }
  clients = make('div', {class: 'clients', 'aria-label': 'clients'});
  $('map').append(clients);
  new ResizeObserver(() => {
    if (!resized) requestAnimationFrame(() => { resized = false; connections(state); });
    resized = true;
  }).observe($('map'));
  setInterval(drain, 100);
}

/** mark returns the class of a node's state and its words. */
function mark(n) {
  switch (n.state) {
    case 'killed': return ['down', '✕ killed'];
    case 'exited': return ['down', '✕ stopped'];
    case 'unreachable': return ['down', '✕ no answer'];
    case 'suspended': return ['frozen', '❙❙ frozen'];
  }
  if (n.state === 'draining' || n.member === 'draining') return ['drains', '⇣ draining'];
  if (n.listed) return ['drains', '⊘ blacklisted'];
  if (n.state === 'starting') return ['starts', '… starting'];
  if (n.member === 'suspect') return ['starts', '? suspect'];
  if (n.leads) return ['leads', '★ leads'];
  if (n.believes) return ['starts', '☆ believes it leads'];
  if (n.observer) return ['', '○ observes'];
  return ['', '● ' + (n.role === 'meta' ? 'follows' : 'ready')];
}

function detail(n) {
  switch (n.role) {
    case 'data': return `${n.leading} led, ${n.following} followed`;
    case 'session': return `${n.clients} clients, ${n.entries} entries`;
    case 'meta': return n.leads ? `term ${state.term}` : '';
  }
  return '';
}

export function show(s, changed, all) {
  if (changed.has('now')) nowAt = performance.now();
  if (changed.has('nodes')) nodes(s);
  if (changed.has('clients')) {
    const names = Object.keys(s.clients).sort(natural);
    const shown = names.length > 40 ? names.slice(0, 40) : names;
    keyed(clients, shown, () => make('span'), (el, k) => text(el, s.clients[k].name + ' @ ' + s.clients[k].session), chips);
    set(clients, 'title', `${names.length} clients`);
  }
  if (['nodes', 'links', 'leader'].some(k => changed.has(k)) || all) connections(s);
}

function nodes(s) {
  for (const role of roles) {
    const names = Object.keys(s.nodes).filter(k => s.nodes[k].role === role).sort(natural);
    keyed(rows[role], names, card, update, cards[role]);
  }
}

function card(name) {
  const el = make('button', {type: 'button', class: 'node', 'data-node': name}, make('b', {}, name), make('span', {class: 'mark'}), make('span', {class: 'detail'}), make('span', {class: 'more'}));
  el.addEventListener('click', () => choose(name));
  return el;
}

function update(el, name) {
  const n = state.nodes[name];
  const [kind, words] = mark(n);
  set(el, 'class', `node ${kind}`.trim());
  set(el, 'data-state', n.state);
  set(el, 'aria-pressed', chosen() === name);
  text(el.children[1], words);
  text(el.children[2], detail(n));
  text(el.children[3], n.moving ? `${n.moving} being handed over` : n.why || '');
  set(el, 'aria-label', `${name}: ${words.slice(2)}${detail(n) ? ', ' + detail(n) : ''}`);
  set(el, 'title', n.listed ? `blacklist: ${n.listed}` : n.why || null);
  ring(el, n);
  if (n.role === 'data') share(el, n);
}

/** ring shows how much of the leader's trust is left. */
function ring(el, n) {
  let svg = el.querySelector('.ring');
  if (!n.leads) {
    svg?.remove();
    if (lease?.el === el) lease = null;
    return;
  }
  if (!svg) {
    svg = draw('svg', {class: 'ring', viewBox: '0 0 32 32'}, draw('circle', {cx: 16, cy: 16, r: 13}), draw('circle', {class: 'left', cx: 16, cy: 16, r: 13, pathLength: 100}), draw('text', {x: 16, y: 19.5}));
    el.append(svg);
  }
  lease = {el, left: svg.children[1], label: svg.children[2], until: n.until, of: n.leaseOf || 3000};
  drain();
}

/** drain moves the ring: the server only sends renewals. */
function drain() {
  if (!lease) return;
  const now = state.now + (still.matches || state.mode === 'recording' ? 0 : performance.now() - nowAt);
  const left = Math.min(lease.of, Math.max(0, lease.until - now));
  set(lease.left, 'stroke-dasharray', `${Math.round(100 * Math.min(1, left / lease.of))} 100`);
  text(lease.label, (left / 1000).toFixed(1));
}

/** share shows how many of the slots a data node leads, and how many of them move. */
function share(el, n) {
  let svg = el.querySelector('.share');
  if (!svg) {
    svg = draw('svg', {class: 'share', viewBox: '0 0 100 4', preserveAspectRatio: 'none'}, draw('rect', {height: 4}), draw('rect', {height: 4, class: 'moving'}));
    el.append(svg);
  }
  const of = Object.keys(state.slots).length || 1;
  set(svg.children[0], 'width', (100 * n.leading / of).toFixed(1));
  set(svg.children[1], 'width', (100 * Math.min(n.moving, n.leading) / of).toFixed(1));
}

/** connections draws the lines between the cards. */
function connections(s) {
  const at = {}, box = $('map').getBoundingClientRect();
  for (const role of roles) {
    for (const [name, el] of cards[role]) {
      const r = el.getBoundingClientRect();
      at[name] = {x: r.left - box.left + r.width / 2, top: r.top - box.top, bottom: r.bottom - box.top};
    }
  }
  const of = role => [...cards[role].keys()];
  const lines = new Map();
  const add = (a, b, kind) => at[a] && at[b] && lines.set(a + ' ' + b, {a, b, kind});
  const up = n => ['ready', 'starting', 'draining'].includes(s.nodes[n]?.state);
  for (const m of of('meta')) {
    for (const d of of('db')) add(d, m, up(m) && up(d) ? (s.nodes[m].leads ? 'leads' : '') : 'off');
    if (s.nodes[m]?.leads) for (const n of [...of('data'), ...of('session')]) add(m, n, up(n) ? 'leads' : 'off');
  }
  for (const x of of('session')) for (const d of of('data')) add(d, x, up(x) && up(d) ? '' : 'off');
  for (const l of Object.values(s.links)) {
    const peers = at[l.b] ? [l.b] : l.b === 'all others' ? Object.keys(at).filter(n => n !== l.a) : []; // a client has no card
    for (const p of peers) {
      const k = lines.has(p + ' ' + l.a) ? p + ' ' + l.a : l.a + ' ' + p;
      const [a, b] = k.split(' ');
      lines.set(k, {a, b, kind: 'cut'});
    }
  }
  keyed($('wires'), [...lines.keys()], () => draw('g', {}, draw('line')), (g, k) => {
    const {a, b, kind} = lines.get(k);
    let from = at[a], to = at[b];
    if (!from || !to) return;
    if (from.top > to.top) [from, to] = [to, from];
    const same = Math.abs(from.top - to.top) < 5;
    const line = g.firstChild, y2 = same ? to.bottom : to.top;
    for (const [name, v] of [['x1', from.x], ['y1', from.bottom], ['x2', to.x], ['y2', y2]]) set(line, name, v.toFixed(0));
    set(line, 'class', kind || null);
    if (kind === 'cut' && g.children.length < 2) g.append(draw('text', {'text-anchor': 'middle'}, '✕ cut'));
    if (kind !== 'cut' && g.children.length > 1) g.lastChild.remove();
    if (kind === 'cut') {
      set(g.lastChild, 'x', ((from.x + to.x) / 2).toFixed(0));
      set(g.lastChild, 'y', ((from.bottom + y2) / 2 + (same ? 16 : 5)).toFixed(0));
    }
  }, wires);
}
