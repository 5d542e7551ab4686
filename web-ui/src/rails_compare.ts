// What differs inside a box: its cards in its time, against the same cards in the rest of the time, and against the
// other cards in that time. Each measure becomes a row with numbers, units and a sentence.
import {duration, number, rate} from './format';
import type {Fault, Rollups, Series, Transfer} from './types';

export interface Amounts { bytes: number; writes: number; errors: number; repeats: number; busy: number; cards: number; seconds: number }

const AMOUNTS = {bytes: 'bytes', writes: 'writes', errors: 'errors', repeats: 'repeats', busy: 'busy_seconds'} as const;

// The sum of the rails that are wanted. `seconds` is the time that had passed of the answer's window as it came.
export function amountsOf(data: Rollups, rails: number[], came: number): Amounts {
  const from = Date.parse(data.from), until = Math.min(came, Date.parse(data.until));
  const of = (name: string): number => data.series.filter((one) => rails.includes(one.rail ?? -1)).reduce((sum, one: Series) => sum + (one.totals[name] ?? 0), 0);
  return {bytes: of(AMOUNTS.bytes), writes: of(AMOUNTS.writes), errors: of(AMOUNTS.errors), repeats: of(AMOUNTS.repeats), busy: of(AMOUNTS.busy),
    cards: rails.length, seconds: Math.max(0, (until - from) / 1000)};
}

// What is left of the whole time without the part of it.
export function rest(whole: Amounts, part: Amounts): Amounts {
  const less = (name: keyof Amounts): number => Math.max(0, whole[name] - part[name]);
  return {bytes: less('bytes'), writes: less('writes'), errors: less('errors'), repeats: less('repeats'), busy: less('busy'), cards: part.cards, seconds: less('seconds')};
}

// `as` and `noun` make "3.2 times as many errors"; without `as` it is "3.2 times what it carried". `tail`: of what part.
export interface Measure {
  name: string; verb: string; as: string; noun: string; tail: string; bad: boolean;
  inside: number | null; before: number | null; others: number | null; text: (value: number, of: Side) => string;
}
export type Side = 'inside' | 'before' | 'others';

// `than`: what differs more from it, the same cards at another time or the other cards.
export interface Difference { measure: Measure; score: number; sign: 'more' | 'less' | 'same'; than: 'before' | 'others'; sentence: string }

const SAME = 0.1; // a difference of a tenth is none
const FROM_NONE = Math.log(100); // something where there was nothing

const some = (value: number): string => number(value, value > 0 && value < 10 ? 2 : 0);
const perMinute = (value: number): string => `${some(value)} a minute`;
const percent = (value: number): string => `${number(value, value > 0 && value < 10 ? 1 : 0)} %`;

function distance(inside: number | null, other: number | null): number {
  if (inside === null || other === null || inside === other) return 0;
  if (inside <= 0 || other <= 0) return inside > other ? FROM_NONE : -FROM_NONE;
  return Math.log(inside / other);
}

const isSame = (by: number): boolean => Math.abs(by) <= Math.log(1 + SAME);

// "carried 12 % of what it carried before: 1.2 GB/s instead of 10 GB/s".
function against(measure: Measure, inside: number, other: number, side: Side, when: string): string {
  const {verb, as, noun, tail, text} = measure, end = tail ? ` ${tail}` : '', what = noun ? ` ${noun}` : '';
  const [here, there] = [text(inside, 'inside'), text(other, side)];
  if (other === 0 && inside === 0) return `${verb} no${what || 'thing'}${end}, as ${when}`;
  if (other === 0) return `${verb} ${here}${end}${what}, and none ${when}`;
  if (inside === 0) return `${verb} no${what || 'thing'}${end}, and ${there} ${when}`;
  const times = inside / other, same = isSame(Math.log(times));
  const many = times >= 2 ? `${number(times, times < 10 ? 1 : 0)} times` : `${number(100 * times, times < 0.01 ? 1 : 0)} %`;
  const amount = same ? `about as ${as || 'much'}${what} as ${when}`
    : as ? `${many} as ${as}${what} as ${when}` : `${many}${times >= 2 ? '' : ' of'} what it ${verb} ${when}`;
  return `${verb} ${amount}${end}: ${here} ${same ? 'and' : 'instead of'} ${there}`;
}

function sentenceOf(measure: Measure, who: string, when: string): string {
  const {inside, before, others, verb, noun, tail, text} = measure;
  if (inside === null) return '';
  const own = before !== null ? against(measure, inside, before, 'before', when)
    : `${verb} ${text(inside, 'inside')}${noun ? ` ${noun}` : ''}${tail ? ` ${tail}` : ''}`;
  return `${who} ${own}${others === null ? '' : `; the other cards: ${text(others, 'others')} at that time`}.`;
}

