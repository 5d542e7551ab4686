// Follows the scheduler: asks once a second, updates only the parts that changed, and shows failures.
// No library and no build step. Text from outside only ever becomes textContent.
'use strict';

const SECOND = 1000;
const STALE_SECONDS = 10;
const PATIENCE_SECONDS = 5; // for one answer: a scheduler that hangs must not look healthy
const PAGE_ROWS = 100;
const ROWS_ONCE = 500; // the most rows of one answer
const ROWS_MAX = 5000; // then the list begins anew
const ASKED_ONCE = 20; // kept transfers that are fetched one by one in a round

const state = {
  paused: false,
  filter: '', // '' or a state of the API; the page's address has it, and the open transfer
  tenant: '', // '' or the one that is shown; the address has it too
  open: null,
  failedSince: 0,
  signedOut: true, // until the scheduler has said otherwise
  inProgress: false,
  listed: [], // the newest page
  kept: [], // after "Older": all rows from the newest to the oldest that were fetched
  next: null, // the cursor of the next older page
  turn: 0, // the next of the kept transfers to fetch
  loading: false,
  rails: new Map(), // "agent/rail" → {bytes, seen, rate}
};

const $ = (id) => document.getElementById(id);

// ---- small helpers ----

function make(tag, attributes = {}, ...children) {
  const element = tag === 'svg' || SVG_TAGS.has(tag)
    ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const SVG_TAGS = new Set(['use', 'path', 'line', 'text', 'g', 'rect', 'title']);

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// Keeps one child for each key, in order. Unchanged children stay, so focus and selection survive.
function reconcile(parent, items, key, create, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let child = known.get(name);
    known.delete(name);
    if (!child) {
      child = create(item);
      child.dataset.key = name;
    }
    update(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const child of known.values()) child.remove();
}

async function ask(path) {
  const signal = AbortSignal.timeout(PATIENCE_SECONDS * SECOND);
  const answer = await fetch(path, {headers: {Accept: 'application/json'}, cache: 'no-store', signal});
  const body = await answer.json();
  if (!answer.ok) throw failureOf(answer, body);
  return body;
}

function failureOf(answer, body) {
  return Object.assign(new Error(body.error ? body.error.message : `HTTP ${answer.status}`),
    {status: answer.status, code: body.error ? body.error.code : ''});
}

// ---- sign-in ----

// The token is sent once. The cookie that answers is not for scripts; the browser sends it by itself.
async function signIn(token) {
  const answer = await fetch('/api/v1/session', {method: 'POST', cache: 'no-store',
    headers: {Authorization: `Bearer ${token}`}});
  const body = await answer.json();
  if (!answer.ok) throw failureOf(answer, body);
}

async function signOut() {
  await fetch('/api/v1/session', {method: 'DELETE', cache: 'no-store', headers: {'X-Kvrail-Request': '1'}});
  showSignIn('You have signed out.');
}

function showSignIn(why) {
  if (!$('sign-in').hidden && why === '') return;
  state.signedOut = true;
  $('data').hidden = $('sign-out').hidden = true;
  setText($('who'), '');
  setText($('sign-in-why'), why);
  say('', 'not signed in');
  if (!$('sign-in').hidden) return;
  $('sign-in').hidden = false;
  $('token').focus();
}

async function showData() {
  const session = await ask('/api/v1/session');
  state.signedOut = false;
  $('sign-in').hidden = true;
  $('data').hidden = false;
  $('sign-out').hidden = session.via !== 'session';
  setText($('who'), session.name ? `${session.name} may ${session.right === 'act' ? 'read and act' : 'read'}` : '');
}

async function trySignIn(event) {
  event.preventDefault();
  const token = $('token').value.trim();
  $('token').value = '';
  try {
    await signIn(token);
    await showData();
    refresh();
  } catch (error) {
    showSignIn(error.message);
  }
}

// ---- words and numbers ----

const number = (value, digits = 0) =>
  value.toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits});

function significant(value) {
  return number(value, value === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 0.001) return `${number(seconds * 1e6)} µs`;
  if (seconds < 1) return `${significant(seconds * 1000)} ms`;
  if (seconds < 120) return `${significant(seconds)} s`;
  return `${number(seconds / 60)} min`;
}

// A duration that counts up once a second: without tenths.
const wholeSeconds = (seconds) =>
  (seconds < 120 ? `${number(Math.floor(seconds))} s` : `${number(Math.floor(seconds / 60))} min`);

