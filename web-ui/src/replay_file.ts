// Reads what a person opens on the Replay page: `kvrail compare --json` and `kvrail trace export --to summary`. The
// bytes are anybody's: a file is taken whole or refused with a sentence, and nothing here throws.
import {CURVE_POINTS, FIGURES, OUTCOMES, type Change, type Curves, type Outcome, type Report, type Run, type Stage, type Summary, type Times} from './replay_report';

export type Decoded = {kind: 'comparison'; report: Report} | {kind: 'summary'; summary: Summary} | {kind: 'wrong'; text: string};

export const BYTES_MAX = 16 * 1024 * 1024;
const TEXT_MAX = 4096, LIST_MAX = 1000, STAGES_MAX = 64;
const MS_MAX = 1e12; // 30 years
export const REMEDY = 'Open a file of “kvrail compare A B --json FILE” or of “kvrail trace export --to summary”.';

// Thrown and caught in this file alone: where in the file something is wrong, and what.
class Wrong {
  constructor(readonly where: string, readonly what: string) {}
}

type Fields = Map<string, unknown>;

function fieldsOf(value: unknown, where: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Wrong(where, 'is no object');
  return new Map(Object.entries(value));
}

// `where` of a part of an object: "time_ms.total.p50".
const within = (where: string, name: string): string => (where ? `${where}.${name}` : name);

function textAt(fields: Fields, name: string, where = ''): string {
  const value = fields.get(name), at = within(where, name);
  if (typeof value !== 'string') throw new Wrong(at, fields.has(name) ? 'is no text' : 'is missing');
  if (value.length > TEXT_MAX) throw new Wrong(at, 'is too long');
  return value;
}

function numberAt(fields: Fields, name: string, where = '', least = 0, most = MS_MAX): number {
  const value = fields.get(name), at = within(where, name);
  if (typeof value !== 'number') throw new Wrong(at, fields.has(name) ? 'is no number' : 'is missing');
  if (!(value >= least && value <= most)) throw new Wrong(at, 'is out of range');
  return value;
}

function countAt(fields: Fields, name: string, where = '', most = Number.MAX_SAFE_INTEGER): number {
  const value = numberAt(fields, name, where, 0, most);
  if (!Number.isInteger(value)) throw new Wrong(within(where, name), 'is no whole number');
  return value;
}

function truthAt(fields: Fields, name: string, where = ''): boolean {
  const value = fields.get(name);
  if (typeof value !== 'boolean') throw new Wrong(within(where, name), fields.has(name) ? 'is neither true nor false' : 'is missing');
  return value;
}

function sentencesAt(fields: Fields, name: string): string[] {
  const list = fields.get(name);
  if (!Array.isArray(list)) throw new Wrong(name, fields.has(name) ? 'is no list' : 'is missing');
  if (list.length > LIST_MAX) throw new Wrong(name, 'is too long');
  return list.map((one, i) => textAt(new Map([[String(i), one as unknown]]), String(i), name));
}

function outcomesAt(fields: Fields, where: string, transfers: number): Record<Outcome, number> {
  const at = within(where, 'outcomes'), counts = fieldsOf(fields.get('outcomes'), at);
  const found = Object.fromEntries(OUTCOMES.map((name) => [name, countAt(counts, name, at)])) as Record<Outcome, number>;
  if (OUTCOMES.reduce((sum, name) => sum + found[name], 0) !== transfers) throw new Wrong(at, 'do not add up to the transfers');
  return found;
}

function timesAt<T>(fields: Fields, read: (name: string, times: Fields, where: string) => T): T[] {
  const all = fieldsOf(fields.get('time_ms'), 'time_ms');
  if (!all.has('total')) throw new Wrong('time_ms.total', 'is missing');
  if (all.size > STAGES_MAX) throw new Wrong('time_ms', 'is too long');
  return [...all].map(([name, value]) => {
    if (!/^[a-z][a-z0-9_]{0,31}$/.test(name)) throw new Wrong('time_ms', 'has a name that is no name of a time');
    return read(name, fieldsOf(value, `time_ms.${name}`), `time_ms.${name}`);
  });
}

