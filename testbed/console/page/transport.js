// Where the page's state comes from, and where its requests go: the console's server, or a worker of this page.
//
// A worker receives {id, path, body} and answers {id, body}; a stream it answers by any number of
// {id, event, body}, until {id, close: true}. The bodies of its answers are JSON. {failed} is why it cannot go on, in a sentence.

/** asked has what waits for the worker, by id: the message, and what is done with the answer. */
const asked = new Map();
let worker = null, broken = '', last = 0;

/** use makes a worker the source instead of the one before; what was asked and not answered, streams too, is asked again. */
export function use(next) {
  worker?.terminate();
  worker = next;
  broken = '';
  const fail = failed => { broken = failed; for (const [id, a] of asked) { if (a.once) asked.delete(id); a.answer({failed}); } };
  worker.onerror = e => { e.preventDefault(); fail(`The worker cannot be started: ${e.message || 'its file cannot be read'}.`); };
  worker.onmessage = ({data}) => {
    if (data.failed) return fail(data.failed);
    const a = asked.get(data.id);
    if (a?.once) asked.delete(data.id);
    a?.answer({...data, body: JSON.parse(data.body)});
  };
  for (const a of asked.values()) worker.postMessage(a.message);
}

function ask(path, body, once, answer) {
  const message = {id: ++last, path, body};
  if (!broken || !once) asked.set(message.id, {message, once, answer});
  if (broken) setTimeout(answer, 0, {failed: broken});
  else worker.postMessage(message);
  return message.id;
}

async function request(method, path, body) {
  const sent = body && JSON.stringify(body);
  try {
    if (worker) return await new Promise(done => ask(path, sent, true, a => done(a.failed ? {error: {message: a.failed}} : a.body)));
    const r = await fetch(path, body && {method, headers: {'Content-Type': 'application/json'}, body: sent});
    return await r.json();
  } catch (e) {
    return {error: {message: String(e)}};
  }
}

/** get returns the answer to a request, or {error: {message}}. */
export const get = path => request('GET', path);

/** post is get for a request with a body. */
export const post = (path, body) => request('POST', path, body);

/** events calls the handlers of a stream's events, by kind, and lost with the reason when it breaks; it connects again by itself. It returns a function that ends it. */
export function events(path, handlers, lost) {
  if (worker) {
    const id = ask(path, undefined, false, a => a.failed ? lost(a.failed) : handlers[a.event]?.(a.body));
    return () => { asked.delete(id); worker.postMessage({id, close: true}); };
  }
  let stream, ended = false;
  const open = () => {
    if (ended) return;
    stream = new EventSource(path);
    for (const [kind, f] of Object.entries(handlers)) stream.addEventListener(kind, e => f(JSON.parse(e.data)));
    stream.addEventListener('error', () => {
      lost('not connected: trying again');
      if (stream.readyState === EventSource.CLOSED) setTimeout(open, 2000);
    });
  };
  open();
  return () => { ended = true; stream.close(); };
}

if (document.documentElement.dataset.worker) use(new Worker(document.documentElement.dataset.worker + location.hash));