function rateText(bytesPerSecond) {
  if (bytesPerSecond >= 1e9) return [number(bytesPerSecond / 1e9, 2), 'GB/s'];
  if (bytesPerSecond >= 1e6) return [significant(bytesPerSecond / 1e6), 'MB/s'];
  return [significant(bytesPerSecond / 1e3), 'kB/s'];
}

function sizeText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return `${unit === 0 ? bytes : significant(bytes)} ${units[unit]}`;
}

const clock = new Intl.DateTimeFormat([], {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});
const timeText = (time) => (time ? clock.format(new Date(time)) : '–');

// A state's name and shape. The shape means the same as the colour.
const WORDS = {
  opened: ['waiting for peer', 'waiting'], matched: ['matched', 'waiting'],
  granted: ['waiting for prefill', 'waiting'], first_ready: ['prefilling', 'waiting'],
  last_ready: ['sending', 'live'], first_post: ['sending', 'live'], first_land: ['landing', 'live'],
  last_post: ['landing', 'live'], last_land: ['finishing', 'live'], failing: ['failing', 'failed'],
  done: ['done', 'done'], failed: ['failed', 'failed'], cancelled: ['cancelled', 'cancelled'],
  expired: ['expired', 'expired'], lost: ['lost', 'lost'],
  up: ['up', 'up'], stopped: ['stopped', 'stopped'],
};

function stateBadge(name) {
  const [word, shape] = WORDS[name] || [name, 'waiting'];
  return make('span', {class: `state state-${shape}`},
    make('svg', {'aria-hidden': 'true'}, make('use', {href: `#shape-${shape}`})), word);
}

function setBadge(cell, name) {
  if (cell.dataset.state === name) return;
  cell.dataset.state = name;
  cell.replaceChildren(stateBadge(name));
}

// ---- tiles ----

function drawSpark(values) {
  const width = 236, height = 44, top = Math.max(...values, 1);
  const points = values.map((value, i) =>
    `${(i / (values.length - 1) * width).toFixed(1)},${(height - 1 - value / top * (height - 4)).toFixed(1)}`);
  const line = `M${points.join('L')}`;
  const [now, nowUnit] = rateText(values[values.length - 1]);
  const [peak, peakUnit] = rateText(Math.max(...values));
  $('spark').replaceChildren(
    make('path', {class: 'base', d: `M0,${height - 0.5}H${width}`}),
    make('path', {class: 'area', d: `${line}L${width},${height}L0,${height}Z`}),
    make('path', {class: 'stroke', d: line}));
  setAttribute($('spark'), 'aria-label', `Throughput of the last ${values.length} seconds: now ${now} ${nowUnit}, peak ${peak} ${peakUnit}`);
  setText($('rate-note'), `peak ${peak} ${peakUnit} in 60 s`);
}

function showBreakdown(list, entries) {
  reconcile(list, entries.flatMap(([name, count]) => [{tag: 'dt', name}, {tag: 'dd', name, count}]),
    (item) => `${item.tag}-${item.name}`, (item) => make(item.tag),
    (element, item) => (item.tag === 'dt' ? setBadge(element, item.name) : setText(element, number(item.count))));
}

function showSummary(summary) {
  const values = summary.bytes_per_second;
  // The last whole second may be incomplete: reports take a quarter of a second.
  const recent = values.slice(-4, -1);
  const [rate, unit] = rateText(recent.reduce((a, b) => a + b, 0) / recent.length);
  setText($('rate'), rate);
  setText($('rate-unit'), unit);
  drawSpark(values.slice(0, -1));
  const rows = $('latency').tBodies[0].rows;
  [summary.latency.total, summary.latency.wire].forEach((latency, i) => {
    ['p50_seconds', 'p95_seconds', 'p99_seconds'].forEach((name, j) =>
      setText(rows[i].cells[j + 1], duration(latency[name])));
  });
  setText($('latency-note'), `${number(summary.latency.total.count)} done in the last 60 s`);
  setText($('live'), number(summary.states.live));
  showBreakdown($('live-states'), liveGroups(summary.states));
  showBreakdown($('ended-states'), ['done', 'failed', 'cancelled', 'expired', 'lost']
    .map((name) => [name, summary.states[name]]));
  setText($('version'), `scheduler ${summary.version}${summary.insecure ? ' · insecure: agents prove no identity to it' : ''}`);
  showReasons(summary.reasons);
}

