// What of the page's state is in its address, behind the "#": the chosen node alone, or name=value&name=value.

function read() {
  const text = location.hash.slice(1);
  try {
    return new URLSearchParams(text.includes('=') || !text ? text : {node: decodeURIComponent(text)});
  } catch {
    return new URLSearchParams(); // a half of an escape
  }
}

/** get returns a value, '' if there is none. */
export const get = name => read().get(name) || '';

/** set replaces values; an empty one is removed. It leaves what a reader has just changed, of which the page hears later. */
export function set(changes) {
  const values = read();
  for (const [name, value] of Object.entries(changes)) {
    if (value) values.set(name, value);
    else values.delete(name);
  }
  const node = values.get('node'), alone = [...values.keys()].join() === 'node' && !node.includes('=');
  const text = alone ? encodeURIComponent(node) : String(values);
  history.replaceState(null, '', text ? '#' + text : location.pathname);
}
