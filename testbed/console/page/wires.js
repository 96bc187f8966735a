// The lines of the map: what is connected to what, as the cluster reports it. Nothing here reads the layout.
import {draw, keyed, natural, set, text} from './dom.js';

const gone = ['killed', 'exited', 'unreachable'], few = 4;
const index = new Map(), drawn = new WeakMap();

/** pairs returns, for each two data nodes a and b, how many slots of a are followed by b, and of b by a. */
export function pairs(slots) {
  const directed = new Map(), out = new Map();
  for (const {leader, followers} of Object.values(slots)) {
    for (const f of followers || []) {
      if (!leader || f === leader) continue;
      const k = leader + ' ' + f;
      directed.set(k, (directed.get(k) || 0) + 1);
    }
  }
  for (const [k, n] of directed) {
    const [leader, follower] = k.split(' '), first = natural(leader, follower) < 0;
    const [a, b] = first ? [leader, follower] : [follower, leader];
    const p = out.get(a + ' ' + b) || {a, b, ab: 0, ba: 0};
    p[first ? 'ab' : 'ba'] += n;
    out.set(a + ' ' + b, p);
  }
  return [...out.values()].sort((p, q) => natural(p.a + p.b, q.a + q.b));
}

/**
 * join returns the lines, by their ends, and for each node the words for its own. An end is the name of a node
 * or the key of a client. shared is what pairs returned, shown the keys of the clients that are on the map.
 */
export function join(s, shared, shown) {
  const lines = new Map(), words = {};
  const key = (a, b) => a < b ? a + ' ' + b : b + ' ' + a;
  const say = (name, what) => (words[name] ||= []).push(what);
  const there = n => s.nodes[n] && !gone.includes(s.nodes[n].state);
  const add = (a, b, kind, label = '') => {
    const frozen = [a, b].some(n => s.nodes[n]?.state === 'suspended');
    lines.set(key(a, b), {a, b, kind: frozen ? kind + ' off' : kind, label});
  };
  for (const [name, n] of Object.entries(s.nodes)) {
    if (n.role === 'meta' && there(name) && there('db')) {
      add('db', name, n.leads ? 'database leads' : 'database');
      say(name, 'connected to the database');
    }
    if (n.meta && there(name) && there(n.meta)) {
      add(n.meta, name, 'stream');
      say(name, `follows ${n.meta}`);
    }
  }
  const data = Object.values(s.nodes).filter(n => n.role === 'data').length;
  for (const {a, b, ab, ba} of shared) {
    if (!there(a) || !there(b)) continue;
    add(a, b, data <= few ? 'slots counted' : 'slots', [ab ? `${ab}▸` : '', ba ? `◂${ba}` : ''].join(' ').trim());
    if (ab) say(b, `follows ${slots(ab)} of ${a}`);
    if (ba) say(a, `follows ${slots(ba)} of ${b}`);
  }
  for (const k of shown) {
    const at = s.clients[k].session;
    if (there(at)) add(at, k, 'client');
  }
  for (const l of Object.values(s.links)) {
    const peers = s.nodes[l.b] ? [l.b] : l.b === 'all others' ? Object.keys(s.nodes).filter(n => n !== l.a) : []; // a client has no card
    for (const p of s.nodes[l.a] ? peers : []) {
      const slow = l.what === 'slow';
      if (!slow || !lines.get(key(l.a, p))?.kind.startsWith('cut')) lines.set(key(l.a, p), {a: l.a, b: p, kind: slow ? 'slow' : 'cut', label: slow ? '… slow' : '✕ cut'});
      for (const [n, other] of [[l.a, p], [p, l.a]]) say(n, `${slow ? 'slow to' : 'cut from'} ${other}`);
    }
  }
  return {lines, words};
}

const slots = n => n === 1 ? '1 slot' : `${n} slots`;

/** wire draws the lines between the spots where their ends are. Those of the chosen node are emphasized. */
export function wire(parent, lines, spots, chosen) {
  const keys = [...lines.keys()].filter(k => spots.has(lines.get(k).a) && spots.has(lines.get(k).b));
  keyed(parent, keys, () => draw('g', {}, draw('path')), (g, k) => {
    const {a, b, kind, label} = lines.get(k);
    const own = chosen && (a === chosen || b === chosen), c = curve(spots.get(a), spots.get(b));
    const shown = own || !kind.startsWith('slots') || kind.includes('counted') ? label : '';
    const want = [kind, own, shown, c.d].join('|');
    if (drawn.get(g) === want) return;
    drawn.set(g, want);
    set(g.firstChild, 'class', own ? kind + ' own' : kind);
    set(g.firstChild, 'd', c.d);
    if (!shown) {
      if (g.children.length > 1) g.lastChild.remove();
      return;
    }
    if (g.children.length < 2) g.append(draw('text', {'text-anchor': 'middle'}));
    set(g.lastChild, 'class', `of-${kind.split(' ')[0]}`);
    set(g.lastChild, 'x', c.x);
    set(g.lastChild, 'y', c.y);
    text(g.lastChild, shown);
  }, index);
}

/** curve returns the path from one spot to another: straight down, or an arc below a row; and where its label is. */
function curve(from, to) {
  if (from.top > to.top) [from, to] = [to, from];
  const at = v => Math.round(v), middle = at((from.x + to.x) / 2);
  if (Math.abs(from.top - to.top) >= 5) {
    return {d: `M${at(from.x)} ${at(from.bottom)}L${at(to.x)} ${at(to.top)}`, x: middle, y: at((from.bottom + to.top) / 2 + 5)};
  }
  const bottom = Math.max(from.bottom, to.bottom), depth = Math.min(30, 6 + Math.abs(from.x - to.x) * 0.045);
  return {d: `M${at(from.x)} ${at(bottom)}Q${middle} ${at(bottom + 2 * depth)} ${at(to.x)} ${at(bottom)}`, x: middle, y: at(bottom + depth + 4)};
}
