// The two windows of time that Latency compares: `a` is looked at, `b` is what it is compared with. A choice stands in
// the URL: compare=before, yesterday, week or deploy; or own, with a=BEGIN/END or a=last:30m, and b likewise.
import {rangeSeconds, rangeWord, wanted} from './address';
import {plural} from './format';
import type {Mark} from './types';
import {isoAt} from './window';

export interface Span { from: number; until: number } // ms
export interface Pair { a: Span; b: Span; nameA: string; nameB: string }
export type Chosen = {pair: Pair; why: ''} | {pair: null; why: string};

export const CHOICES: [string, string][] = [['before', 'the same time before'], ['yesterday', 'the same time yesterday'],
  ['week', 'the same time a week ago'], ['deploy', 'before and after the last deploy'], ['own', 'two windows of my own']];
export const chosenName = (): string => (CHOICES.some(([name]) => name === wanted('compare')) ? wanted('compare') : 'before');

const DAY = 86400000, KEPT = 366 * DAY, UNITS: Record<string, number> = {s: 1000, m: 60000, h: 3600000, d: DAY};
const DEPLOY_GAP = 600000; // changes that follow each other within this are one deploy
export const DEPLOY_SEARCH = 7 * DAY;
const DEPLOYS = ['started', 'version', 'options', 'provider', 'rails'];

export const spanText = (span: Span): string => `${isoAt(span.from).replace('.000Z', 'Z')}/${isoAt(span.until).replace('.000Z', 'Z')}`;

// The minutes of "last:30m"; null: it is no such window.
export function lastOf(text: string): {count: number; unit: string} | null {
  const [, count, unit] = /^last:(\d+(?:\.\d+)?)([smhd])$/.exec(text) ?? [];
  return unit ? {count: Number(count), unit} : null;
}

export function readSpan(text: string, now: number, name: string): {span: Span; why: ''} | {span: null; why: string} {
  const no = (why: string): {span: null; why: string} => ({span: null, why: `${name} ${why}`});
  const last = lastOf(text);
  if (last) {
    const length = last.count * (UNITS[last.unit] ?? 0);
    if (length < 1000) return no('has no second: choose how long it is.');
    return length > KEPT ? no('is longer than a year: nothing older is kept.') : {span: {from: now - length, until: now}, why: ''};
  }
  const [begin, end, ...more] = text.split('/'), from = Date.parse(begin ?? ''), until = Date.parse(end ?? '');
  if (text === '' || (!begin && !end)) return no('is not chosen yet: give its begin and its end, or how long ago it begins.');
  if (!Number.isFinite(from) || more.length > 0) return no('has no begin that is a time.');
  if (!Number.isFinite(until)) return no('has no end that is a time.');
  if (until <= from) return no('ends before it begins: choose an end that is later than its begin.');
  if (from > now) return no('has not begun yet: it lies in the future.');
  if (from < now - KEPT) return no('begins more than a year ago: nothing older is kept.');
  return {span: {from, until}, why: ''};
}

export interface Deploy { from: number; until: number; agents: number; kinds: string[] }

// Marks come newest first; those of the last deploy follow each other.
export function deployOf(marks: Mark[]): Deploy | null {
  const list = marks.filter((mark) => DEPLOYS.includes(mark.kind)).map((mark) => ({...mark, ms: Date.parse(mark.at)})).sort((a, b) => b.ms - a.ms);
  if (list.length === 0) return null;
  let count = 1;
  while (count < list.length && list[count - 1]!.ms - list[count]!.ms <= DEPLOY_GAP) count++;
  const own = list.slice(0, count);
  return {from: own[count - 1]!.ms, until: own[0]!.ms, agents: new Set(own.map((mark) => mark.agent)).size, kinds: [...new Set(own.map((mark) => mark.kind))]};
}

function ofDeploy(deploy: Deploy | null, now: number, span: number): Chosen {
  if (!deploy) return {pair: null, why: 'No agent has started, or got another version, option, provider or card, in the last 7 days: choose other windows.'};
  if (now - deploy.until < 2000) return {pair: null, why: 'The last deploy is going on at this moment: wait a little, or choose other windows.'};
  return {why: '', pair: {a: {from: deploy.until, until: Math.min(now, deploy.until + span)}, b: {from: deploy.from - span, until: deploy.from},
    nameA: `the time after the last deploy (of ${plural(deploy.agents, 'agent')})`, nameB: 'the time before the last deploy'}};
}

function ofOwn(now: number): Chosen {
  const a = readSpan(wanted('a'), now, 'Window A'), b = readSpan(wanted('b'), now, 'Window B');
  if (!a.span || !b.span) return {pair: null, why: [a.why, b.why].filter(Boolean).join(' ')};
  if (a.span.from === b.span.from && a.span.until === b.span.until) return {pair: null, why: 'Both windows are the same time: there is nothing to compare.'};
  return {why: '', pair: {a: a.span, b: b.span, nameA: 'window A', nameB: 'window B'}};
}

// `deploy`: undefined while it is not known yet.
export function chosenPair(now: number, deploy: Deploy | null | undefined): Chosen {
  const span = rangeSeconds.value * 1000, a = {from: now - span, until: now}, nameA = `the last ${rangeWord.value}`;
  const ago = (ms: number, nameB: string): Chosen => ({why: '', pair: {a, b: {from: a.from - ms, until: a.until - ms}, nameA, nameB}});
  switch (chosenName()) {
    case 'yesterday': return ago(DAY, 'the same time yesterday');
    case 'week': return ago(7 * DAY, 'the same time a week ago');
    case 'deploy': return deploy === undefined ? {pair: null, why: 'Loading…'} : ofDeploy(deploy, now, span);
    case 'own': return ofOwn(now);
    default: return ago(span, `the ${rangeWord.value} before`);
  }
}

export function overlapSeconds({a, b}: Pair): number {
  return Math.max(0, Math.min(a.until, b.until) - Math.max(a.from, b.from)) / 1000;
}
