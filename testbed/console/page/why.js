// Why: what led to an event, a message or a violation, as far as the source knows it.
import {$, hide, make, text} from './dom.js';
import {send} from './actions.js';
import {get, post} from './transport.js';

let state, source = '';

export function init(s) {
  state = s;
  $('why-ask').addEventListener('click', () => ask(''));
  document.addEventListener('keydown', e => {
    if (e.key === 'w' && state.why && !e.repeat && !e.ctrlKey && !e.altKey && !e.metaKey && !/^(INPUT|SELECT)$/.test(e.target.tagName)) ask('');
  });
}

export function show(s) {
  hide($('why'), !s.why);
  if (s.title !== source) { source = s.title; $('why-links').replaceChildren(); }
}

/** ask shows what led to a message, by its id, or, '', to the violation or what was last. */
export async function ask(of) {
  const answer = await post('v1/why', {do: 'why', value: of});
  const start = state.mode === 'recording' ? '' : (await get('v1/pace')).start; // the address may lack the newest act
  text($('why-says'), answer.error ? answer.error.message : 'The newest first: what happened before, chosen by a rule (journal.Why); no proof.');
  $('why-links').replaceChildren(...(answer.links || []).map(l => make('li', {}, link(l, start), ` ${l.what}`)));
  $('why').scrollIntoView({block: 'nearest'});
}

/** link leads to the moment of a link: in a recording it is shown; of a living cluster another page opens, which plays its start until then. */
function link(l, start) {
  const at = `${(l.at / 1e9).toFixed(6)} s`;
  if (state.mode !== 'recording') return make('a', {href: '#living=' + moment(start, l.at), target: '_blank'}, at);
  const b = make('button', {type: 'button'}, at);
  b.addEventListener('click', () => send({do: 'seek', value: `${l.at / 1e6}/${l.record < 0 ? '' : l.record + 1}`}));
  return b;
}

/** moment returns a start (testbed/playground/start.go) with what was done until a time, in nanoseconds, at which it pauses. */
function moment(start, at) {
  const [seed, ...parts] = start.split('~'), s = Math.ceil(at / 1e3) / 1e6;
  return [seed, ...parts.filter(p => p.includes('*') && parseFloat(p) <= s), s].join('~');
}