export function differenceOf(measure: Measure, who: string, when: string): Difference | null {
  if (measure.inside === null) return null;
  const byTime = distance(measure.inside, measure.before), byCard = distance(measure.inside, measure.others);
  const than = Math.abs(byTime) >= Math.abs(byCard) ? 'before' : 'others', most = than === 'before' ? byTime : byCard;
  return {measure, score: Math.abs(most), sign: isSame(most) ? 'same' : most > 0 ? 'more' : 'less', than, sentence: sentenceOf(measure, who, when)};
}

const over = (value: number, by: number): number | null => (by > 0 ? value / by : null);

// Of cards, for one of them. `speedOf`: the mean of their speeds in bytes a second; null: not known.
export function cardMeasures(inside: Amounts, before: Amounts | null, others: Amounts | null, speedOf: (side: Side) => number | null): Measure[] {
  const each = (of: Amounts | null, value: (of: Amounts) => number | null): number | null => (of && of.cards > 0 && of.seconds > 0 ? value(of) : null);
  const make = (name: string, words: Pick<Measure, 'verb' | 'as' | 'noun' | 'text'>, bad: boolean, value: (of: Amounts) => number | null): Measure =>
    ({name, ...words, tail: '', bad, inside: each(inside, value), before: each(before, value), others: each(others, value)});
  const minute = (of: Amounts, amount: number): number | null => over(60 * amount, of.seconds * of.cards);
  const used = (value: number, side: Side): string => {
    const speed = speedOf(side);
    return speed ? `${rate(value)} (${percent(100 * value / speed)} of speed)` : rate(value);
  };
  return [
    make('Bytes a second', {verb: 'carried', as: '', noun: '', text: used}, false, (of) => over(of.bytes, of.seconds * of.cards)),
    make('Errors', {verb: 'had', as: 'many', noun: 'errors', text: perMinute}, true, (of) => minute(of, of.errors)),
    make('Posts refused', {verb: 'refused', as: 'many', noun: 'posts', text: perMinute}, true, (of) => minute(of, of.repeats)),
    make('Time of a write', {verb: 'took', as: 'long', noun: 'for a write', text: duration}, true, (of) => (of.busy > 0 ? over(of.busy, of.writes) : null)),
  ];
}

export interface Sample { count: number; p50: number | null; p99: number | null; exposed: number | null; retries: number | null; bad: number | null }

function percentile(sorted: number[], part: number): number | null {
  return sorted.length > 0 ? sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)]! : null;
}

// From the last layer that was ready to the end, by the source's clock.
function exposedOf(transfer: Transfer): number | null {
  const at = (stage: string): number | undefined => transfer.stages.find((one) => one.role === 'source' && one.stage === stage)?.seconds;
  const ready = at('last_ready'), ended = at('ended');
  return ready === undefined || ended === undefined ? null : Math.max(0, ended - ready);
}

export function sampleOf(list: Transfer[]): Sample {
  const ended = list.filter((one) => !one.live), done = ended.filter((one) => one.state === 'done');
  const sorted = (of: (one: Transfer) => number | null): number[] => done.map(of).filter((value) => value !== null).sort((a, b) => a - b);
  const times = sorted((one) => one.duration_seconds);
  return {count: ended.length, p50: percentile(times, 0.5), p99: percentile(times, 0.99), exposed: percentile(sorted(exposedOf), 0.99),
    retries: over(ended.reduce((sum, one) => sum + one.retries, 0), ended.length), bad: over(100 * (ended.length - done.length), ended.length)};
}

export function transferMeasures(inside: Sample, before: Sample | null, others: Sample | null): Measure[] {
  const make = (name: string, words: Pick<Measure, 'verb' | 'as' | 'noun' | 'tail' | 'text'>, part: keyof Sample): Measure =>
    ({name, ...words, bad: true, inside: inside[part], before: before?.[part] ?? null, others: others?.[part] ?? null});
  const took = {verb: 'took', as: 'long', noun: '', text: duration};
  const exposed = inside.exposed === null ? '' : ` (exposed p99: ${duration(inside.exposed)})`;
  return [
    make('p50 of transfers', {...took, tail: 'at the p50'}, 'p50'),
    make('p99 of transfers', {...took, tail: `at the p99${exposed}`}, 'p99'),
    make('exposed p99', {...took, verb: 'kept requests waiting', tail: 'at the exposed p99'}, 'exposed'),
    make('Retries a transfer', {verb: 'had', as: 'many', noun: 'retries', tail: '', text: (value) => `${some(value)} each`}, 'retries'),
    make('Transfers not done', {verb: 'ended badly', as: 'often', noun: '', tail: '', text: percent}, 'bad'),
  ];
}

// Faults of the cards, that began or went on in the time.
export function faultsIn(faults: Fault[], agent: string, isOne: (rail: number) => boolean, from: number, until: number): Fault[] {
  return faults.filter((fault) => fault.agent === agent && fault.rail !== null && isOne(fault.rail)
    && Date.parse(fault.at) < until && (fault.until === null || Date.parse(fault.until) > from));
}