// ---- kvrail compare --json

function changeAt(times: Fields, figure: string, stage: string): Change {
  const where = within(stage, figure), fields = fieldsOf(times.get(figure), where);
  const [a, b] = [numberAt(fields, 'a', where), numberAt(fields, 'b', where)];
  const [change, low, high] = ['change', 'low', 'high'].map((name) => numberAt(fields, name, where, -MS_MAX)) as [number, number, number];
  const differs = truthAt(fields, 'differs', where);
  if (Math.abs(b - a - change) > 1e-6 * Math.max(1, a, b)) throw new Wrong(within(where, 'change'), 'is not what b and a differ by');
  if (low > high) throw new Wrong(within(where, 'low'), 'is above high');
  return {figure, a, b, low, high, verdict: !differs ? 'same' : (change || low + high) > 0 ? 'longer' : 'shorter'};
}

// Files of kvrail 0.1 have none. [] where a run has no such time.
function curveAt(fields: Fields, which: 'a' | 'b', where: string): number[] {
  const list = fields.get(which), at = within(where, which);
  if (!Array.isArray(list)) throw new Wrong(at, fields.has(which) ? 'is no list' : 'is missing');
  if (list.length !== 0 && list.length !== CURVE_POINTS) throw new Wrong(at, 'has another number of points');
  const curve = list.map((one, i) => numberAt(new Map([[String(i), one as unknown]]), String(i), at));
  if (curve.some((value, i) => i > 0 && value < curve[i - 1]!)) throw new Wrong(at, 'falls');
  return curve;
}

function curvesAt(times: Fields, stage: string): Curves | null {
  if (!times.has('curve')) return null;
  const where = within(stage, 'curve'), fields = fieldsOf(times.get('curve'), where);
  const [a, b] = [curveAt(fields, 'a', where), curveAt(fields, 'b', where)];
  return a.length > 0 && b.length > 0 ? {a, b} : null;
}

function stageAt(name: string, times: Fields, where: string, matched: number): Stage {
  const pairs = countAt(times, 'pairs', where, matched);
  const changes = FIGURES.map((figure) => changeAt(times, figure, where));
  const spreads = changes.filter((change) => change.figure !== 'mean').map(({figure, a, b}) => ({figure, a, b}));
  return {name, counts: [pairs, pairs], changes: pairs > 0 ? changes : [], spreads: pairs > 0 ? spreads : [], curves: curvesAt(times, where)};
}

function runAt(fields: Fields, which: 'a' | 'b'): Run {
  const run = fieldsOf(fields.get(which), which), transfers = countAt(run, 'transfers', which);
  return {name: textAt(run, 'file', which), transfers, outcomes: outcomesAt(run, which, transfers)};
}

function comparisonOf(file: string, fields: Fields): Report {
  const runs: [Run, Run] = [runAt(fields, 'a'), runAt(fields, 'b')];
  const matched = countAt(fields, 'matched', '', Math.min(runs[0].transfers, runs[1].transfers));
  const by = textAt(fields, 'matched_by');
  if (by !== 'id' && by !== 'order') throw new Wrong('matched_by', 'is neither “id” nor “order”');
  return {
    from: file, runs, verdict: textAt(fields, 'verdict'),
    compared: {distinguishable: truthAt(fields, 'distinguishable'), matched, matchedBy: by,
      options: sentencesAt(fields, 'options'), rails: sentencesAt(fields, 'rails')},
    stages: timesAt(fields, (name, times, where) => stageAt(name, times, where, matched)),
  };
}

// ---- kvrail trace export --to summary

