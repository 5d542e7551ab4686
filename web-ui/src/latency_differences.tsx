// What differs between two windows, by stage, in words: the stage that moved most first.
import {duration, number} from './format';
import type {Comparison, Times} from './types';
import {TIMES} from './words';

const FEW = 100; // transfers; of fewer, the p99 is the slowest one
const SAME = 0.02;

export interface StageDifference { name: string; sign: 'longer' | 'shorter' | 'same'; now: number; before: number; seconds: number; sentence: string }

function howMuch(now: number, before: number): {sign: StageDifference['sign']; text: string} {
  const by = before > 0 ? now / before : now > 0 ? Infinity : 1;
  if (Math.abs(by - 1) <= SAME) return {sign: 'same', text: 'took as long'};
  if (before === 0) return {sign: 'longer', text: 'took some time, where it took none'};
  const text = by >= 2 ? `took ${number(by, by < 10 ? 1 : 0)} times as long` : by > 1 ? `took ${number(100 * (by - 1))} % more time` : `took ${number(100 * (1 - by))} % less time`;
  return {sign: by > 1 ? 'longer' : 'shorter', text};
}

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

function differenceOf(name: string, now: Times | undefined, before: Times | undefined, exposed: string): StageDifference | null {
  const [a, b] = [now?.p99_seconds ?? null, before?.p99_seconds ?? null];
  if (a === null || b === null) return null;
  const {sign, text} = howMuch(a, b), change = a - b;
  const p50 = now?.p50_seconds != null && before?.p50_seconds != null ? ` The p50 went from ${duration(before.p50_seconds)} to ${duration(now.p50_seconds)}.` : '';
  return {name, sign, now: a, before: b, seconds: change, sentence: `${capital(TIMES[name] ?? name)} ${text} at the p99: ${duration(a)}${sign === 'same' ? ` and ${duration(b)}` : ` instead of ${duration(b)} (${change > 0 ? '+' : ''}${duration(change)})`}${name === 'exposed' ? '' : exposed}.${p50}`};
}

export function differencesOf(data: Comparison): StageDifference[] {
  const {window, with: other} = data, [a, b] = [window.times['exposed']?.p99_seconds, other.times['exposed']?.p99_seconds];
  const exposed = name99(a, b), order = (one: StageDifference): number => (one.name === 'total' ? Infinity : Math.abs(one.seconds));
  return Object.keys(TIMES).map((name) => differenceOf(name, window.times[name], other.times[name], name === 'total' ? exposed : '')).filter((one) => one !== null)
    .sort((x, y) => order(y) - order(x));
}

const name99 = (a: number | null | undefined, b: number | null | undefined): string => (a == null || b == null ? '' : `; exposed p99: ${duration(a)}, was ${duration(b)}`);

const SIGNS = {longer: '▲ longer', shorter: '▼ shorter', same: '= the same'};

// The stage that explains most of the change of the whole time is the scheduler's finding.
function Verdict({data, nameA, nameB}: {data: Comparison; nameA: string; nameB: string}) {
  const of = (times: Times | undefined): string => duration(times?.p99_seconds), {window, with: other, moved} = data;
  const whole = howMuch(window.times['total']?.p99_seconds ?? 0, other.times['total']?.p99_seconds ?? 0);
  return (
    <p class="verdict" id="difference" data-kind={whole.sign === 'longer' ? 'warn' : 'good'} data-moved={moved ?? ''}>
      <strong>{whole.sign === 'same' ? `At the p99, a transfer took as long as in ${nameB}.` : `At the p99, a transfer ${whole.text} ${whole.text.endsWith('long') ? 'as' : 'than'} in ${nameB}`}{whole.sign === 'same' ? '' : moved ? `, most of all by: ${TIMES[moved] ?? moved}.` : '.'}</strong>{' '}
      {capital(nameA)}: p99 {of(window.times['total'])}, exposed p99 {of(window.times['exposed'])}. {capital(nameB)}: p99 {of(other.times['total'])}, exposed p99 {of(other.times['exposed'])}.
    </p>
  );
}

export function Differences({data, nameA, nameB}: {data: Comparison; nameA: string; nameB: string}) {
  const list = differencesOf(data), few = Math.min(data.window.times['total']?.count ?? 0, data.with.times['total']?.count ?? 0);
  return (
    <>
      <Verdict data={data} nameA={nameA} nameB={nameB} />
      <ol class="stage-differences" id="stage-differences" aria-label="Differences by stage">
        {list.map((one) => (
          <li key={one.name} data-stage={one.name} data-sign={one.sign} data-now={one.now} data-before={one.before}>
            <span class={one.sign === 'longer' ? 'sign bad' : 'sign quiet'}>{SIGNS[one.sign]}</span><span>{one.sentence}</span></li>))}
      </ol>
      {few < FEW ? <p class="quiet" id="few">One of both windows has {number(few)} transfers that were done: of fewer than {FEW}, the p99 is the slowest one. Choose longer windows to be sure.</p> : null}
    </>
  );
}
