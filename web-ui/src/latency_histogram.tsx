// One time of transfers as two histograms over each other: shares of the transfers, over the logarithm of the time.
import {duration, number, share} from './format';
import {DataTable} from './parts';
import type {Times} from './types';
import {TIMES} from './words';

const WIDTH = 420, HEIGHT = 110, FLOOR = 96;

function outline(times: Times | undefined, x: (seconds: number) => number, top: number): string {
  const all = times?.count ?? 0;
  if (!times || all === 0) return '';
  const points = times.buckets.map(([from, until, count]) => {
    const y = FLOOR - (count / all) / top * (FLOOR - 8), end = x(until ?? from * 1.2);
    return `M${x(from).toFixed(1)},${FLOOR}V${y.toFixed(1)}H${end.toFixed(1)}V${FLOOR}`;
  });
  return points.join('');
}

function rowsOf(now: Times | undefined, before: Times | undefined): string[][] {
  const counts = new Map<number, {until: number | null; now: number; before: number}>();
  const take = (times: Times | undefined, side: 'now' | 'before'): void => {
    for (const [from, until, count] of times?.buckets ?? []) counts.set(from, {...(counts.get(from) ?? {until, now: 0, before: 0}), [side]: count});
  };
  take(now, 'now');
  take(before, 'before');
  return [...counts].sort(([a], [b]) => a - b).map(([from, one]) => [`${duration(from)} to ${one.until === null ? 'any' : duration(one.until)}`, number(one.now), share(one.now, now?.count ?? 0), number(one.before), share(one.before, before?.count ?? 0)]);
}

export interface Sides { name: string; now: Times | undefined; before: Times | undefined; exposed: [number | null | undefined, number | null | undefined]; nameA: string; nameB: string }

export function Histogram({name, now, before, exposed, nameA, nameB}: Sides) {
  const buckets = [...(now?.buckets ?? []), ...(before?.buckets ?? [])];
  const low = Math.max(1e-6, Math.min(...buckets.map(([from]) => Math.max(from, 1e-6)))), high = Math.max(...buckets.map(([from, until]) => until ?? from * 1.2), low * 2);
  const x = (seconds: number): number => 4 + Math.log(Math.max(seconds, low) / low) / Math.log(high / low) * (WIDTH - 8);
  const shareOf = (times?: Times): number => Math.max(0, ...(times?.buckets ?? []).map(([, , count]) => count / Math.max(1, times?.count ?? 1)));
  const top = Math.max(0.01, shareOf(now), shareOf(before));
  const label = `${TIMES[name]}: p50 ${duration(now?.p50_seconds)}, p99 ${duration(now?.p99_seconds)}`;
  const line = (times: Times | undefined, beside: number | null | undefined): string =>
    (!times || times.count === 0 ? 'no transfer' : `p50 ${duration(times.p50_seconds)} · p90 ${duration(times.p90_seconds)} · p99 ${duration(times.p99_seconds)}${name === 'exposed' ? '' : ` (exposed ${duration(beside)})`}`);
  return (
    <figure class="chart histogram" data-time={name}>
      <figcaption><h3>{TIMES[name]}</h3>
        <span class="quiet key-now">{line(now, exposed[0])}</span><span class="quiet key-before">{line(before, exposed[1])}</span></figcaption>
      {buckets.length === 0 ? <p class="empty">No time was measured.</p> : (
        <>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
            <path class="before" d={outline(before, x, top)} />
            <path class="now" d={outline(now, x, top)} />
            <text class="name" x={4} y={HEIGHT - 2}>{duration(low)}</text>
            <text class="name" x={WIDTH - 4} y={HEIGHT - 2} text-anchor="end">{duration(high)}</text>
          </svg>
          <DataTable caption={`${TIMES[name]}, by how long it took`} head={['Took', `Transfers, ${nameA}`, `Share, ${nameA}`, `Transfers, ${nameB}`, `Share, ${nameB}`]} rows={rowsOf(now, before)} />
        </>)}
    </figure>
  );
}
