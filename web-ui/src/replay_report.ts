// What the Replay page shows of two runs, whichever kind of file it came from. All times are milliseconds.

export const OUTCOMES = ['live', 'done', 'failed', 'cancelled', 'expired', 'lost'] as const;
export type Outcome = typeof OUTCOMES[number];

export interface Run {
  name: string; transfers: number; outcomes: Record<Outcome, number>;
  seconds?: number; bytes?: number; tokens?: number; // known of a summary alone
}

// "unjudged": nobody has drawn the requests again, so that a difference may be chance.
export type Verdict = 'longer' | 'shorter' | 'same' | 'unjudged';

export interface Change { figure: string; a: number; b: number; low: number | null; high: number | null; verdict: Verdict }

// `counts`: how many times of A and of B the figures are of. Only figures that both files have are changes; `spreads`
// has all percentiles of each run.
export interface Spread { figure: string; a: number; b: number }
// At most so long took none, a twentieth, two … of the matched transfers, and all; CURVE_POINTS of each run.
export interface Curves { a: number[]; b: number[] }
export interface Stage { name: string; counts: [number, number]; changes: Change[]; spreads: Spread[]; curves: Curves | null }

export interface Report {
  from: string; // which files it is made of
  verdict: string; runs: [Run, Run]; stages: Stage[];
  compared: null | { // null: two summaries
    distinguishable: boolean; matched: number; matchedBy: 'id' | 'order'; options: string[]; rails: string[];
  };
}

export interface Times { count: number; figures: Record<string, number> }
export interface Summary { run: Run; times: Map<string, Times> }

// In the order of the table.
export const CURVE_POINTS = 21;
export const FIGURES = ['p50', 'p95', 'p99', 'mean'];
const PERCENTILES = ['p50', 'p90', 'p95', 'p99', 'max'];

function stageOf(name: string, a: Times, b: Times): Stage {
  const both = (figure: string): Spread => ({figure, a: a.figures[figure]!, b: b.figures[figure]!});
  const known = a.count > 0 && b.count > 0;
  return {
    name, counts: [a.count, b.count],
    changes: known ? FIGURES.map((figure) => ({...both(figure), low: null, high: null, verdict: 'unjudged'})) : [],
    spreads: known ? PERCENTILES.map(both) : [], curves: null,
  };
}

const NONE: Times = {count: 0, figures: {}};

export function reportOf(a: Summary, b: Summary): Report {
  const names = [...new Set([...a.times.keys(), ...b.times.keys()])];
  const total = [a, b].map((one) => one.times.get('total') ?? NONE) as [Times, Times];
  const means = total.map((one) => (one.figures['mean'] ?? 0).toFixed(2));
  return {
    from: `${a.run.name} and ${b.run.name}`, runs: [a.run, b.run], compared: null,
    verdict: total.every((one) => one.count > 0)
      ? `${means[1]} ms a transfer on average in B, ${means[0]} ms in A; two summaries cannot say whether chance made the difference`
      : 'Nothing can be said: one of the runs has no transfer that is done',
    stages: names.map((name) => stageOf(name, a.times.get(name) ?? NONE, b.times.get(name) ?? NONE)),
  };
}
