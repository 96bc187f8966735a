// What a viewer can do: each action says what it will do before, and what came of it.
import {$, clock, hide, keyed, make, natural, set, span, text} from './dom.js';
import * as address from './address.js';
import {get, post} from './transport.js';

const outcomes = new Map();
let state, may = false, node = address.get('node'), pending = null, drawn = '', drawnCluster = '', said = null;

export const chosen = () => node;

/** start asks whether this viewer may act. */
export function start(s) {
  state = s;
  rights();
  $('confirm-no').addEventListener('click', () => $('confirm').close());
  $('confirm-do').addEventListener('click', async () => {
    $('confirm').close();
    const error = await post('v1/act', pending);
    if (error.error) text($('may'), error.error.message);
  });
}

/** rights asks whether this viewer may act on what is shown, and returns the answer. */
export const rights = () => get('v1/rights').then(r => { may = r.act; drawn = ''; draw(); return r; });

/** choose selects a node of the map. */
export function choose(name) {
  const before = node;
  node = node === name ? '' : name;
  address.set({node});
  for (const n of [before, name]) {
    const el = document.querySelector(`[data-node="${CSS.escape(n)}"]`);
    if (el) set(el, 'aria-pressed', n === node);
  }
  drawn = '';
  draw();
}

/** ask shows what a request would do, and does it if the viewer agrees. */
export async function ask(label, request) {
  pending = request;
  text($('confirm-title'), label);
  text($('confirm-says'), 'asking what it would do');
  $('confirm-do').disabled = true;
  $('confirm').showModal();
  const answer = await post('v1/explain', request);
  if (pending !== request) return; // another one was asked for meanwhile
  text($('confirm-says'), answer.error ? answer.error.message : answer.says);
  $('confirm-do').disabled = !!answer.error;
  if (!answer.error) $('confirm-do').focus();
}

/** send does a request that needs no question. */
export const send = request => post('v1/act', request);

/** fits reports whether an action makes sense in the node's state. */
function fits(o, n) {
  const down = ['killed', 'exited'].includes(n.state), frozen = n.state === 'suspended';
  switch (o.do) {
    case 'start': return down;
    case 'thaw': return frozen;
    case 'kill': return !down;
    case 'terminate': case 'freeze': return !down && !frozen;
    case 'restore': return !!n.listed;
    case 'drain': return !n.listed && !down;
    case 'resign': return !!n.leads;
    case 'observe': return !n.observer && !down && !frozen;
    case 'join': return !!n.observer;
    case 'cut': case 'mend': return true;
  }
  return true;
}

export function show(s, changed, all) {
  if (['offers', 'nodes', 'scenarios', 'links'].some(k => changed.has(k)) || all) draw();
  if (changed.has('outcomes') || all) results();
}

function draw() {
  if (!state) return;
  const offers = state.offers || [], n = state.nodes[node];
  const words = state.mode === 'recording' ? 'A recording: nothing can be done to it.'
    : !offers.length ? 'This console only watches.'
    : !may ? 'You watch. To act, open the one-time link that the console has printed.'
    : n ? '' : 'Choose a node of the map.';
  const shown = may && n ? offers.filter(o => o.roles?.includes(n.role) && fits(o, n)) : [];
  const peers = Object.keys(state.nodes).filter(k => k !== node && shown.every(o => !o.with || o.with.includes(state.nodes[k].role))).sort(natural);
  if (words !== said) text($('may'), said = words); // an error stays until then
  cluster(may ? offers.filter(o => !o.roles?.length) : []);
  const key = JSON.stringify([node, !!n, shown.map(o => o.do), peers, may]);
  if (key === drawn) return;
  drawn = key;
  const box = $('node-actions');
  const focus = box.contains(document.activeElement) ? document.activeElement.dataset.do || 'peer' : '', chose = box.querySelector('select')?.value;
  box.replaceChildren();
  if (n && may) box.append(make('p', {}, make('b', {}, node)));
  const peer = make('select', {'aria-label': 'the other node'}, ...peers.map(p => make('option', {}, p)));
  for (const o of shown.filter(o => !o.peer)) box.append(button(o, () => ({do: o.do, node}), `${o.label} ${node}`));
  const between = shown.filter(o => o.peer);
  for (const o of between) box.append(button(o, () => ({do: o.do, node, peer: peer.value}), `${o.label} ${node}`));
  if (between.length) box.append(peer);
  if (peers.includes(chose)) peer.value = chose;
  if (focus) (focus === 'peer' ? peer : box.querySelector(`[data-do=${focus}]`))?.focus();
}

function button(o, request, title) {
  const b = make('button', {type: 'button', class: o.risk, title: o.says, 'data-do': o.do}, o.label);
  b.addEventListener('click', () => ask(title, request()));
  return b;
}

function cluster(offers) {
  const key = JSON.stringify([offers, state.scenarios]);
  if (key === drawnCluster) return; // what was entered stays
  drawnCluster = key;
  const box = $('cluster-actions');
  box.replaceChildren();
  if (!offers.length) return;
  const of = name => offers.find(o => o.do === name);
  box.append(make('p', {}, make('b', {}, 'The cluster')));
  for (const name of ['heal', 'load-up', 'load-down']) {
    const o = of(name);
    if (o) box.append(button(o, () => ({do: name}), o.label));
  }
  if (of('scenario') && state.scenarios?.length) {
    const names = make('select', {id: 'scenario', 'aria-label': 'scenario'}, ...state.scenarios.map(s => make('option', {}, s)));
    const seed = make('input', {id: 'seed', size: 4, value: '1', inputmode: 'numeric', 'aria-label': 'seed of the storm'});
    box.append(make('p'), names, button(of('scenario'), () => ({do: 'scenario', value: names.value}), 'Play a scenario'),
      seed, button(of('storm'), () => ({do: 'storm', value: seed.value}), 'Play a storm'), button(of('scenario-stop'), () => ({do: 'scenario-stop'}), 'Stop the scenario'));
  }
}

function results() {
  const ids = Object.keys(state.outcomes).sort().reverse();
  if (ids.length) $('outcomes').querySelector('.none')?.remove();
  keyed($('outcomes'), ids, id => make('li', {'data-outcome': id}, make('b'), make('span')), (li, id) => {
    const o = state.outcomes[id];
    set(li, 'class', o.state.split(' ')[0]);
    text(li.children[0], `${clock(o.at).slice(0, 8)} ${o.what}`);
    const parts = [];
    if (o.error) parts.push(o.error);
    if (o.leaderlessMs >= 0 && !o.error) parts.push(`${o.term ? `term ${o.term}, ` : ''}leaderless for ${span(o.leaderlessMs)}`);
    if (o.slots > 0) parts.push(`${o.slots} slots moved, each unreadable for ${span(o.unreadableMs)} at most`);
    else if (!o.slots && !o.error && o.state !== 'doing') parts.push('every slot stayed readable');
    if (!o.error) parts.push(`missing ${o.missing}`);
    parts.push(o.state === 'settled' ? `at rest after ${span(o.settledMs || 0)}` : o.state);
    text(li.children[1], parts.join('; '));
  }, outcomes);
}
