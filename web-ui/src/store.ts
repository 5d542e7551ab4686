// What the pages know, as signals: the newest state of the scheduler, and how the page stands with it.
import {computed, signal} from '@preact/signals';

import {Failure} from './api';
import type {AgentShort, Session, Summary, Transfer} from './types';

const STALE_SECONDS = 10;

export const summary = signal<Summary | null>(null);
export const agents = signal<ReadonlyMap<string, AgentShort>>(new Map());
export const changed = signal<{transfers: Transfer[]; gone: string[]; leftOut: number} | null>(null);

export const session = signal<Session | null>(null);
export const signedOut = signal<string | null>(null); // null: signed in, or nobody must; else why
export const refused = signal(''); // a right that is missing
export const paused = signal(false);
export const feed = signal<'connecting' | 'stream' | 'polling'>('connecting');
export const failedSince = signal(0); // ms of this clock; 0: the scheduler answers
export const failure = signal('');
export const now = signal(Date.now()); // ticks once a second

// The scheduler's clock less this one's, in ms: times of answers and the windows of questions are of that clock.
export const clockAhead = signal(0);
export const schedulerNow = (): number => Date.now() + clockAhead.peek();
export const nowThere = computed(() => now.value + clockAhead.value);

// What is less than a second is the way of the news.
export function setClock(text: string): void {
  const ahead = Date.parse(text) - Date.now();
  if (Math.abs(ahead - clockAhead.peek()) >= 1000) clockAhead.value = ahead;
}

export const mayAct = computed(() => session.value?.right === 'act');

export function heard(): void {
  failedSince.value = 0;
  failure.value = '';
  refused.value = '';
}

// What a failed question says of the person's rights; whether the scheduler answers at all is not for one question.
export function failed(error: unknown): void {
  const status = error instanceof Failure ? error.status : 0;
  const text = error instanceof Error ? error.message : String(error);
  if (status === 401) {
    // Several questions may be refused: the first knows whether there was a session.
    if (signedOut.value === null) signedOut.value = session.value ? text : '';
    session.value = null;
  } else if (status === 403) {
    refused.value = text;
  }
}

// A failed question for the session or the summary, or the stream: the scheduler does not answer.
export function failedToAnswer(error: unknown, askedAt = Date.now()): void {
  const status = error instanceof Failure ? error.status : 0;
  failed(error);
  if (status === 0 || status >= 500) {
    failedSince.value = failedSince.value || askedAt;
    failure.value = error instanceof Error ? error.message : String(error);
  }
}

// Bytes a second of each rail of each agent: the difference of two reports. `period` is the time between the last
// two reports that followed each other; `settled`: nothing new was told for longer.
export interface Rates { bytes: number[]; at: number; period: number; settled: boolean; perSecond: (number | null)[] }
export const rates = signal<ReadonlyMap<string, Rates>>(new Map());

const SETTLE_MS = 3000, PERIOD_MS = 1000;

// `whole`: the list has every agent, and says nothing of when its bytes moved. Otherwise an agent that is not in
// it has moved nothing: what comes after a quiet time has moved in the last period alone.
export function measure(list: Iterable<AgentShort>, whole: boolean): void {
  const next = new Map(rates.value), at = Date.now();
  for (const agent of list) {
    const before = next.get(agent.name);
    if (before && at - before.at < 500) continue;
    const since = before ? at - before.at : 0, quiet = before?.settled === true && !whole;
    const period = before && since <= SETTLE_MS ? since : before?.period ?? PERIOD_MS, over = quiet ? period : since;
    const perSecond = agent.rail_bytes.map((bytes, i) => {
      const last = before?.bytes[i];
      if (last === undefined || !before) return null;
      return agent.state !== 'up' || bytes < last ? 0 : (bytes - last) * 1000 / over;
    });
    next.set(agent.name, {bytes: agent.rail_bytes, at, period, settled: false, perSecond});
  }
  for (const name of next.keys()) if (!agents.value.has(name)) next.delete(name);
  rates.value = next;
}

// An agent of which nothing new is told moves nothing any more.
export function settleRates(): void {
  const at = Date.now();
  let any = false;
  const next = new Map(rates.value);
  for (const [name, rate] of next) {
    if (at - rate.at < SETTLE_MS || rate.settled) continue;
    next.set(name, {...rate, settled: true, perSecond: rate.perSecond.map((value) => (value === null ? null : 0))});
    any = true;
  }
  if (any) rates.value = next;
}

export const rateOf = (name: string): number =>
  (rates.value.get(name)?.perSecond ?? []).reduce<number>((sum, value) => sum + (value ?? 0), 0);

export interface Standing { kind: '' | 'good' | 'stale' | 'bad'; text: string }

export const standing = computed<Standing>(() => {
  if (signedOut.value !== null) return {kind: '', text: 'not signed in'};
  if (paused.value) return {kind: '', text: 'paused'};
  if (refused.value) return {kind: 'bad', text: refused.value};
  if (failedSince.value > 0) {
    const seconds = wholeSince(failedSince.value);
    return {kind: 'bad', text: `no answer from the scheduler for ${seconds} s: ${failure.value}`};
  }
  if (!summary.value) return {kind: '', text: 'connecting…'};
  const last = summary.value.last_event;
  if (last === null) return {kind: '', text: 'no event yet'};
  // Both times are of the scheduler's clock; what has passed since it said so is of this one.
  const silent = (summary.value.last_event_seconds ?? 0) + (now.value - summaryAt.value) / 1000;
  const lost = [...agents.value.values()].filter((agent) => agent.state === 'lost').length;
  const parts = [silent < 3 ? 'following' : `last event ${Math.floor(silent)} s ago`];
  if (lost > 0) parts.push(`${lost} agent${lost === 1 ? '' : 's'} lost`);
  if (feed.value === 'polling') parts.push('without the stream');
  const stale = silent > STALE_SECONDS && (summary.value.states['live'] ?? 0) > 0;
  return {kind: lost > 0 || stale ? 'stale' : 'good', text: parts.join(' · ')};
});

export const summaryAt = signal(Date.now());
const wholeSince = (at: number): number => Math.max(0, Math.floor((now.value - at) / 1000));