function liveGroups(states) {
  const groups = {opened: ['opened', 'matched'], granted: ['granted', 'first_ready'],
    first_post: ['first_post', 'last_ready'], last_post: ['first_land', 'last_post', 'last_land'],
    failing: ['failing']};
  return Object.entries(groups)
    .map(([name, members]) => [name, members.reduce((sum, member) => sum + states[member], 0)])
    .filter(([name, count]) => name !== 'failing' || count > 0);
}

function showReasons(reasons) {
  $('reasons-section').hidden = reasons.length === 0;
  reconcile($('reasons').tBodies[0], reasons, (group) => `${group.state}/${group.reason}`, () => {
    const row = make('tr', {}, make('td'), make('td'), make('td', {class: 'number'}), make('td'),
      make('td'), make('td', {class: 'text'}));
    const link = make('a');
    row.cells[4].append(link);
    link.addEventListener('click', (event) => {
      event.preventDefault();
      state.tenant = ''; // the example may be of another one
      showOnly(row.dataset.state, link.dataset.id);
    });
    return row;
  }, (row, group) => {
    const example = group.example;
    row.dataset.state = group.state;
    setBadge(row.cells[0], group.state);
    setText(row.cells[1], group.text);
    setAttribute(row.cells[1], 'title', group.reason);
    setText(row.cells[2], number(group.count));
    setText(row.cells[3], timeText(group.last));
    if (!example) return;
    const link = row.cells[4].firstChild;
    link.dataset.id = example.id;
    setAttribute(link, 'href', `#state=${group.state}&open=${example.id}`);
    setText(link, example.request || example.id);
    setText(row.cells[5], example.detail || '');
  });
}

// ---- agents ----

// null until two reports have come: the rate is their difference.
function railRate(agent, rail, index) {
  const key = `${agent.name}/${index}`, seen = Date.parse(agent.seen);
  const before = state.rails.get(key) || {bytes: rail.bytes, seen, rate: null, boot: agent.boot};
  let rate = before.rate;
  if (before.boot !== agent.boot || rail.bytes < before.bytes) rate = 0;
  else if (seen > before.seen) rate = (rail.bytes - before.bytes) * 1000 / (seen - before.seen);
  if (agent.state !== 'up') rate = 0;
  state.rails.set(key, {bytes: rail.bytes, seen, rate, boot: agent.boot});
  return rate;
}

function newAgent() {
  return make('article', {class: 'agent'},
    make('header', {}, make('strong'), make('span', {class: 'badge'}), make('span', {class: 'spring'}),
      make('span', {class: 'quiet'})),
    make('p', {class: 'facts'}), make('div', {class: 'lanes'}));
}

// A peer is warm when every pair of rails in use with it has carried a write. Only prefill-agents report it.
function peersText(agent) {
  const {peers_up: up, peers_warm: warm} = agent;
  if (up === 0) return 'no peer';
  const peers = `${number(up)} peer${up === 1 ? '' : 's'}`;
  if (warm === null) return peers;
  return warm < up ? `${peers}, ${number(warm)} warm` : `${peers}, warm`;
}

function showAgent(card, agent, busiest) {
  const [name, badge, , note] = card.firstChild.children;
  setAttribute(card, 'data-state', agent.state);
  setText(name, agent.name);
  setBadge(badge, agent.state);
  setText(note, agent.state === 'up' ? `${number(agent.transfers_live)} live`
    : `silent for ${wholeSeconds(agent.silent_seconds)}`);
  const models = [...new Set(agent.engines.map((engine) => engine.model).filter(Boolean))];
  const memory = agent.engines.reduce((sum, engine) => sum + engine.region_bytes, 0);
  setText(card.children[1], [agent.host, agent.provider,
    `${agent.engines.length} engine${agent.engines.length === 1 ? '' : 's'}${models.length ? ` (${models.join(', ')})` : ''}`,
    memory > 0 ? `${sizeText(memory)} registered` : null,
    agent.state === 'up' ? peersText(agent) : null,
    agent.insecure ? 'insecure: peers prove no identity' : null,
    agent.events_dropped > 0 ? `${number(agent.events_dropped)} events dropped` : null]
    .filter(Boolean).join(' · '));
  setAttribute(card.children[1], 'title', agent.peers_warm === null ? ''
    : 'A peer is warm when every pair of rails in use with it has carried a write: no transfer waits for a connection then.');
  showLanes(card.children[2], agent, busiest);
}

