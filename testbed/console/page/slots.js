// The slots: a cell for each, coloured and numbered by its leader, marked by its phase.
import {$, clock, keyed, make, natural, set, text} from './dom.js';

const cells = new Map(), keys = new Map();
let state, at = null, owners = [];

export function init(s) {
  state = s;
  const grid = $('slots');
  grid.addEventListener('click', e => select(e.target.dataset?.slot));
  grid.addEventListener('keydown', e => {
    const columns = getComputedStyle(grid).gridTemplateColumns.split(' ').length;
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -1e6, End: 1e6}[e.key];
    if (!step) return;
    e.preventDefault();
    const last = cells.size - 1;
    select(String(Math.max(0, Math.min(last, Number(at ?? 0) + step))), true);
  });
}

function select(id, focus = false) {
  if (id === undefined || !cells.has(id)) return;
  if (at !== null) set(cells.get(at), 'aria-selected', 'false'), set(cells.get(at), 'tabindex', -1);
  at = id;
  set(cells.get(id), 'aria-selected', 'true');
  set(cells.get(id), 'tabindex', 0);
  if (focus) cells.get(id).focus();
  selected();
}

/** short is what is written in a cell: the number of its leader. */
const short = name => (/(\d+)$/.exec(name) || [, '?'])[1];

export function show(s, changed, all, change) {
  if (!changed.has('slots') && !all) return;
  const ids = Object.keys(s.slots); // in order, as all integer keys are
  let redraw = all;
  const leaders = [...new Set([...Object.keys(s.nodes).filter(n => s.nodes[n].role === 'data'), ...Object.values(s.slots).map(x => x.leader)])].filter(Boolean).sort(natural);
  if (String(leaders) !== String(owners)) {
    owners = leaders;
    redraw = true;
    keyed($('slots-key'), owners, n => make('span', {}, make('i', {class: 'o' + owners.indexOf(n) % 9}, short(n)), ` \u2002${n}`), () => {}, keys);
  }
  if (ids.length !== cells.size) {
    redraw = true;
    keyed($('slots'), ids, id => make('i', {role: 'gridcell', 'data-slot': id, tabindex: id === '0' ? 0 : -1, 'aria-selected': 'false'}), () => {}, cells);
  }
  const moving = ids.filter(id => s.slots[id].phase !== 'stable').length;
  for (const id of redraw ? ids : Object.keys(change.slots || {})) {
    const x = s.slots[id], cell = cells.get(id);
    if (!x) continue;
    set(cell, 'class', `o${owners.indexOf(x.leader) % 9}${x.phase === 'stable' ? '' : ' ' + x.phase}`);
    text(cell, x.phase === 'crash' ? '×' : short(x.leader));
    set(cell, 'aria-label', `slot ${id}, ${x.leader || 'no leader'}, ${x.phase}`);
  }
  text($('slots-sum'), `${ids.length} slots, ${moving ? moving + ' moving' : 'stable'}, table ${s.epoch || ''}${s.protected ? ', protected: ' + s.protected : ''}`);
  selected();
}

function selected() {
  const x = state.slots[at];
  if (!x) return;
  const moves = (x.moves || []).map(m => `${clock(m.at, state.mode === 'recording')} ${m.from || 'none'} to ${m.to}`).join('; ');
  text($('slot'), `Slot ${at}: led by ${x.leader} at epoch ${x.epoch}, followed by ${(x.followers || []).join(', ') || 'none'}, ${x.phase}` +
    `${x.to ? ', goes to ' + x.to : ''}${x.from ? ', comes from ' + x.from : ''}. Last moves: ${moves || 'none since this page is served'}.`);
}
