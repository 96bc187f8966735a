// What of the page's state is in its address, behind the "#": the chosen node alone, or name=value&name=value.

function read() {
  const text = location.hash.slice(1);
  try {
    return new URLSearchParams(text.includes('=') || !text ? text : {node: decodeURIComponent(text)});
  } catch {
    return new URLSearchParams(); // a half of an escape
  }
}

let values = read();
addEventListener('hashchange', () => { values = read(); });

/** get returns a value, '' if there is none. */
export const get = name => values.get(name) || '';

/** set replaces values; an empty one is removed. */
export function set(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value) values.set(name, value);
    else values.delete(name);
  }
  const alone = [...values.keys()].join() === 'node' && !get('node').includes('=');
  const text = alone ? encodeURIComponent(get('node')) : String(values);
  history.replaceState(null, '', text ? '#' + text : location.pathname);
}
