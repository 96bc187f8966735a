// The guided tour: each step says what to look at, does it, and says what was seen.
import {$, clock, hide, make, set, text} from './dom.js';
import * as address from './address.js';
import {parts} from './main.js';
import * as source from './playground.js';
import {post} from './transport.js';

/** late is a cluster in which a leader's write is late and asks nobody, see testbed/playground/world.go. */
const late = '1~6*without***write~8*hold*leader*landing~8*kill*data-1~13*isolate*leader~13*hold*meta-1*writing~13*hold*meta-2*writing~13*hold*meta-3*writing~20*heal~24';

/** first is a node of a role that is not drained. */
const first = (s, role) => Object.keys(s.nodes).filter(n => s.nodes[n].role === role && !s.nodes[n].listed).sort()[0];
/** steps have a recording, and the second of it at which the step was seen, where it stops; and what is done to the living cluster, or its start. */
const steps = [
  {recording: 'leader-killed', stops: 'election', act: s => ({do: 'resign', node: s.leader})},
  {recording: 'leader-killed', seen: 4, act: s => ({do: 'kill', node: s.leader})},
  {recording: 'leader-frozen', seen: 12, act: s => ({do: 'freeze', node: s.leader}), then: 'thaw'},
  {recording: 'power-cut', seen: 8, act: s => ({do: 'kill', node: first(s, 'session')})},
  {recording: 'drain', seen: 4, act: s => ({do: 'drain', node: first(s, 'data')})},
  {act: () => ({do: 'storm', value: $('tour-seed').value.replace(/^0+(?=\d)/, '')})},
  {recording: 'guard-out', stops: 'violation', start: late},
];
const pages = [...document.querySelectorAll('#tour article')], waiting = new Set();
let state, at = 0, turn = 0, fast = false;

/** waits returns what waits for a state in this turn: for ever if the reader goes to another step, or chooses another source. */
const waits = turn => seen => new Promise(done => waiting.add({turn, seen, done}));

parts.push({show(s) {
  state = s;
  for (const w of waiting) {
    if (w.turn === turn && !w.seen(s)) continue;
    waiting.delete(w);
    if (w.turn === turn) w.done();
  }
}});

/** go shows a step; 0: none. */
function go(n) {
  at = n;
  turn++;
  hide($('tour-steps'), !n);
  text($('tour-toggle'), n ? 'Close' : 'Take the tour');
  if (!n) return;
  for (const p of pages) hide(p, p.dataset.step !== String(n));
  hide(pages[n - 1].querySelector('.saw'), true);
  for (const a of $('tour-at').children) set(a, 'aria-current', a.textContent === String(n) ? 'step' : null);
  $('tour-back').disabled = n === 1;
  $('tour-next').disabled = n === steps.length;
  hide($('tour-play'), !steps[n - 1].recording);
  label();
}

/** label shows the way that is at hand, and offers the other. */
function label() {
  const {recording} = steps[at - 1], offer = source.living ? '' : ' in a living cluster';
  text($('tour-do'), pages[at - 1].dataset.do + offer);
  set($('tour-play'), 'class', offer ? 'go' : null);
  set($('tour-do'), 'class', offer && recording ? null : 'go');
  text($('tour-says'), offer && `${recording ? 'A recording shows it.' : 'There is no recording of this.'} A living cluster can run in this page, to try it: some 9 MB are loaded for it, once.`);
}

/** visit goes to a step and keeps it in the address, so that it is there again after a reload. If a reader has asked for it, its heading has the focus, and a screen reader begins there. */
function visit(n, asked = true) {
  address.set({tour: n ? String(n) : ''});
  go(n);
  if (asked) pages[n - 1]?.querySelector('h3').focus();
}

/** show takes the reader to what happens, or back, where the window has no room for both. */
const show = el => { if (matchMedia('(max-width: 1099px)').matches) el.scrollIntoView(); };

