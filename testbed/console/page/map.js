// The map: the database, metas, data nodes, sessions and clients, and their connections.
import {$, draw, hide, keyed, make, natural, set, text} from './dom.js';
import {choose, chosen} from './actions.js';
import {join, pairs, wire} from './wires.js';

const roles = ['db', 'meta', 'data', 'session'];
const rows = {}, cards = {}, chips = new Map();
const still = matchMedia('(prefers-reduced-motion: reduce)');
let clients, state, lease = null, nowAt = 0;
/** what is connected: the slots that data nodes share, the clients that are shown, the lines; and where their ends are. */
let shared = [], shown = [], joined = {lines: new Map(), words: {}}, spots = null, size = 1;

export function init(s) {
  state = s;
  for (const role of roles) {
    rows[role] = make('div', {class: 'row'});
    cards[role] = new Map();
    $('map').append(rows[role]);
  }
  clients = make('div', {class: 'clients', 'aria-label': 'clients'});
  $('map').append(clients);
  const moved = new ResizeObserver(() => { // the page is laid out at this moment
    spots = null;
    connections();
  });
  for (const el of [$('map'), clients, ...Object.values(rows)]) moved.observe(el);
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

function detail(name, n) {
  switch (n.role) {
    case 'data': return `${n.leading} led, ${n.following} followed`;
    case 'session': return `${n.clients} clients${state.mode === 'recording' ? '' : `, ${n.entries} entries`}`; // a recording does not know them
    case 'meta': return n.leads ? `term ${state.term}` : follows(name, n);
  }
  return '';
}

/** follows returns which meta a node follows, if there is such a line. */
function follows(name, n) {
  const words = `follows ${n.meta}`;
  return joined.words[name]?.includes(words) ? words : '';
}

export function show(s, changed, all) {
  if (changed.has('now')) nowAt = performance.now();
  if (!all && !['nodes', 'clients', 'slots', 'links'].some(k => changed.has(k))) return;
  if (changed.has('slots')) [shared, size] = [pairs(s.slots), Object.keys(s.slots).length || 1];
  if (changed.has('clients')) names(s);
  joined = join(s, shared, shown);
  if (all || ['nodes', 'slots', 'links'].some(k => changed.has(k))) nodes(s);
  connections();
}

function nodes(s) {
  for (const role of roles) {
    const names = Object.keys(s.nodes).filter(k => s.nodes[k].role === role).sort(natural);
    if (names.join() !== [...cards[role].keys()].sort(natural).join()) spots = null;
    keyed(rows[role], names, card, update, cards[role]);
  }
}

/** names shows the clients, the first forty of them. */
function names(s) {
  const all = Object.keys(s.clients).sort(natural), before = shown.join();
  shown = all.slice(0, 40);
  if (shown.join() !== before) spots = null;
  keyed(clients, shown, () => make('span'), (el, k) => text(el, s.clients[k].name + ' @ ' + s.clients[k].session), chips);
  set(clients, 'title', `${all.length} clients`);
}

function card(name) {
  const el = make('button', {type: 'button', class: 'node', 'data-node': name}, make('b', {}, name), make('span', {class: 'mark'}), make('span', {class: 'detail'}), make('span', {class: 'peer'}), make('span', {class: 'more'}));
  el.addEventListener('click', () => {
    choose(name);
    connections();
  });
  return el;
}

function update(el, name) {
  const n = state.nodes[name];
  const [kind, words] = mark(n);
  set(el, 'class', `node ${kind}`.trim());
  set(el, 'data-state', n.state);
  set(el, 'aria-pressed', chosen() === name);
  text(el.children[1], words);
  text(el.children[2], detail(name, n));
  hide(el.children[3], n.role !== 'data' && n.role !== 'session');
  text(el.children[3], follows(name, n));
  text(el.children[4], n.moving ? `${n.moving} being handed over` : n.why || '');
  const said = [words.slice(words.indexOf(' ') + 1), detail(name, n), ...joined.words[name] || []].filter((w, i, all) => w && all.indexOf(w) === i);
  set(el, 'aria-label', `${name}: ${said.join(', ')}`);
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

/** drain moves the ring: the server only sends renewals. Virtual time, as in a recording, is only what the source says. */
function drain() {
  if (!lease) return;
  const now = state.now + (still.matches || state.mode === 'recording' || state.why ? 0 : performance.now() - nowAt);
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
  set(svg.children[0], 'width', (100 * n.leading / size).toFixed(1));
  set(svg.children[1], 'width', (100 * Math.min(n.moving, n.leading) / size).toFixed(1));
}

/** connections draws the lines between the cards. Where the cards are is read only when that can have changed. */
function connections() {
  spots ||= measure();
  wire($('wires'), joined.lines, spots, chosen());
}

/** measure returns where the cards and the clients are: reading that makes the browser lay out the page. */
function measure() {
  const out = new Map(), box = $('map').getBoundingClientRect();
  for (const all of [...Object.values(cards), chips]) {
    for (const [name, el] of all) {
      const r = el.getBoundingClientRect();
      out.set(name, {x: r.left - box.left + r.width / 2, top: r.top - box.top, bottom: r.bottom - box.top});
    }
  }
  return out;
}
