// The cards of one agent over time, as a heatmap: dark is little, bright is much.
import {useState} from 'preact/hooks';

import {linkTo, range, rangeWord, want, wanted} from './address';
import {duration, localTime, number, plural, rate, size} from './format';
import {DataTable, Nothing, Section, Stale, Time} from './parts';
import {useQuery} from './query';
import {agents, rateOf} from './store';
import type {Agent, Rollups, Series} from './types';
import {isoAt, windowEvery, windowParameters} from './window';

const LEFT = 120, WIDTH = 1000, ROW = 22;

interface Chosen { rail: number; at: number } // ms: the column's place changes as time goes by

const pointOf = (data: Rollups, at: number): number => (at - Date.parse(data.from)) / (data.step_seconds * 1000);

// Seconds of a column that had passed when its data came: the last one was not over.
const passed = (data: Rollups, at: number, point: number): number =>
  Math.max(1, Math.min(data.step_seconds, (at - Date.parse(data.from)) / 1000 - point * data.step_seconds));

// Cividis in 9 steps, by the token heat-0 to heat-8.
const heat = (value: number, top: number): number => (value <= 0 ? -1 : Math.min(8, Math.floor(9 * value / top)));

function Heatmap({data, came, nameOf, chosen, choose}:
  {data: Rollups; came: number; nameOf: (rail: number) => string; chosen: Chosen | null; choose: (at: Chosen) => void}) {
  const series = [...data.series].filter((one) => one.rail !== undefined).sort((a, b) => (a.rail ?? 0) - (b.rail ?? 0));
  const cell = (WIDTH - LEFT) / data.points, from = Date.parse(data.from), step = data.step_seconds * 1000;
  const perSecond = (bytes: number, point: number): number => bytes / passed(data, came, point);
  const top = Math.max(1, ...series.flatMap((one) => one.bytes.map(perSecond))), height = series.length * ROW + 24;
  return (
    <svg class="heatmap" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label="Throughput of each rail over time; the table below has its data">
      {series.map((one, row) => (
        <g key={one.rail}>
          <text class="name" x={0} y={row * ROW + ROW / 2 + 4}>{nameOf(one.rail ?? 0)}</text>
          {one.bytes.map((bytes, point) => (
            <rect key={point} class={`heat-${heat(perSecond(bytes, point), top)}${chosen?.rail === one.rail && chosen?.at === from + point * step ? ' chosen' : ''}`} x={LEFT + point * cell} y={row * ROW + 1} width={cell - 0.5} height={ROW - 2}
              onClick={() => choose({rail: one.rail ?? 0, at: from + point * step})}>
              <title>{`${nameOf(one.rail ?? 0)} at ${localTime(from + point * step)}: ${rate(perSecond(bytes, point))}${(one.errors?.[point] ?? 0) > 0 ? `, ${one.errors?.[point]} errors` : ''}`}</title>
            </rect>))}
          {(one.errors ?? []).map((errors, point) => (errors > 0 ? <text key={point} class="fault" x={LEFT + (point + 0.5) * cell} y={row * ROW + ROW / 2 + 4} text-anchor="middle">✕</text> : null))}
        </g>))}
      <text class="name" x={LEFT} y={height - 6}>{localTime(from)}</text>
      <text class="name" x={WIDTH} y={height - 6} text-anchor="end">{localTime(data.until)}</text>
    </svg>
  );
}

function Inside({chosen, data, came, agent, nameOf}: {chosen: Chosen; data: Rollups; came: number; agent: string; nameOf: (rail: number) => string}) {
  const point = pointOf(data, chosen.at), seconds = passed(data, came, point), from = chosen.at, until = from + data.step_seconds * 1000;
  const at = (rail: number | undefined): number => data.series.find((one) => one.rail === rail)?.bytes[point] ?? 0;
  if (!Number.isInteger(point) || point < 0 || point >= data.points) return null; // it has left the range, or its columns are others now
  const others = data.series.filter((one) => one.rail !== chosen.rail).map((one) => at(one.rail));
  const mean = others.length > 0 ? others.reduce((a, b) => a + b, 0) / others.length : 0, own = at(chosen.rail);
  return (
    <p class="lead" id="inside">
      <strong>{nameOf(chosen.rail)}</strong> from <Time at={isoAt(from)} /> for {duration(seconds)}: {size(own)}, {rate(own / seconds)}
      {others.length > 0 ? `; the other rails had ${rate(mean / seconds)} each on average (${mean > 0 ? `${number(100 * own / mean)} %` : '–'}).` : '.'}{' '}
      <a href={linkTo('transfers', {agent, rail: String(chosen.rail), from: isoAt(from), until: isoAt(until)})}>Its transfers of that time</a>
    </p>
  );
}

