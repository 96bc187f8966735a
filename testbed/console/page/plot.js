// How long a publication takes to its subscribers, over the last two minutes.
import {$, draw, keyed, set, text} from './dom.js';

const height = 210, bottom = 16, left = 44, seconds = 120;
const grids = new Map(), lost = new Map();
let width = 400, state, grid, p50, p99, bad, from;

export function init(s) {
  state = s;
  const svg = $('plot');
  grid = draw('g'); bad = draw('g'); p99 = draw('polyline', {class: 'p99'}); p50 = draw('polyline', {class: 'p50'});
  from = draw('text', {x: left, y: height - 3});
  svg.append(grid, bad, p99, p50, from, draw('text', {class: 'to', 'text-anchor': 'end', y: height - 3}, 'now'));
  set(svg, 'height', height);
  new ResizeObserver(() => { width = svg.clientWidth || 400; set(svg, 'viewBox', `0 0 ${width} ${height}`); set(svg.querySelector('.to'), 'x', width); render(); }).observe(svg);
}

export function show(s, changed, all) {
  if (changed.has('load') || all) {
    text($('updates'), s.load?.updates ?? '-');
    text($('pushes'), s.load?.pushes ?? '-');
    text($('level'), s.load ? `level ${s.load.level}, ${s.load.clients} clients` : '-');
  }
  if (changed.has('points') || all) render();
}

function render() {
  const all = Object.values(state.points).sort((a, b) => a.at - b.at);
  const last = all.at(-1);
  text($('p50'), last?.p50 ? last.p50 + ' ms' : '-');
  text($('p99'), last?.p99 ? last.p99 + ' ms' : '-');
  if (!last) {
    for (const l of [p50, p99]) set(l, 'points', '');
    keyed(bad, [], null, null, lost);
    return;
  }
  // A logarithmic scale: a failover is a thousand times a push.
  const most = Math.max(100, ...all.map(p => p.p99)), least = 1;
  const y = ms => 6 + (height - bottom - 6) * (1 - Math.log(Math.max(least, ms) / least) / Math.log(most / least));
  const x = at => left + (width - left) * (1 - (last.at - at) / 1000 / seconds);
  const line = of => all.filter(p => p[of] > 0 && x(p.at) >= left).map(p => `${x(p.at).toFixed(1)},${y(p[of]).toFixed(1)}`).join(' ');
  set(p50, 'points', line('p50'));
  set(p99, 'points', line('p99'));
  text(from, `${seconds} s ago`);
  const steps = [1, 10, 100, 1000, 10000].filter(v => v <= most * 1.01).map(String);
  keyed(grid, steps, () => draw('g', {}, draw('line', {class: 'grid', x1: left}), draw('text', {x: left - 5, 'text-anchor': 'end'})), (g, v) => {
    set(g.children[0], 'x2', width); set(g.children[0], 'y1', y(v).toFixed(1)); set(g.children[0], 'y2', y(v).toFixed(1));
    text(g.children[1], v < 1000 ? v + ' ms' : v / 1000 + ' s'); set(g.children[1], 'y', (y(v) + 4).toFixed(1));
  }, grids);
  keyed(bad, all.filter(p => p.missing).map(p => String(p.at)), () => draw('rect', {class: 'lost', y: 0, width: 3, height: 6}), (r, at) => set(r, 'x', x(Number(at)).toFixed(1)), lost);
}
