// Is transfer time inside the budget, and if not, where does it go, and since when?
import {useMemo} from 'preact/hooks';

import {linkTo, range, rangeSeconds, rangeWord} from './address';
import {Chart, type Line} from './chart';
import {duration, number, rate, rateParts, share, wholeSeconds} from './format';
import {Changes} from './overview_changes';
import {SlowestCard} from './overview_slowest';
import {Nothing, Section, Stale, State, Tile} from './parts';
import {useQuery, type Query} from './query';
import {Spark} from './spark';
import {bottleneckOf, partsOf} from './stages';
import {agents, schedulerNow, summary} from './store';
import type {Histograms, Mark, Rollups} from './types';
import {windowEvery, windowParameters} from './window';
import {PARTS} from './words';

function Throughput() {
  const values = summary.value?.bytes_per_second ?? [];
  // The last whole second may be incomplete: reports take a quarter of a second.
  const recent = values.slice(-4, -1);
  const [value, unit] = rateParts(recent.length > 0 ? recent.reduce((a, b) => a + b, 0) / recent.length : 0);
  return (
    <Tile title="Throughput" wide note={`peak ${rate(Math.max(0, ...values.slice(0, -1)))} in 60 s`}>
      <p class="big"><span id="rate">{summary.value ? value : '–'}</span> <small>{unit}</small></p>
      <Spark values={values.slice(0, -1)} />
    </Tile>
  );
}

function Times({times}: {times: Query<Histograms>}) {
  const group = times.data?.groups[0];
  const of = (name: string, part: 'p50_seconds' | 'p90_seconds' | 'p99_seconds'): string => duration(group?.times[name]?.[part]);
  const row = (name: string, label: string, title: string) => (
    <tr><th scope="row" title={title}>{label}</th><td>{of(name, 'p50_seconds')}</td><td>{of(name, 'p90_seconds')}</td><td>{of(name, 'p99_seconds')}</td></tr>);
  return (
    <Tile title="Transfer time" note={`${number(group?.times['total']?.count ?? 0)} done in the last ${rangeWord.value}`}>
      <Stale query={times} />
      <table class="mini" id="latency">
        <thead><tr><th scope="col"><span class="hidden">part</span></th><th scope="col">p50</th><th scope="col">p90</th><th scope="col">p99</th></tr></thead>
        <tbody>
          {row('exposed', 'exposed', 'From the last layer that was ready to the end: the request waits for this')}
          {row('land', 'landing', 'From the first chunk that landed to the last')}
          {row('total', 'whole', 'From the fetch to its end, prefill included')}
        </tbody>
      </table>
    </Tile>
  );
}

const GROUPS: [string, string[]][] = [['opened', ['opened', 'matched']], ['granted', ['granted', 'first_ready']],
  ['first_post', ['first_post', 'last_ready']], ['last_post', ['first_land', 'last_post', 'last_land']], ['failing', ['failing']]];

function InFlight() {
  const states = summary.value?.states ?? {};
  const counts = GROUPS.map(([name, members]): [string, number] => [name, members.reduce((sum, state) => sum + (states[state] ?? 0), 0)]);
  return (
    <Tile title="In flight">
      <p class="big"><a id="live" href={linkTo('transfers', {state: 'live'})}>{summary.value ? number(states['live'] ?? 0) : '–'}</a></p>
      <dl class="breakdown">
        {counts.filter(([name, count]) => name !== 'failing' || count > 0).map(([name, count]) => (
          <div key={name}><dt><State name={name} /></dt><dd>{number(count)}</dd></div>))}
      </dl>
    </Tile>
  );
}

function Ended() {
  const states = summary.value?.states ?? {};
  return (
    <Tile title="Ended, all that are kept">
      <dl class="breakdown">
        {['done', 'failed', 'cancelled', 'expired', 'lost'].map((name) => (
          <div key={name}><dt><State name={name} /></dt><dd><a href={linkTo('transfers', {state: name})}>{number(states[name] ?? 0)}</a></dd></div>))}
      </dl>
    </Tile>
  );
}

const BOTTLENECKS: Record<string, string> = {match: 'The wait for the peer', grant: 'The wait for a grant', exposed: 'Transfer'};
const SAID: Record<string, string> = {match: 'waiting for the peer', grant: 'waiting for a grant', prefill: 'waiting for prefill',
  hidden: 'transfer hidden behind prefill', exposed: 'exposed transfer'};