/** step does what f does, and then says what was seen. */
async function step(f) {
  const mine = ++turn, page = pages[at - 1];
  hide(page.querySelector('.saw'), true);
  text($('tour-says'), 'Watch.');
  show(document.querySelector('main'));
  const error = await f(steps[at - 1], waits(mine));
  if (mine !== turn) return;
  label();
  hide(page.querySelector('.saw'), !!error);
  const play = state.play?.name.startsWith('storm') ? `${state.play.name} ${state.play.state}. ` : '';
  const fact = id => $(id).textContent;
  text($('tour-says'), error || `${play}At ${clock(state.now, state.mode === 'recording')}: ${fact('leader')} leads term ${fact('term')}; ${fact('missing') === '-' ? '' : `missing: ${fact('missing')}; `}${fact('checks')} checks, ${fact('broken')} broken.`);
  show($('tour'));
}

async function play({recording, seen, stops}, until) {
  const error = await source.choose(recording);
  if (error) return error;
  const at = s => s.title === `recording of ${recording}` && s.playback ? s.playback.atMs / 1000 : NaN;
  await until(s => at(s) < 2 && !s.playback.paused);
  if (!stops) await until(s => at(s) >= seen);
  for (const request of stops ? [{do: 'seek', value: '1000'}, {do: 'next', value: stops}] : [{do: 'pause'}, {do: 'seek', value: String(1000 * seen)}]) {
    const answer = await post('v1/act', request);
    if (answer.error) return answer.error.message;
  }
  const stands = s => s.playback.paused && (stops || at(s) === seen);
  if (!stands(state)) await until(stands);
}

/** act does a step to the living cluster, after what was broken before is healed. */
async function act({act, then, start}, until) {
  const fresh = start || !source.living || source.guardless() || state.broken, error = fresh && await source.begin(start || $('living-seed').value);
  if (error) return error;
  if (start) return await until(s => s.broken);
  await source.move(fast ? {paused: false, speed: 1} : {paused: false});
  fast = false;
  await until(s => s.mode === 'live' && s.leader && s.load);
  const whole = s => s.load.missing === 0 && s.nodes[s.leader] && Object.values(s.nodes).every(n => n.state === 'ready');
  if (state.play?.state === 'playing') await post('v1/act', {do: 'scenario-stop'});
  if (!whole(state)) {
    text($('tour-says'), 'The cluster begins, or heals.');
    if (Object.values(state.nodes).some(n => ['killed', 'exited', 'suspended'].includes(n.state))) await post('v1/act', {do: 'heal'});
    await until(whole);
  }
  text($('tour-says'), 'Watch; it is over when the cluster is at rest again.');
  const request = act(state), term = state.term, before = Object.keys(state.outcomes), storm = request.do === 'storm';
  if (storm) { fast = true; await source.move({speed: 0}); }
  let answer = await post('v1/act', request);
  if (then && !answer.error) {
    await until(s => s.term > term && s.leader !== request.node);
    answer = await post('v1/act', {do: then, node: request.node});
  }
  if (answer.error) return answer.error.message;
  const ended = (s, o) => !before.includes(o) && s.outcomes[o].what.startsWith(then || request.do) && !['doing', 'watching'].includes(s.outcomes[o].state);
  if (storm) await until(s => s.play?.name === `storm-${request.value}` && ['starting', 'playing'].includes(s.play.state));
  await until(s => s.broken || (storm ? !['starting', 'playing'].includes(s.play.state) : Object.keys(s.outcomes).some(o => ended(s, o))));
  if (storm) await source.move({speed: 1});
}

for (const p of pages) p.querySelector('h3').tabIndex = -1;
$('tour-at').append(...steps.map((_, i) => make('a', {href: `#tour=${i + 1}`, 'aria-label': `step ${i + 1}`}, String(i + 1))));
$('tour-at').addEventListener('click', e => { if (e.target.href) { e.preventDefault(); visit(Number(e.target.textContent)); } });
$('tour-toggle').addEventListener('click', () => visit(at ? 0 : 1));
$('tour-back').addEventListener('click', () => visit(at - 1));
$('tour-next').addEventListener('click', () => visit(at + 1));
$('tour-play').addEventListener('click', () => step(play));
$('tour-do').addEventListener('click', () => step(act));
const linked = () => { const n = Number(address.get('tour')); return steps[n - 1] ? n : 0; };
// Another source: what a step waits for does not come any more.
const restart = () => { if (at) go(at); };
$('recording').addEventListener('change', restart);
$('living-start').addEventListener('click', restart);
addEventListener('hashchange', () => { if (linked() !== at) go(linked()); });
if (location.hash.length > 1) go(linked()); else visit(1, false);
