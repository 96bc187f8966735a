// The events: one list, the newest first, several of a kind in one row.
import {$, clock, make, text} from './dom.js';

const most = 300, gather = 2000;
let all = [], state;

export function init(s) {
  state = s;
  for (const id of ['f-node', 'f-term', 'f-slot', 'f-kind']) $(id).addEventListener('input', redraw);
}

/** filter returns a function that reports whether an event fits what was entered. */
function filter() {
  const [node, term, slot, kind] = ['f-node', 'f-term', 'f-slot', 'f-kind'].map(id => $(id).value.trim());
  return e => (!node || e.node.includes(node)) && (!term || String(e.term || '') === term) && (!slot || String(e.slot ?? '') === slot) && (!kind || e.kind.includes(kind));
}

export function show(s, changed, first) {
  if (!changed.has('events')) return;
  if (first) {
    all = s.events || [];
    redraw();
    return;
  }
  all = all.concat(s.events).slice(-2000);
  s.events.filter(filter()).forEach(add);
  trim();
}

function redraw() {
  $('event-rows').tBodies[0].replaceChildren();
  all.filter(filter()).forEach(add);
  trim();
}

/** add puts an event on top, or into a row near the top if it is one of many. */
function add(e) {
  const body = $('event-rows').tBodies[0];
  for (let tr = body.firstChild, i = 0; tr && i < 6; tr = tr.nextSibling, i++) {
    const r = tr.run;
    if (r.node === e.node && r.kind === e.kind && r.term === e.term && e.at - r.last < gather) {
      r.count++;
      r.last = e.at;
      text(tr.children[4], `${r.count} times in ${Math.max(0, r.last - r.at)} ms: ${r.first} ... ${e.text}`);
      return;
    }
  }
  const tr = make('tr', {class: 'e-' + e.kind.split('.')[0]}, ...[clock(e.at, state.mode === 'recording'), e.node, e.term ? 'term ' + e.term : '', e.kind, e.text].map(v => make('td', {}, v)));
  tr.run = {node: e.node, kind: e.kind, term: e.term, at: e.at, last: e.at, count: 1, first: e.text};
  body.prepend(tr);
}

function trim() {
  const body = $('event-rows').tBodies[0];
  while (body.children.length > most) body.lastChild.remove();
}
