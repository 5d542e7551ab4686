// How long transfers and their stages took in one window of time, over those of another: what differs, in words.
import {range, wanted} from './address';
import {duration, number} from './format';
import {SpanTimes, WindowChoice} from './latency_choice';
import {Differences} from './latency_differences';
import {Histogram} from './latency_histogram';
import {chosenName, chosenPair, deployOf, DEPLOY_SEARCH, overlapSeconds, type Deploy, type Pair} from './latency_windows';
import {DataTable, Nothing, Section, Stale} from './parts';
import {useQuery} from './query';
import {schedulerNow} from './store';
import type {Comparison, Mark} from './types';
import {isoAt, windowEvery} from './window';
import {TIMES} from './words';

function rowOf(data: Comparison, name: string): string[] {
  const now = data.window.times[name], before = data.with.times[name], exposed = (side: Comparison['window']): string => duration(side.times['exposed']?.p99_seconds);
  return [TIMES[name] ?? name, number(now?.count ?? 0), duration(now?.p50_seconds), duration(now?.p90_seconds), duration(now?.p99_seconds), exposed(data.window),
    number(before?.count ?? 0), duration(before?.p50_seconds), duration(before?.p90_seconds), duration(before?.p99_seconds), exposed(data.with)];
}

function Both({data, pair}: {data: Comparison; pair: Pair}) {
  const {nameA, nameB} = pair, names = Object.keys(TIMES), {window, with: other} = data, overlap = overlapSeconds(pair);
  const exposed: [number | null | undefined, number | null | undefined] = [window.times['exposed']?.p99_seconds, other.times['exposed']?.p99_seconds];
  const none = [window.transfers === 0 ? nameA : '', other.transfers === 0 ? nameB : ''].filter(Boolean);
  return (
    <>
      <ul class="legend windows">
        <li class="key-now" id="window-a">{nameA}: {number(window.transfers)} transfers, <SpanTimes from={window.from} until={window.until} /></li>
        <li class="key-before" id="window-b">{nameB}: {number(other.transfers)} transfers, <SpanTimes from={other.from} until={other.until} /></li>
      </ul>
      {overlap > 0 ? <p class="quiet" id="overlap">Both windows have {duration(overlap)} in common: what ended then counts in both.</p> : null}
      {none.length > 0 ? <p class="lead">No transfer ended in {none.join(', nor in ')}: there is no difference to name.</p> : <Differences data={data} nameA={nameA} nameB={nameB} />}
      <p class="quiet">Share of transfers, over time on a logarithmic scale.</p>
      <div class="charts three">{names.map((name) => <Histogram key={name} name={name} now={window.times[name]} before={other.times[name]} exposed={exposed} nameA={nameA} nameB={nameB} />)}</div>
      <DataTable caption="times of both windows" head={['Time', 'Transfers', 'p50', 'p90', 'p99', 'exposed p99', 'Transfers, compared', 'p50, compared', 'p90, compared', 'p99, compared', 'exposed p99, compared']} rows={names.map((name) => rowOf(data, name))} />
    </>
  );
}

// The last deploy, as far as it is needed.
function useDeploy(): {deploy: Deploy | null | undefined; error: string} {
  const needed = chosenName() === 'deploy';
  const marks = useQuery<{marks: Mark[]}>(needed ? '/api/v1/marks' : null, () => ({from: isoAt(schedulerNow() - DEPLOY_SEARCH), until: isoAt(schedulerNow())}), 15000);
  return {deploy: marks.data ? deployOf(marks.data.marks) : undefined, error: marks.error};
}

export function Latency() {
  const {deploy, error} = useDeploy(), key = [chosenName(), range.value, wanted('a'), wanted('b'), deploy?.from, deploy?.until].join(' ');
  const now = schedulerNow(), {pair, why} = chosenPair(now, deploy);
  const query = useQuery<Comparison>(pair ? '/api/v1/compare' : null, () => {
    const {a, b} = chosenPair(schedulerNow(), deploy).pair ?? pair!;
    return {from: isoAt(a.from), until: isoAt(a.until), with_from: isoAt(b.from), with_until: isoAt(b.until)};
  }, Math.max(4000, windowEvery()), key);
  const data = query.data;
  return (
    <Section title="How long transfers took" note={pair ? `${pair.nameA}, beside ${pair.nameB}` : 'no two windows to compare'} id="latencies">
      <WindowChoice pair={pair} />
      {!pair ? <p class={why === 'Loading…' ? 'empty' : 'empty bad'} role={why === 'Loading…' ? undefined : 'alert'} id="no-windows">{error || why}</p> : !data ? <Nothing loading={query.loading} error={query.error} />
        : data.window.transfers + data.with.transfers === 0 ? <Nothing>No transfer has ended in {pair.nameA}, nor in {pair.nameB}.</Nothing> : (
          <>
            <Stale query={query} />
            <Both data={data} pair={pair} />
          </>)}
    </Section>
  );
}
