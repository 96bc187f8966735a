// Services: pages of what is published and subscribed, which the server puts together from those of the nodes, and one service with the way of a value.
import {$, clock, hide, keyed, make, number, set, text} from './dom.js';
import * as address from './address.js';
import {post} from './transport.js';
import {draw as drawWay} from './way.js';

const every = 2000;
const group = ([id, was], what) => id && id !== was ? `, ${what} ${id}` : '';
/** label is a name without the defaults. */
const label = d => d.dataId + group([d.group, 'DEFAULT_GROUP'], 'group') + group([d.instance, 'DEFAULT_INSTANCE_ID'], 'instance');
const key = d => [d.dataId, d.instance, d.group].join('#@#');
/** several is a count with its noun. */
const several = (n, what) => `${n ? number(n) : 'no'} ${what}${n === 1 ? '' : 's'}`;
const named = r => r.row.data || r.row;
const values = r => (r.row.values || []).join(', ') + (r.row.moreValues ? ` and ${number(r.row.moreValues)} more` : '') || 'no value';

/** lists have the columns of each list: the title, the text of a row, and whether it is a number. The first one is a button. */
const lists = {
  services: [['service', r => label(r.row)], ['publishers', r => number(r.row.publishers), true], ['version', r => r.row.version, true], ['slot', r => r.row.slot, true], ['data node', r => r.node]],
  publishers: [['value', values], ['client', r => r.row.client || 'none'], ['address', r => r.row.address || ''], ['session', r => r.node], ['revision', r => r.row.version, true],
    ['stored', r => r.row.withdrawn ? 'withdrawn' : r.row.stored ? 'yes' : 'not yet']],
  subscribers: [['client', r => r.row.client], ['address', r => r.row.address], ['session', r => r.node], ['version', r => r.row.version, true],
    ['list', r => (r.row.version ? several(r.row.values, 'value') : 'none yet') + (r.row.held ? ', a newer one is held back' : '')]],
};

/** pager shows a list page by page. chosen is called with the row of a button, shown after each answer. */
class Pager {
  constructor(root, list, of, chosen, shown = () => {}) {
    Object.assign(this, {root, of, chosen, shown, match: '', asked: 0, rows: [], failed: false});
    this.says = make('p', {role: 'status'});
    this.table = make('table', {}, make('thead'), make('tbody'));
    this.back = make('button', {type: 'button'}, 'page before');
    this.on = make('button', {type: 'button'}, 'next page');
    this.back.addEventListener('click', () => { this.pages.pop(); this.load(); });
    this.on.addEventListener('click', () => { this.pages.push(this.next); this.load(); });
    root.replaceChildren(this.says, make('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': list}, this.table), make('p', {class: 'row-of'}, this.back, this.on));
    this.search(list, '');
  }

  /** search begins at the first page of a list. */
  search(list, match) {
    this.columns = this.of || list === 'services' ? lists[list] : [['service', r => label(named(r))], ...lists[list]];
    Object.assign(this, {list, match, pages: [''], index: new Map()});
    this.table.tHead.replaceChildren(make('tr', {}, ...this.columns.map(([title, , n]) => make('th', {class: n ? 'n' : null, scope: 'col'}, title))));
    this.table.tBodies[0].replaceChildren();
    return this.load();
  }

  async load() {
    const asked = ++this.asked;
    const answer = await post('v1/list', {do: this.list, value: this.match, of: this.of, after: this.pages.at(-1)});
    if (asked !== this.asked) return; // another one was asked for meanwhile
    this.failed = !!answer.error;
    if (!this.failed) [this.rows, this.next] = [answer.rows || [], answer.next];
    const page = this.pages.length, silent = answer.silent?.length ? `; ${answer.silent.join(', ')} did not answer: what is only there is missing` : '';
    text(this.says, this.failed ? answer.error.message : `${several(this.rows.length, this.list.slice(0, -1))}${this.match ? ` with "${this.match}"` : ''}${page > 1 || this.next ? `, page ${page}${this.next ? '' : ', the last'}` : ''}${silent}`);
    hide(this.table.parentElement, this.failed && !this.rows.length);
    hide(this.back.parentElement, page === 1 && !this.next);
    this.back.disabled = page === 1;
    this.on.disabled = !this.next;
    const rows = new Map(this.rows.map(r => [`${key(named(r))} ${r.row.id || ''} ${r.row.connection || ''} ${r.node}`, r]));
    keyed(this.table.tBodies[0], [...rows.keys()], () => this.row(), (tr, k) => {
      tr.is = rows.get(k);
      this.columns.forEach(([, f], i) => text(i ? tr.children[i] : tr.firstChild.firstChild, f(tr.is)));
    }, this.index);
    this.shown(this, answer);
  }

  row() {
    const tr = make('tr', {}, ...this.columns.map(([, , n]) => make('td', {class: n ? 'n' : null})));
    const b = make(this.chosen ? 'button' : 'span', this.chosen ? {type: 'button'} : {});
    if (this.chosen) b.addEventListener('click', () => this.chosen(tr.is));
    tr.firstChild.append(b);
    return tr;
  }
}