function summaryOf(file: string, fields: Fields): Summary {
  const transfers = countAt(fields, 'transfers');
  const figures = [...FIGURES, 'p90', 'max'];
  const times = timesAt<[string, Times]>(fields, (name, one, where) => [name, {
    count: countAt(one, 'count', where, transfers),
    figures: Object.fromEntries(figures.map((figure) => [figure, numberAt(one, figure, where)])),
  }]);
  return {
    run: {name: file, transfers, outcomes: outcomesAt(fields, '', transfers), seconds: numberAt(fields, 'seconds'),
      bytes: countAt(fields, 'bytes'), tokens: countAt(fields, 'tokens')},
    times: new Map(times),
  };
}

// ---- files of other kinds

// What a file is instead, by its first bytes, and the command that makes one of it.
const OTHERS: [RegExp, string, string][] = [
  [/^\x28\xb5\x2f\xfd/, 'is compressed (.zst), as traces are', 'Compare two traces with “kvrail compare A B --json FILE”, and open that FILE.'],
  [/^\x1f\x8b|^PK\x03\x04/, 'is compressed', `Unpack it first. ${REMEDY}`],
  [/^\s*\{\s*"kvtrace"/, 'is a trace itself', 'Compare two traces with “kvrail compare A B --json FILE”, and open that FILE.'],
  [/^\s*<(!doctype|html)/i, 'is a page, as “kvrail compare --html” writes', 'Open it as a page of its own, or write the same with --json.'],
  [/^\s*\{\s*"timestamp"/, 'holds requests, and no run of them', 'Play them with “kvrail replay --record FILE”, then compare two such traces.'],
  [/^\s*\{\s*"(traceEvents|displayTimeUnit)"/, 'is an export for ui.perfetto.dev', REMEDY],
  [/^\s*\{\s*"resourceSpans"/, 'is an export of spans for OpenTelemetry', REMEDY],
];

const startOf = (bytes: Uint8Array): string => String.fromCharCode(...bytes.subarray(0, 200));

function otherKind(file: string, bytes: Uint8Array): string {
  const start = startOf(bytes), [, what, remedy] = OTHERS.find(([form]) => form.test(start)) ?? [];
  return what ? `${file} ${what}. ${remedy}` : '';
}

function parse(file: string, bytes: Uint8Array): {value: unknown} | string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', {fatal: true}).decode(bytes);
  } catch {
    return `${file} is no text: it has bytes that are not UTF-8. ${REMEDY}`;
  }
  try {
    return {value: JSON.parse(text) as unknown};
  } catch {
    if (!/^\s*\{/.test(text)) return `${file} is no JSON. ${REMEDY}`;
    return /\}\s*$/.test(text) ? `${file} is damaged: it is no JSON any more. Write it again with the command that made it.`
      : `${file} is cut off: it ends before its JSON does. Write it again with the command that made it.`;
  }
}

export const tooLarge = (file: string, size: string, most: string): string =>
  `${file} has ${size}, and no file for this page has more than ${most}. ${REMEDY}`;

export function decode(file: string, bytes: Uint8Array): Decoded {
  if (bytes.length === 0) return {kind: 'wrong', text: `${file} is empty. Write it again with the command that made it.`};
  const other = otherKind(file, bytes), parsed = other || parse(file, bytes);
  if (typeof parsed === 'string') return {kind: 'wrong', text: parsed};
  let kind = '';
  try {
    const fields = fieldsOf(parsed.value, 'all of it');
    kind = fields.has('matched_by') ? 'comparison' : fields.has('time_ms') && fields.has('outcomes') ? 'summary' : '';
    if (kind === 'comparison') return {kind, report: comparisonOf(file, fields)};
    if (kind === 'summary') return {kind, summary: summaryOf(file, fields)};
  } catch (error) {
    if (kind && error instanceof Wrong) {
      return {kind: 'wrong', text: `${file} looks like a ${kind}, but “${error.where}” ${error.what}. Write it again with this version of kvrail.`};
    }
  }
  return {kind: 'wrong', text: `${file} is JSON of another kind. ${REMEDY}`};
}