// The sentence that answers the first question.
function Verdict({sums}: {sums: Query<Rollups>}) {
  const series = sums.data?.series[0];
  const parts = useMemo(() => (series?.times ? partsOf(series) : null), [series]);
  if (!parts || !series) return null;
  const {means} = parts;
  const whole = PARTS.reduce((sum, [name]) => sum + (means[name] ?? 0), 0);
  if (whole === 0) return null;
  const {name, seconds} = bottleneckOf(means), good = name === 'prefill';
  const said = PARTS.map(([part, label]) => `${share(means[part] ?? 0, whole)} is ${SAID[part] ?? label} (${duration(means[part] ?? 0)})`);
  return (
    <p class="verdict" id="verdict" data-kind={good ? 'good' : 'warn'} data-part={name}>
      <strong>{good ? 'Prefill is the bottleneck, not transfer.' : `${BOTTLENECKS[name]} is the bottleneck: a request waits ${duration(seconds)} for it on average.`}</strong>{' '}
      {`Of ${duration(whole)} on average, ${said.slice(0, -1).join(', ')} and ${said[said.length - 1]}.`}
    </p>
  );
}

function Charts({sums, marks}: {sums: Query<Rollups>; marks: Mark[]}) {
  const data = sums.data;
  const made = useMemo(() => {
    const series = data?.series[0];
    if (!data || !series?.times) return null;
    const from = Date.parse(data.from) / 1000;
    const times = Array.from({length: data.points}, (_, i) => from + i * data.step_seconds);
    const {points} = partsOf(series), of = (name: string) => series.times?.[name];
    const line = (label: string, token: string, values: (number | null)[] | undefined, more: Partial<Line> = {}): Line =>
      ({label, token, values: values ?? [], ...more});
    return {times,
      stages: PARTS.map(([name, label]) => line(label, `part-${name}`, points[name])),
      percentiles: [line('exposed p99', 'accent', of('exposed')?.p99_seconds), line('exposed p50', 'accent', of('exposed')?.p50_seconds, {dash: true}),
        line('whole p99', 'second', of('total')?.p99_seconds), line('whole p50', 'second', of('total')?.p50_seconds, {dash: true})],
      bytes: [line('throughput', 'accent', series.bytes.map((bytes, i) => bytes / Math.max(1, Math.min(data.step_seconds, schedulerNow() / 1000 - times[i]!))))],
      failed: [line('not done', 'bad', series.failed?.map((count) => count || null), {kind: 'bars'})]};
  }, [data]);
  if (!made) return <Nothing loading={sums.loading} error={sums.error}>No transfer has ended in the last {rangeWord.value}.</Nothing>;
  const shared = {times: made.times, marks};
  return (
    <div class="charts">
      <Chart title="Where the time goes, mean of done transfers" lines={made.stages} unit={duration} stacked {...shared} />
      <Chart title="p50 and p99" lines={made.percentiles} unit={duration} {...shared} />
      <Chart title="Throughput of done transfers" lines={made.bytes} unit={rate} {...shared} />
      <Chart title="Transfers that failed, expired or were cancelled" lines={made.failed} unit={(value) => number(value, value % 1 === 0 ? 0 : 1)} {...shared} />
    </div>
  );
}

export function Overview() {
  const key = range.value, every = windowEvery();
  const times = useQuery<Histograms>('/api/v1/histograms', windowParameters, every, key);
  const sums = useQuery<Rollups>('/api/v1/rollups', () => windowParameters({times: 'yes'}), every, key);
  const marks = useQuery<{marks: Mark[]; more: boolean}>('/api/v1/marks', windowParameters, every, key);
  const none = summary.value !== null && summary.value.events === 0 && agents.value.size === 0;
  return (
    <>
      {none ? <p class="empty">No agent has reported yet. Start one with <code>--scheduler {location.host}</code>.</p> : null}
      <section class="tiles" aria-label="Now"><Throughput /><Times times={times} /><InFlight /><Ended /></section>
      <Verdict sums={sums} />
      {none ? null : <SlowestCard />}
      <Section title="Over time" note={`the last ${rangeWord.value}, a point is ${wholeSeconds(sums.data?.step_seconds ?? rangeSeconds.value / 60)}`}>
        <Stale query={sums} />
        <Charts sums={sums} marks={marks.data?.marks ?? []} />
      </Section>
      <Changes marks={marks} />
    </>
  );
}