let state, main = null, parts = [], open = '', from = null, pushes = [], visible = false, timer = 0, typed = 0;

export function init(s) {
  state = s;
  const again = () => main?.search($('list-of').value, $('list-match').value.trim());
  $('list-of').addEventListener('change', again);
  $('list-match').addEventListener('input', () => { clearTimeout(typed); typed = setTimeout(again, 250); });
  $('service-close').addEventListener('click', () => { close(); $('list-match').focus(); });
  $('service').addEventListener('keydown', e => { if (e.key === 'Escape') $('service-close').click(); });
  new ResizeObserver(way).observe($('way'));
  new IntersectionObserver(([e]) => { visible = e.isIntersecting; tick(); }).observe($('services'));
  document.addEventListener('visibilitychange', tick);
}

export function show(s, changed, all) {
  const none = s.mode === 'recording' || s.why; // nor is a simulated cluster asked: a question would change what happens
  hide($('services'), none);
  if (none) close();
  if (all && main) for (const p of [main, ...parts]) p.failed = false;
  if (all) tick();
  if (changed.has('slots')) way();
}

/** tick asks for what is shown, and again after a while, as long as it is seen and was answered. */
async function tick() {
  clearTimeout(timer);
  timer = 0;
  if (!visible || document.hidden || state.mode !== 'live') return;
  const mine = timer = setTimeout(() => {}, 0);
  if (!main) {
    main = new Pager($('list'), 'services', '', r => choose(key(named(r))));
    if (address.get('service')) choose(address.get('service'));
  } else {
    await Promise.all([main, ...parts].filter(p => !p.failed).map(p => p.load()));
  }
  if (timer === mine) timer = setTimeout(tick, every);
}

/** choose shows one service. */
function choose(name) {
  open = name;
  from = null;
  address.set({service: name});
  const [dataId, instance, group] = name.split('#@#');
  text($('service-name'), label({dataId, instance, group}));
  hide($('service'), false);
  parts = [
    new Pager($('service-publishers'), 'publishers', name, r => { from = r; way(); }, p => { from = p.rows.find(r => r.row.id === from?.row.id) || p.rows[0]; way(); }),
    new Pager($('service-subscribers'), 'subscribers', name, null, (p, answer) => { pushes = answer.pushes || []; pushed(); way(); }),
  ];
  $('service').scrollIntoView({block: 'nearest'});
  $('service-close').focus({preventScroll: true});
}

function close() {
  [open, parts, pushes] = ['', [], []];
  hide($('service'), true);
  if (address.get('service')) address.set({service: ''});
}

const index = new Map();
/** pushed shows the last pushes, the newest first. */
function pushed() {
  const rows = new Map(pushes.map(p => [`${p.session} ${p.version} ${p.atMs}`, p]));
  keyed($('service-pushes').tBodies[0], [...rows.keys()], () => make('tr', {}, ...['', '', 'n', 'n', 'n'].map(c => make('td', {class: c || null}))), (tr, k) => {
    const p = rows.get(k);
    [clock(p.atMs), p.session, p.version, number(p.values), number(p.subscribers)].forEach((v, i) => text(tr.children[i], v));
  }, index);
  text($('service-pushes-says'), pushes.length ? '' : 'No session remembers a push under this name.');
}

/** way shows how a value gets from its client to the subscribers. */
function way() {
  if (open && from) for (const tr of parts[0].table.tBodies[0].rows) set(tr.firstChild.firstChild, 'aria-pressed', tr.is === from);
  hide($('way'), !open || !from && !parts[1]?.rows.length);
  if (open) drawWay($('way'), state, from, parts[1]?.rows || [], !!parts[1]?.next);
}