/* The work of the rail's thread; a target posts nothing. */
function railWork(rail) {
  const of = rail.counters;
  return [of.batches > 0 ? `${(rail.writes / of.batches).toFixed(1)} writes a batch, ${number(of.in_flight_writes)} of ${number(of.window_writes)} in flight, refused ${number(of.refusals)} times` : null,
    `its thread has used ${of.thread_cpu_seconds.toFixed(1)} s of CPU, spun ${of.thread_spin_seconds.toFixed(1)} s and slept ${of.thread_sleep_seconds.toFixed(1)} s`]
    .filter(Boolean).join(' · ');
}

function showLanes(lanes, agent, busiest) {
  const cells = agent.rails.flatMap((rail, i) =>
    ['name', 'lane', 'value'].map((kind) => ({kind, rail, i, key: `${kind}${i}`})));
  reconcile(lanes, cells, (cell) => cell.key,
    (cell) => make('span', {class: cell.kind}, cell.kind === 'lane' ? make('i') : null),
    (element, {kind, rail}) => {
      const [value, unit] = rateText(rail.rate ?? 0);
      if (kind === 'name') {
        setText(element, rail.address && rail.address !== rail.name ? `${rail.name} ${rail.address}` : rail.name);
        setAttribute(element, 'title', `${rail.provider} ${rail.address || ''} · group ${rail.group} · epoch ${rail.epoch} · ${number(rail.writes)} writes · ${sizeText(rail.bytes)} · ${railWork(rail)}`);
      } else if (kind === 'lane') {
        const room = rail.speed_bits_per_second ? rail.speed_bits_per_second / 8 : busiest;
        setAttribute(element, 'data-state', rail.state);
        element.firstChild.style.width = `${Math.min(100, rail.rate / room * 100)}%`;
      } else {
        element.classList.toggle('down', rail.state !== 'up');
        setText(element, rail.state !== 'up' ? rail.state : rail.rate === null ? '–' : `${value} ${unit}`);
      }
    });
}

function showAgents(agents) {
  let busiest = 1;
  for (const agent of agents) {
    agent.rails.forEach((rail, i) => {
      rail.rate = railRate(agent, rail, i);
      busiest = Math.max(busiest, rail.rate);
    });
  }
  $('fleet-empty').hidden = agents.length > 0;
  for (const role of ['prefill', 'decode']) {
    const list = $(`fleet-${role}`);
    reconcile(list, agents.filter((agent) => agent.role === role), (agent) => agent.name, newAgent,
      (card, agent) => showAgent(card, agent, busiest));
    list.parentElement.hidden = agents.length === 0;
  }
}

// ---- transfers ----

// The four parts of a transfer in the small bar, from the stages of both sides.
function stageParts(transfer) {
  const at = {};
  for (const moment of transfer.stages) {
    if (at[moment.stage] === undefined || moment.role === 'target') at[moment.stage] = moment.seconds;
  }
  const end = transfer.live ? Math.max(transfer.age_seconds || 0, ...transfer.stages.map((m) => m.seconds))
    : Math.max(0, ...transfer.stages.map((m) => m.seconds));
  const first = (...names) => names.map((name) => at[name]).find((value) => value !== undefined);
  const marks = [['wait', 0], ['prefill', first('matched', 'granted')],
    ['move', first('first_post', 'first_land')], ['finish', first('last_land', 'last_post')]]
    .filter(([, from]) => from !== undefined);
  return marks.map(([name, from], i) => ({name, from,
    seconds: Math.max(0, (i + 1 < marks.length ? marks[i + 1][1] : end) - from)}));
}

const PART_WORDS = {wait: 'wait for peer', prefill: 'wait for prefill', move: 'move', finish: 'finish'};

function showStages(cell, transfer) {
  const parts = stageParts(transfer).filter((part) => part.seconds > 0);
  const label = parts.map((part) => `${PART_WORDS[part.name]} ${duration(part.seconds)}`).join(', ');
  const bar = cell.firstChild;
  setAttribute(bar, 'aria-label', label);
  setAttribute(bar, 'title', label);
  bar.classList.toggle('open', transfer.live);
  reconcile(bar, parts, (part) => part.name, (part) => make('i', {class: `stage-${part.name}`}),
    (element, part) => { element.style.flex = String(Math.max(part.seconds, 1e-6) * 1e6); });
}

