// The way of a value: client, session, slot, data nodes, sessions, subscribers; from top to bottom, so that it fits a phone.
import {draw as el, natural, set, text} from './dom.js';

const high = 38, gap = 24, beside = 14, most = 3;

/** few returns the first boxes, and one for the others; more says that there are others than these. */
const few = (all, more) => all.length > most || more ? [...all.slice(0, most), {name: more ? 'and more' : `${all.length - most} more`}] : all;

/** draw shows the way of a publisher's value, undefined without one, to subscribers; more says that there are others. */
export function draw(svg, state, from, subscribers, more) {
  const id = from?.row.slot, slot = state.slots[id], sessions = new Map();
  for (const s of subscribers) sessions.set(s.node, (sessions.get(s.node) || 0) + 1);
  const rows = [];
  if (from) {
    const {client, address, stored, withdrawn} = from.row;
    rows.push([{name: client || 'no client', what: `publishes from ${address || 'nowhere'}`}],
      [{name: from.node, what: withdrawn ? 'withdraws it' : stored ? 'has it, and data has stored it' : 'has it, data has not stored it yet', weak: !stored}],
      [{name: `slot ${id}`, what: `computed from the name${slot && slot.phase !== 'stable' ? ', ' + slot.phase : ''}`}],
      [{name: slot?.leader || 'no data node', what: 'leads the slot'}, ...(slot?.followers || []).map(name => ({name, what: 'has a copy', side: true}))]);
  }
  if (subscribers.length) {
    rows.push(few([...sessions.keys()].sort(natural).map(name => ({name, what: `pushes to ${sessions.get(name)}${more ? ' or more' : ''}`})), false),
      few(subscribers.map(({row, node}) => ({name: row.client, what: row.version ? `has version ${row.version}` : 'has no list yet', of: node})), more));
  }
  const width = Math.max(240, svg.clientWidth || 240);
  const now = JSON.stringify([width, rows]);
  if (svg.drawn === now) return;
  svg.drawn = now;
  svg.replaceChildren();
  for (const a of ['viewBox', 'height']) set(svg, a, {viewBox: `0 0 ${width} ${rows.length * (high + gap)}`, height: rows.length * (high + gap)}[a]);
  rows.forEach((boxes, i) => {
    const wide = Math.min(260, (width - 2 - beside * (boxes.length - 1)) / boxes.length), left = (width - boxes.length * (wide + beside) + beside) / 2;
    boxes.forEach((b, j) => Object.assign(b, {x: left + j * (wide + beside), y: i * (high + gap) + 1, wide}));
    const line = (a, b, weak) => svg.append(el('path', {class: weak ? 'weak' : null, d: `M${a.x + a.wide / 2} ${a.y + high}L${b.x + b.wide / 2} ${b.y}`}));
    for (const b of boxes) {
      if (b.side) svg.append(el('path', {class: 'weak', d: `M${boxes[0].x + boxes[0].wide} ${boxes[0].y + high / 2}H${b.x}`}));
      else for (const a of rows[i - 1] || []) if (!a.side && (!b.of || b.of === a.name)) line(a, b, a.weak);
    }
  });
  for (const b of rows.flat()) svg.append(box(b));
  const say = rows.map(boxes => boxes.map(b => b.name + (b.what ? ` (${b.what})` : '')).join(', '));
  set(svg, 'aria-label', say.length ? `The way of a value: ${say.join('; then ')}` : 'the way of a value');
}

/** box returns a box with a name and a word for it, cut to its width. */
function box({x, y, wide, name, what = '', side}) {
  const cut = (s, each) => s.length * each > wide - 8 ? s.slice(0, Math.max(1, Math.floor((wide - 8) / each) - 1)) + '…' : s;
  const g = el('g', {class: side ? 'side' : null}, el('title'), el('rect', {x, y, width: wide, height: high, rx: 5}),
    el('text', {x: x + wide / 2, y: y + (what ? 16 : 23), class: 'name'}, cut(name, 7)), el('text', {x: x + wide / 2, y: y + 31}, cut(what, 5.6)));
  text(g.firstChild, `${name} ${what}`.trim());
  return g;
}
