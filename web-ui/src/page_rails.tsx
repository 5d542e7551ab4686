// The cards of one agent over time, as a heatmap: dark is little, bright is much. A box says what differs inside it.
import {useEffect, useRef, useState} from 'preact/hooks';

import {range, rangeWord, want, wanted} from './address';
import {duration, localTime, number, plural, rate, size} from './format';
import {DataTable, Nothing, Section, Stale} from './parts';
import {useQuery} from './query';
import {drawBox, heldView, readBox} from './rails_box';
import {Heatmap} from './rails_heatmap';
import {Inside} from './rails_inside';
import {agents, rateOf} from './store';
import type {Agent, Rollups, Series} from './types';
import {isoAt, windowEvery, windowNow} from './window';

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
    </p>
  );
}

// The window of the question: of the box while one is drawn, else up to now.
function windowShown(): {from: string; until: string} {
  const held = heldView();
  return held ? {from: isoAt(held.from), until: isoAt(held.until)} : windowNow();
}

function noteOf(data: Rollups | null): string {
  const held = heldView(), column = data ? `, a column is ${duration(data.step_seconds)}` : '';
  return held ? `from ${localTime(held.from)} to ${localTime(held.until)}, held while a box is drawn${column}` : `in the last ${rangeWord.value}${column}`;
}

// A link may name an agent that is gone: its rails over time are kept all the same.
function useAgent(): [string, string[]] {
  const names = [...agents.value.values()].sort((a, b) => rateOf(b.name) - rateOf(a.name)).map((agent) => agent.name);
  // The choice stays, although another agent may become the busiest one.
  const [first, setFirst] = useState(''), agent = wanted('agent') || first || names[0] || '';
  if (!first && names[0]) setFirst(names[0]);
  return [agent, [...new Set([...names, agent])].filter(Boolean).sort((a, b) => a.localeCompare(b, 'en', {numeric: true}))];
}

function Tools({agent, names}: {agent: string; names: string[]}) {
  return (
    <>
      {readBox(wanted('box')) ? <button type="button" id="follow-again" title="Key: escape" onClick={() => drawBox(null, agent, 0)}>Clear the box</button> : null}
      <label class="field one">Agent
        <select id="rails-agent" value={agent} onChange={(event) => want({agent: event.currentTarget.value, box: '', until: ''})}>
          {names.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
    </>
  );
}

export function Rails() {
  const [agent, names] = useAgent(), box = readBox(wanted('box')), held = `${wanted('box')} ${wanted('until')}`, before = useRef(held);
  const query = useQuery<Rollups>(agent ? '/api/v1/rollups' : null, () => ({by: 'rail', agent, ...windowShown()}), windowEvery(), `${agent} ${range.value}`);
  const facts = useQuery<{agents: Agent[]}>(agent ? '/api/v1/agents' : null, () => ({agent}), 10000, agent);
  useEffect(() => {
    if (before.current !== held) query.again();
    before.current = held;
  }, [held]);
  const known = facts.data?.agents[0] ?? null, nameOf = (rail: number): string => known?.rails[rail]?.name ?? `rail ${rail}`;
  const downs = new Set((known?.state === 'up' ? known.rails : []).flatMap((rail, i) => (rail.state === 'up' ? [] : [i])));
  const any = query.data !== null && query.data.series.length > 0, data = withAll(query.data, known?.rails.length ?? 0);
  const rails = (data?.series ?? []).map((one) => one.rail ?? 0).sort((a, b) => a - b);
  const bad = wanted('box') && !box ? <p class="stale-note" role="alert">The link has no box that can be read: “{wanted('box')}”. Draw one.</p> : null;
  return (
    <Section title="Rails over time" note={noteOf(data)} tools={<Tools agent={agent} names={names} />}>
      {bad}
      {!any || !data ? <Nothing loading={query.loading && agent !== ''} error={query.error}>{agent ? `No rail of ${agent} has moved bytes ${box ? 'in that time' : `in the last ${rangeWord.value}`}.` : 'No agent has reported yet.'}</Nothing> : (
        <>
          <Stale query={query} />
          <Least data={data} nameOf={nameOf} />
          <Heatmap data={data} came={query.at} nameOf={nameOf} downs={downs} box={box} draw={(next) => drawBox(next, agent, Date.parse(data.until))} />
          <ul class="legend heat">{Array.from({length: 9}, (_, i) => <li key={i} class={`heat-${i}`}>{i === 0 ? 'little' : i === 8 ? 'much' : ''}</li>)}<li class="none">✕ an error</li></ul>
          {box ? <Inside key={agent} place={{box, agent, rails, nameOf, facts: known, view: data, came: query.at}} /> : null}
          <DataTable caption="rails over time" head={['Rail', 'Bytes', 'Mean rate', 'Errors']}
            rows={data.series.map((one) => [nameOf(one.rail ?? 0), size(one.totals['bytes'] ?? 0), rate((one.totals['bytes'] ?? 0) / (data.points * data.step_seconds)), number(one.totals['errors'] ?? 0)])} />
        </>)}
    </Section>
  );
}
