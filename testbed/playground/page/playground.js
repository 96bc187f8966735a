// The recordings of the playground: which one is shown and at which moment, in the page and in its address.
import {$, text} from './dom.js';
import * as address from './address.js';
import * as living from './living.js';
import {parts} from './main.js';
import {post} from './transport.js';

let shown = '', position = {}, opening = null, again = false, timer = 0;

/** load shows the recording of the address: at its moment, or else from its beginning. It returns what went wrong. */
async function load() {
  const options = [...$('recording').options], option = options.find(o => o.value === address.get('recording')) || options[0];
  const moment = address.get('at');
  $('recording').value = option.value;
  text($('recording-about'), option.dataset.about);
  if (shown !== option.value) {
    const r = await fetch(`recordings/${option.value}.rec`);
    if (!r.ok) return `${option.value}: the host answers ${r.status}`;
    const answer = await post('v1/recording', await r.arrayBuffer());
    if (answer.error) return answer.error.message;
    shown = option.value;
  }
  const steps = moment ? [{do: 'pause'}, {do: 'seek', value: `${1000 * moment}/${address.get('record')}`}] : [{do: 'seek', value: '0'}, {do: 'play'}];
  for (const step of steps) {
    const answer = await post('v1/act', step);
    if (answer.error) return answer.error.message;
  }
  return '';
}

/** open is load, one at a time; what was chosen meanwhile is shown after it. It returns what went wrong. */
function open() {
  again = true;
  return opening ||= (async () => {
    let error = '';
    while (again) {
      again = false;
      text($('recording-says'), error = await load().catch(e => `The recording cannot be loaded: ${e.message}`));
    }
    opening = null;
    return error;
  })();
}

/** choose plays a recording from its beginning, '' the first, in place of a cluster too. It returns what went wrong. */
export function choose(recording) {
  if (living.leave()) shown = '';
  address.set({recording, at: '', record: ''});
  return open();
}

$('recording').addEventListener('change', () => choose($('recording').value));
living.otherwise(() => choose(''));
addEventListener('hashchange', () => { if (address.get('recording') && !living.running) open(); });

/** The address follows the position, not more often than browsers permit. */
parts.push({show(s, changed) {
  if (opening || living.running || !shown || !s.playback || !changed.has('playback')) return;
  position = {at: String(Number((s.playback.atMs / 1000).toFixed(9))), record: String(s.playback.record)};
  timer ||= setTimeout(() => { timer = 0; if (!opening && !living.running) address.set({recording: shown, ...position}); }, 500);
}});

if (!living.running) open();
