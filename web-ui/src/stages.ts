// What the whole time of transfers is made of. The parts of the target's clock add up to the whole; what
// `exposed` has, of the source's clock, counts first: from the last layer that was ready, the request waited.
import type {Series} from './types';
import {PARTS} from './words';

type Parts = Record<string, number>;

function divide(mean: (name: string) => number): Parts {
  const transfer = mean('land') + mean('settle'), match = mean('match'), grant = mean('grant');
  const granted = Math.max(0, mean('total') - match - grant);
  const exposed = Math.min(mean('exposed'), granted), hidden = Math.min(Math.max(0, transfer - exposed), granted - exposed);
  return {match, grant, exposed, hidden, prefill: granted - exposed - hidden};
}

export interface Bottleneck { name: 'match' | 'grant' | 'prefill' | 'exposed'; seconds: number }

// What takes the most of the whole time. Transfer that is hidden runs while prefill computes: that time is prefill's.
export function bottleneckOf(means: Parts): Bottleneck {
  const of = (name: string): number => means[name] ?? 0;
  const all: Bottleneck[] = [{name: 'prefill', seconds: of('prefill') + of('hidden')}, {name: 'exposed', seconds: of('exposed')},
    {name: 'match', seconds: of('match')}, {name: 'grant', seconds: of('grant')}];
  return all.reduce((most, one) => (one.seconds > most.seconds ? one : most));
}

export function partsOf(series: Series): {points: Record<string, (number | null)[]>; means: Parts} {
  const times = series.times ?? {}, counts = times['total']?.count ?? [];
  const points: Record<string, (number | null)[]> = {};
  const sums: Parts = {};
  let all = 0;
  for (const [name] of PARTS) points[name] = [];
  counts.forEach((count, i) => {
    const parts = count > 0 ? divide((name) => times[name]?.mean_seconds[i] ?? 0) : null;
    for (const [name] of PARTS) {
      points[name]!.push(parts ? parts[name] ?? 0 : null);
      sums[name] = (sums[name] ?? 0) + (parts?.[name] ?? 0) * count;
    }
    all += count;
  });
  const means = Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, all > 0 ? sum / all : 0]));
  return {points, means};
}