// A rail that has moved nothing has no series: each that the agent has gets one.
function withAll(data: Rollups | null, rails: number): Rollups | null {
  if (!data || data.left_out > 0) return data;
  const known = new Set(data.series.map((one) => one.rail)), zeros = Array<number>(data.points).fill(0);
  const others = Array.from({length: rails}, (_, rail) => rail).filter((rail) => !known.has(rail))
    .map((rail): Series => ({rail, totals: {bytes: 0, errors: 0}, bytes: zeros, errors: zeros}));
  return {...data, series: [...data.series, ...others]};
}

function Least({data, nameOf}: {data: Rollups; nameOf: (rail: number) => string}) {
  const bytesOf = (one: Series): number => one.totals['bytes'] ?? 0, least = Math.min(...data.series.map(bytesOf));
  const slowest = data.series.filter((one) => bytesOf(one) === least).map((one) => nameOf(one.rail ?? 0)).sort();
  return (
    <p class="lead" id="slowest">
      {data.left_out > 0 ? `${plural(data.left_out, 'rail')} that moved less than these ${number(data.series.length)} ${data.left_out === 1 ? 'is' : 'are'} left out. ` : (
        <>Least was moved by <strong>{slowest.slice(0, 3).join(', ')}{slowest.length > 3 ? ` and ${number(slowest.length - 3)} more` : ''}</strong>: {size(least)}, of {size(data.series.reduce((sum, one) => sum + bytesOf(one), 0))} over {number(data.series.length)} rails. </>)}
      Choose a cell to see more.
    </p>
  );
}

export function Rails() {
  const names = [...agents.value.values()].sort((a, b) => rateOf(b.name) - rateOf(a.name)).map((agent) => agent.name);
  // The choice stays, although another agent may become the busiest one.
  const [first, setFirst] = useState('');
  const agent = wanted('agent') || first || names[0] || '';
  if (!first && names[0]) setFirst(names[0]);
  const [chosen, choose] = useState<Chosen | null>(null);
  const query = useQuery<Rollups>(agent ? '/api/v1/rollups' : null, () => windowParameters({by: 'rail', agent}), windowEvery(), `${agent} ${range.value}`);
  const facts = useQuery<{agents: Agent[]}>(agent ? '/api/v1/agents' : null, () => ({agent}), 10000, agent);
  const nameOf = (rail: number): string => facts.data?.agents[0]?.rails[rail]?.name ?? `rail ${rail}`;
  const any = query.data !== null && query.data.series.length > 0, data = withAll(query.data, facts.data?.agents[0]?.rails.length ?? 0);
  return (
    <Section title="Rails over time" note={`in the last ${rangeWord.value}${data ? `, a column is ${duration(data.step_seconds)}` : ''}`}
      tools={(
        <label class="field one">Agent
          <select id="rails-agent" value={agent} onChange={(event) => { choose(null); want({agent: event.currentTarget.value}); }}>
            {[...new Set([...names, agent])].filter(Boolean).sort().map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>)}>
      {!any || !data ? <Nothing loading={query.loading && agent !== ''} error={query.error}>{agent ? `No rail of ${agent} has moved bytes in the last ${rangeWord.value}.` : 'No agent has reported yet.'}</Nothing> : (
        <>
          <Stale query={query} />
          <Least data={data} nameOf={nameOf} />
          <div class="scroll hosts" tabIndex={0} role="region" aria-label="Heatmap"><Heatmap data={data} came={query.at} nameOf={nameOf} chosen={chosen} choose={choose} /></div>
          <ul class="legend heat">{Array.from({length: 9}, (_, i) => <li key={i} class={`heat-${i}`}>{i === 0 ? 'little' : i === 8 ? 'much' : ''}</li>)}<li class="none">✕ an error</li></ul>
          {chosen ? <Inside chosen={chosen} data={data} came={query.at} agent={agent} nameOf={nameOf} /> : null}
          <DataTable caption="rails over time" head={['Rail', 'Bytes', 'Mean rate', 'Errors']}
            rows={data.series.map((one) => [nameOf(one.rail ?? 0), size(one.totals['bytes'] ?? 0), rate((one.totals['bytes'] ?? 0) / (data.points * data.step_seconds)), number(one.totals['errors'] ?? 0)])} />
        </>)}
    </Section>
  );
}