function newRow() {
  const row = make('tr', {class: 'row', tabindex: '0', 'aria-expanded': 'false'},
    make('td'), make('td', {}, make('span', {class: 'request'})), make('td'), make('td'),
    make('td', {class: 'number'}), make('td', {class: 'number'}), make('td', {class: 'number'}),
    make('td', {}, make('div', {class: 'stages', role: 'img'})), make('td', {class: 'number'}),
    make('td'), make('td', {}, make('span', {class: 'reason'})));
  row.addEventListener('click', () => toggle(row.dataset.key));
  row.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') toggle(row.dataset.key);
    const other = event.key === 'ArrowDown' || event.key === 'j' ? neighbour(row, 'nextElementSibling')
      : event.key === 'ArrowUp' || event.key === 'k' ? neighbour(row, 'previousElementSibling') : null;
    if (!other) return;
    event.preventDefault();
    other.focus();
  });
  return row;
}

function neighbour(row, direction) {
  let other = row[direction];
  while (other && !other.classList.contains('row')) other = other[direction];
  return other;
}

function showRow(row, transfer) {
  const cells = row.cells, seconds = transfer.live ? transfer.age_seconds : transfer.duration_seconds;
  setBadge(cells[0], transfer.state);
  setText(cells[1].firstChild, transfer.request || transfer.id);
  setAttribute(cells[1].firstChild, 'title', `${transfer.request || ''} ${transfer.attempt > 1 ? `attempt ${transfer.attempt} ` : ''}(${transfer.id})`);
  setText(cells[2], transfer.tenant || '–');
  setText(cells[3], `${transfer.source.agent || '?'} → ${transfer.target.agent || '?'}`);
  setText(cells[4], transfer.tokens > 0 ? number(transfer.tokens - transfer.skip_tokens) : '–');
  setAttribute(cells[4], 'title', transfer.skip_tokens > 0 ? `of ${number(transfer.tokens)}; ${number(transfer.skip_tokens)} were there` : '');
  setText(cells[5], transfer.bytes > 0 ? number(transfer.bytes / 1048576, 1) : '–');
  setText(cells[6], seconds === null ? '–' : number(seconds * 1000, seconds < 1 ? 1 : 0));
  showStages(cells[7], transfer);
  setText(cells[8], transfer.retries > 0 ? number(transfer.retries) : '–');
  setText(cells[9], timeText(transfer.opened));
  setAttribute(cells[9], 'title', transfer.opened || '');
  setText(cells[10].firstChild, transfer.reason ? transfer.reason_text : '');
  setAttribute(cells[10].firstChild, 'title', transfer.detail || '');
  setAttribute(row, 'aria-expanded', String(state.open === transfer.id));
}

const ofTenant = () => (state.tenant ? ` of the tenant ${state.tenant}` : '');

// The choice is hidden while there is one tenant alone.
function showTenants(agents) {
  const names = agents.flatMap((agent) => (agent.tenants || []).map((tenant) => tenant.name));
  const all = [...new Set(state.tenant ? [...names, state.tenant] : names)].sort();
  $('tenant').hidden = all.length < 2 && !state.tenant;
  reconcile($('tenant'), ['', ...all], (name) => name, (name) => make('option', {value: name}),
    (option, name) => setText(option, name || 'All tenants'));
  $('tenant').value = state.tenant;
}

function showTransfers(transfers) {
  const rows = [];
  for (const transfer of transfers) {
    rows.push({key: transfer.id, transfer});
    if (state.open === transfer.id) rows.push({key: `detail-${transfer.id}`, detail: true});
  }
  $('transfers-empty').hidden = transfers.length > 0;
  setText($('transfers-empty'), state.filter ? `No transfer${ofTenant()} is ${state.filter}.`
    : state.tenant ? `No transfer${ofTenant()} yet.`
    : 'No transfer yet. They appear here as soon as an engine publishes or fetches.');
  $('transfers').parentElement.hidden = transfers.length === 0;
  reconcile($('transfers').tBodies[0], rows, (item) => item.key,
    (item) => (item.detail ? make('tr', {class: 'detail'}, make('td', {colspan: '11'})) : newRow()),
    (row, item) => { if (!item.detail) showRow(row, item.transfer); });
}

