// How long transfers and their stages took: histograms of the range, and of the same time before it.
import {range, rangeSeconds, rangeWord} from './address';
import {duration, number} from './format';
import {DataTable, Nothing, Section, Stale} from './parts';
import {useQuery} from './query';
import type {Comparison, Times} from './types';
import {windowEvery, windowsOf} from './window';
import {TIMES} from './words';

const WIDTH = 420, HEIGHT = 110, FLOOR = 96;

// Shares of the transfers, over the logarithm of the time.
function outline(times: Times | undefined, x: (seconds: number) => number, top: number): string {
  const all = times?.count ?? 0;
  if (!times || all === 0) return '';
  const points = times.buckets.map(([from, until, count]) => {
    const y = FLOOR - (count / all) / top * (FLOOR - 8), end = x(until ?? from * 1.2);
    return `M${x(from).toFixed(1)},${FLOOR}V${y.toFixed(1)}H${end.toFixed(1)}V${FLOOR}`;
  });
  return points.join('');
}

function Histogram({name, now, before}: {name: string; now: Times | undefined; before: Times | undefined}) {
  const buckets = [...(now?.buckets ?? []), ...(before?.buckets ?? [])];
  const difference = now?.p99_seconds != null && before?.p99_seconds != null ? now.p99_seconds - before.p99_seconds : null;
  const low = Math.max(1e-6, Math.min(...buckets.map(([from]) => Math.max(from, 1e-6)))), high = Math.max(...buckets.map(([from, until]) => until ?? from * 1.2), low * 2);
  const x = (seconds: number): number => 4 + Math.log(Math.max(seconds, low) / low) / Math.log(high / low) * (WIDTH - 8);
  const shareOf = (times?: Times): number => Math.max(0, ...(times?.buckets ?? []).map(([, , count]) => count / Math.max(1, times?.count ?? 1)));
  const top = Math.max(0.01, shareOf(now), shareOf(before));
  const label = `${TIMES[name]}: p50 ${duration(now?.p50_seconds)}, p99 ${duration(now?.p99_seconds)}`;
  return (
    <figure class="chart histogram" data-time={name}>
      <figcaption><h3>{TIMES[name]}</h3>
        <span class="quiet">p50 {duration(now?.p50_seconds)} · p90 {duration(now?.p90_seconds)} · p99 {duration(now?.p99_seconds)}
          {difference === null ? '' : ` (before: ${duration(before?.p99_seconds)}, ${difference > 0 ? '+' : ''}${duration(difference)})`}</span></figcaption>
      {buckets.length === 0 ? <p class="empty">No time was measured.</p> : (
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
          <path class="before" d={outline(before, x, top)} />
          <path class="now" d={outline(now, x, top)} />
          <text class="name" x={4} y={HEIGHT - 2}>{duration(low)}</text>
          <text class="name" x={WIDTH - 4} y={HEIGHT - 2} text-anchor="end">{duration(high)}</text>
        </svg>)}
    </figure>
  );
}

export function Latency() {
  const query = useQuery<Comparison>('/api/v1/compare', () => windowsOf(rangeSeconds.value), Math.max(4000, windowEvery()), range.value);
  const data = query.data, names = Object.keys(TIMES);
  const row = (name: string): string[] => {
    const now = data?.window.times[name], before = data?.with.times[name];
    return [TIMES[name] ?? name, number(now?.count ?? 0), duration(now?.p50_seconds), duration(now?.p90_seconds), duration(now?.p99_seconds), duration(before?.p50_seconds), duration(before?.p99_seconds)];
  };
  return (
    <Section title="How long transfers took" note={`the last ${rangeWord.value}, beside the ${rangeWord.value} before`} id="latencies">
      {!data ? <Nothing loading={query.loading} error={query.error} /> : data.window.transfers + data.with.transfers === 0
        ? <Nothing>No transfer has ended in twice the last {rangeWord.value}.</Nothing> : (
          <>
            <Stale query={query} />
            <p class="lead">{data.window.transfers > 0 && data.with.transfers > 0
              ? `Against the ${rangeWord.value} before: ${data.text.replace(/-?[\d.e-]+ s\b/g, (text) => duration(parseFloat(text)))}.`
              : `${number(data.window.transfers)} transfers ended in the last ${rangeWord.value}, ${number(data.with.transfers)} in the ${rangeWord.value} before.`}</p>
            <ul class="legend"><li class="key-now">the last {rangeWord.value}</li><li class="key-before">the {rangeWord.value} before</li><li class="none">share of transfers, over time on a logarithmic scale</li></ul>
            <div class="charts three">{names.map((name) => <Histogram key={name} name={name} now={data.window.times[name]} before={data.with.times[name]} />)}</div>
            <DataTable caption="times" head={['Time', 'Transfers', 'p50', 'p90', 'p99', 'p50 before', 'p99 before']} rows={names.map(row)} />
          </>)}
    </Section>
  );
}
