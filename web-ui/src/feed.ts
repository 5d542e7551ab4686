// Keeps the store up to date: by the scheduler's stream of events, and by polling where that is not to be had.
import {ask} from './api';
import {agents, changed, failedSince, failedToAnswer, feed, heard, measure, now, paused, session, setClock, settleRates, signedOut,
  summary, summaryAt} from './store';
import type {Agent, AgentShort, Session, Summary, Transfer} from './types';

const SILENCE_MS = 8000; // the stream has a beat every 5 s
const DOUBT_MS = 3000; // and news about every second, while all is well
const RETRY_MS = 10000; // how long polling goes on before the stream is tried again

let stream: EventSource | null = null;
let heardAt = 0, polledAt = 0, retryAt = 0, polling = false;

interface News {
  summary?: Summary; agents?: AgentShort[]; agents_gone?: string[]; transfers?: Transfer[];
  transfers_gone?: string[]; transfers_left_out?: number;
}

function take(news: News, whole: boolean): void {
  if (paused.value) return;
  if (news.summary) {
    summaryAt.value = Date.now();
    setClock(news.summary.now);
    summary.value = news.summary;
  }
  if (whole || news.agents || news.agents_gone) {
    const next = new Map(whole ? [] : agents.value);
    for (const agent of news.agents ?? []) next.set(agent.name, agent);
    for (const name of news.agents_gone ?? []) next.delete(name);
    agents.value = next;
    measure(news.agents ?? [], whole);
  }
  if (whole || news.transfers) {
    changed.value = {transfers: news.transfers ?? [], gone: news.transfers_gone ?? [],
      leftOut: whole ? 1 : news.transfers_left_out ?? 0};
  }
}

function alive(): void {
  heardAt = Date.now();
  if (feed.value !== 'stream') feed.value = 'stream';
  if (failedSince.value > 0) heard();
}

function openStream(): void {
  const source = new EventSource('/api/v1/stream');
  stream = source;
  heardAt = Date.now();
  const on = (kind: string, act: (data: string) => void): void =>
    source.addEventListener(kind, (event) => {
      alive();
      act((event as MessageEvent<string>).data);
    });
  on('snapshot', (data) => take(JSON.parse(data) as News, true));
  on('delta', (data) => take(JSON.parse(data) as News, false));
  on('beat', () => {});
  on('resync', () => {});
  // The browser connects again by itself, unless the answer was an error: then this page asks why.
  source.addEventListener('error', () => {
    if (source !== stream) return;
    if (source.readyState === EventSource.CLOSED) closeStream();
    void poll();
  });
}

function closeStream(): void {
  stream?.close();
  stream = null;
  feed.value = 'polling';
  retryAt = Date.now() + RETRY_MS;
}

const shortOf = (agent: Agent): AgentShort => ({...agent,
  rails_up: agent.rails.filter((rail) => rail.state === 'up').length,
  rail_bytes: agent.rails.map((rail) => rail.bytes)});

async function poll(): Promise<void> {
  if (polling || paused.value || signedOut.value !== null) return;
  polling = true;
  const askedAt = Date.now();
  polledAt = askedAt;
  try {
    const [newest, fleet] = await Promise.all([
      ask<Summary>('/api/v1/summary'), ask<{agents: Agent[]}>('/api/v1/agents')]);
    heard();
    take({summary: newest, agents: fleet.agents.map(shortOf), transfers: [], transfers_left_out: 1}, true);
  } catch (error) {
    failedToAnswer(error, askedAt);
  } finally {
    polling = false;
  }
}

export async function begin(): Promise<void> {
  try {
    session.value = await ask<Session>('/api/v1/session');
    signedOut.value = null;
    heard();
    stream?.close();
    openStream();
  } catch (error) {
    failedToAnswer(error);
    feed.value = 'polling';
  }
}

export function pause(on: boolean): void {
  paused.value = on;
  if (on) {
    stream?.close();
    stream = null;
  } else {
    void begin();
  }
}

export function leave(why: string): void {
  stream?.close();
  stream = null;
  session.value = null;
  summary.value = null;
  agents.value = new Map();
  signedOut.value = why;
}

function tick(): void {
  const at = Date.now();
  now.value = at;
  if (paused.value || signedOut.value !== null) return;
  settleRates();
  if (document.hidden) return;
  if (!session.value) {
    if (at - polledAt > 900) {
      polledAt = at;
      void begin();
    }
    return;
  }
  if (stream && at - heardAt > SILENCE_MS) closeStream();
  if (!stream && at >= retryAt && failedSince.value === 0) openStream();
  const doubted = !stream || stream.readyState !== EventSource.OPEN || at - heardAt > DOUBT_MS;
  if (doubted && at - polledAt > 900) void poll();
}

export function follow(): void {
  void begin();
  setInterval(tick, 1000);
  // A browser opens six connections to a scheduler, for all its tabs: one that is not seen holds none.
  const rest = (): void => {
    stream?.close();
    stream = null;
  };
  addEventListener('pagehide', rest);
  addEventListener('pageshow', (event) => { if (event.persisted) void begin(); });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) rest();
    else if (!paused.value && signedOut.value === null) void begin();
  });
}