// ---- one transfer ----

function timeline(transfer) {
  const width = Math.max(640, $('transfers').parentElement.clientWidth - 34);
  const left = 62, right = width - 12, end = Math.max(...transfer.stages.map((m) => m.seconds), 1e-6);
  const x = (seconds) => left + seconds / end * (right - left);
  const svg = make('svg', {class: 'timeline', viewBox: `0 0 ${width} 176`, role: 'img',
    'aria-label': 'Stages of both sides over time; the table below has the same'});
  [['source', 44], ['target', 132]].forEach(([role, y]) => {
    const moments = transfer.stages.filter((moment) => moment.role === role);
    svg.append(Object.assign(make('text', {class: 'name', x: 0, y: y + 4}), {textContent: role}),
      make('line', {class: 'track', x1: left, x2: right, y1: y, y2: y}));
    const at = Object.fromEntries(moments.map((moment) => [moment.stage, moment.seconds]));
    const spans = role === 'source' ? [['prefill', 'first_ready', 'last_ready'], ['move', 'first_post', 'last_post'], ['finish', 'last_post', 'ended']]
      : [['wait', 'opened', 'matched'], ['prefill', 'granted', 'first_land'], ['move', 'first_land', 'last_land'], ['finish', 'last_land', 'ended']];
    for (const [name, from, to] of spans) {
      if (at[from] === undefined || at[to] === undefined) continue;
      svg.append(make('line', {class: `span stage-${name}`, x1: x(at[from]), x2: Math.max(x(at[to]), x(at[from]) + 1), y1: y, y2: y}));
    }
    drawTicks(svg, moments, x, y, width);
  });
  return svg;
}

// Overlapping labels go above and below in turns, and further out where that is not enough.
function drawTicks(svg, moments, x, y, width) {
  const free = [-Infinity, -Infinity, -Infinity, -Infinity];
  const rows = [y - 12, y + 21, y - 24, y + 33];
  for (const moment of moments) {
    const at = x(moment.seconds), text = `${moment.stage.replace('_', ' ')} ${duration(moment.seconds)}`;
    const length = text.length * 6.4, begin = Math.min(at, width - 4 - length);
    let row = free.findIndex((used) => begin > used + 8);
    svg.append(make('line', {class: 'tick', x1: at, x2: at, y1: y - 6, y2: y + 6}));
    if (row < 0) continue; // no room: the table shows it
    free[row] = begin + length;
    svg.append(Object.assign(make('text', {x: begin, y: rows[row]}), {textContent: text}));
  }
}

function factList(transfer) {
  const rails = (side) => (side.rails.length ? ` over rails ${side.rails.join(', ')}` : '')
    + (side.path ? `, ${side.path}` : '');
  const facts = {
    Id: transfer.id, Tenant: transfer.tenant || '–', Attempt: number(transfer.attempt),
    Source: `${transfer.source.agent || '?'}${rails(transfer.source)}`,
    Target: `${transfer.target.agent || '?'}${rails(transfer.target)}`,
    Tokens: `${number(transfer.tokens)}, ${number(transfer.skip_tokens)} skipped`,
    Bytes: `${sizeText(transfer.bytes)} in ${number(transfer.chunks)} writes`,
    Layers: number(transfer.layers), Retries: number(transfer.retries),
    'Source said': transfer.source.outcome || (transfer.source.lost ? 'nothing: lost' : 'nothing yet'),
    'Target said': transfer.target.outcome || (transfer.target.lost ? 'nothing: lost' : 'nothing yet'),
    Opened: transfer.opened || '–', Ended: transfer.ended || '–',
  };
  return make('dl', {}, ...Object.entries(facts).map(([name, value]) =>
    make('div', {}, make('dt', {}, name), make('dd', {}, value))));
}

function eventTable(events) {
  const rows = events.map((event) => make('tr', {}, make('td', {class: 'number'}, duration(event.seconds)),
    make('td', {}, event.kind.replace('_', ' ')), make('td', {}, event.role), make('td', {}, event.agent),
    make('td', {}, event.outcome === 'ok' ? '' : event.outcome), make('td', {}, event.detail || '')));
  const head = ['After', 'Event', 'Side', 'Agent', 'Reason', 'Said'].map((name) => make('th', {scope: 'col'}, name));
  return make('table', {}, make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...rows));
}

function showDetail(transfer) {
  const row = $('transfers').querySelector(`tr[data-key="detail-${transfer.id}"]`);
  const signature = `${transfer.updated} ${transfer.events.length} ${transfer.state}`;
  if (!row || row.dataset.signature === signature) return;
  const wasOpen = row.querySelector('details')?.open ?? false;
  row.dataset.signature = signature;
  row.cells[0].replaceChildren(...[
    transfer.detail && transfer.reason ? make('p', {class: 'sentence'}, transfer.detail) : '',
    make('div', {class: 'wide'}, timeline(transfer)), factList(transfer),
    make('details', {open: wasOpen}, make('summary', {}, `${transfer.events.length} events`), eventTable(transfer.events)),
  ]);
}

// ---- following ----

function listPath(filter, rows, after) {
  const choice = (filter ? `state=${filter}&` : '') + (state.tenant ? `tenant=${state.tenant}&` : '');
  return `/api/v1/transfers?${choice}limit=${rows}${after ? `&after=${after}` : ''}`;
}

// Whether an answer that was asked for before belongs to the list that is wanted now.
const listWanted = () => `${state.filter}/${state.tenant}`;

const idsOf = (transfers) => new Set(transfers.map((transfer) => transfer.id));

async function loadTransfers() {
  const filter = state.filter, kept = idsOf(state.kept);
  const [live, newest] = await Promise.all([
    filter ? {transfers: []} : ask(listPath('live', kept.size > 0 ? ROWS_ONCE : 50)),
    ask(listPath(filter, PAGE_ROWS))]);
  let {transfers: rows, next} = newest;
  // More than one page is new, as after the tab was hidden: fetch down to a known row.
  while (kept.size > 0 && next && !kept.has(rows[rows.length - 1].id) && rows.length < ROWS_MAX) {
    const page = await ask(listPath(filter, ROWS_ONCE, next));
    rows = [...rows, ...page.transfers];
    next = page.next;
  }
  const listed = idsOf([...live.transfers, ...rows]);
  const others = state.kept.filter((transfer) => transfer.live && !listed.has(transfer.id));
  const first = others.length > ASKED_ONCE ? state.turn++ * ASKED_ONCE % others.length : 0;
  const ended = await Promise.all(others.slice(first, first + ASKED_ONCE)
    .map((transfer) => ask(`/api/v1/transfers/${transfer.id}`).catch(() => transfer)));
  return {live: live.transfers, rows, next, ended};
}

// The rows to show. While older rows are shown, rows that leave the newest page stay.
function mergeTransfers({live, rows, next, ended}) {
  if (state.kept.length > 0) {
    const newest = idsOf(rows);
    const fresh = new Map([...ended, ...live].map((transfer) => [transfer.id, transfer]));
    state.kept = [...rows, ...state.kept.filter((transfer) => !newest.has(transfer.id))
      .map((transfer) => fresh.get(transfer.id) || transfer)]
      .filter(({state: name, live: lives}) => !state.filter || name === state.filter || (lives && state.filter === 'live'));
    if (state.kept.length > ROWS_MAX) state.kept = [];
  }
  if (state.kept.length === 0) {
    state.listed = rows;
    state.next = next;
  }
  const paged = state.kept.length > 0 ? state.kept : rows, listed = idsOf(paged);
  return [...live.filter((transfer) => !listed.has(transfer.id)), ...paged];
}

async function refresh() {
  if (state.inProgress) return;
  state.inProgress = true;
  const wanted = listWanted(), askedAt = Date.now();
  try {
    if (state.signedOut) await showData();
    const [summary, fleet, loaded] = await Promise.all([
      ask('/api/v1/summary'), ask('/api/v1/agents'), loadTransfers()]);
    if (wanted !== listWanted()) return; // another list was asked for meanwhile
    showSummary(summary);
    showAgents(fleet.agents);
    showTenants(fleet.agents);
    let all = mergeTransfers(loaded);
    const detail = state.open ? await ask(`/api/v1/transfers/${state.open}`).catch(() => null) : null;
    if (detail && !all.some((transfer) => transfer.id === detail.id)) all = [detail, ...all];
    showTransfers(all);
    $('more').hidden = !state.next;
    if (detail) showDetail(detail);
    state.failedSince = 0;
    showStatus(summary, fleet.agents);
  } catch (error) {
    if (error.status === 401) return showSignIn(state.signedOut ? '' : error.message);
    if (error.status === 403) return say('bad', error.message);
    state.failedSince = state.failedSince || askedAt;
    say('bad', `no answer from the scheduler for ${wholeSeconds((Date.now() - state.failedSince) / 1000)}: ${error.message}`);
  } finally {
    state.inProgress = false;
  }
}

function showStatus(summary, agents) {
  const silent = summary.last_event_seconds, lost = agents.filter((agent) => agent.state === 'lost').length;
  const parts = [silent === null ? 'no event yet' : silent < 2 ? 'following' : `last event ${wholeSeconds(silent)} ago`];
  if (lost > 0) parts.push(`${lost} agent${lost === 1 ? '' : 's'} lost`);
  const stale = silent !== null && silent > STALE_SECONDS && summary.states.live > 0;
  say(lost > 0 || stale ? 'stale' : silent === null ? '' : 'good', parts.join(' · '));
}

function say(kind, text) {
  const status = $('status');
  setAttribute(status, 'data-kind', state.paused ? '' : kind);
  setText(status, state.paused ? 'paused' : text);
}

function readAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  state.filter = WORDS[wanted.get('state')] || wanted.get('state') === 'live' ? wanted.get('state') : '';
  state.tenant = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(wanted.get('tenant') || '') ? wanted.get('tenant') : '';
  state.open = /^[0-9a-f]{16}$/.test(wanted.get('open') || '') ? wanted.get('open') : null;
  state.kept = state.listed = [];
  state.next = null;
  for (const button of document.querySelectorAll('[data-filter]')) {
    setAttribute(button, 'aria-pressed', String(button.dataset.filter === state.filter));
  }
}

function writeAddress() {
  const wanted = new URLSearchParams();
  if (state.filter) wanted.set('state', state.filter);
  if (state.tenant) wanted.set('tenant', state.tenant);
  if (state.open) wanted.set('open', state.open);
  history.replaceState(null, '', wanted.size > 0 ? `#${wanted}` : location.pathname);
}

function showOnly(filter, open) {
  state.filter = filter;
  state.open = open;
  writeAddress();
  readAddress();
  state.inProgress = false;
  refresh();
  if (open) $('transfers-title').scrollIntoView({block: 'start', behavior: 'smooth'});
}

function toggle(id) {
  state.open = state.open === id ? null : id;
  writeAddress();
  refresh();
}

async function loadOlder() {
  if (state.loading) return;
  state.loading = true;
  if (state.kept.length === 0) state.kept = state.listed;
  const wanted = listWanted();
  try {
    const page = await ask(listPath(state.filter, PAGE_ROWS, state.next));
    if (wanted !== listWanted() || state.kept.length === 0) return; // another list was asked for meanwhile
    state.kept = [...state.kept, ...page.transfers];
    state.next = page.next;
  } finally {
    state.loading = false;
  }
  refresh();
}

function pause(paused) {
  state.paused = paused;
  setAttribute($('pause'), 'aria-pressed', String(paused));
  setText($('pause'), paused ? 'Follow' : 'Pause');
  if (paused) say('', '');
  else refresh();
}

for (const place of document.querySelectorAll('.here')) place.textContent = location.host;
for (const button of document.querySelectorAll('[data-filter]')) {
  button.addEventListener('click', () => showOnly(button.dataset.filter, null));
}
$('tenant').addEventListener('change', () => {
  state.tenant = $('tenant').value;
  showOnly(state.filter, null);
});
$('pause').addEventListener('click', () => pause(!state.paused));
$('sign-in').addEventListener('submit', trySignIn);
$('sign-out').addEventListener('click', () => signOut().catch(() => {}));
$('more').addEventListener('click', () => loadOlder().catch(() => {}));
addEventListener('hashchange', () => { readAddress(); refresh(); });
addEventListener('keydown', (event) => {
  if (event.key !== ' ' || event.target !== document.body) return;
  event.preventDefault();
  pause(!state.paused);
});
document.addEventListener('visibilitychange', () => { if (!document.hidden && !state.paused) refresh(); });
readAddress();
refresh();
setInterval(() => { if (!document.hidden && !state.paused && $('sign-in').hidden) refresh(); }, SECOND);
