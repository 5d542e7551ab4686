// One agent: what it is, its rails as lanes (the width of a lane's fill is its use of the capacity), and its actions.
import {linkTo} from './address';
import {order} from './api';
import {bits, duration, number, plural, rate, size, wholeSeconds} from './format';
import {Action, Nothing, Stale, State} from './parts';
import {useQuery} from './query';
import {agents, mayAct, nowThere, rates} from './store';
import type {Agent, Rail} from './types';

// A peer is warm when every pair of rails in use with it has carried a write. Only prefill-agents report it.
function peersText(agent: Agent): string {
  const {peers_up: up, peers_warm: warm} = agent;
  if (up === 0) return 'no peer';
  const peers = plural(up, 'peer');
  if (warm === null) return peers;
  return warm < up ? `${peers}, ${number(warm)} warm` : `${peers}, warm`;
}

function factsText(agent: Agent): string {
  const models = [...new Set(agent.engines.map((engine) => engine.model).filter(Boolean))];
  const memory = agent.engines.reduce((sum, engine) => sum + engine.region_bytes, 0);
  return [agent.version ? `version ${agent.version}` : null, agent.provider,
    `${plural(agent.engines.length, 'engine')}${models.length ? ` (${models.join(', ')})` : ''}`,
    memory > 0 ? `${size(memory)} registered` : null, agent.state === 'up' ? peersText(agent) : null,
    agent.insecure ? 'insecure: peers prove no identity' : null,
    agent.events_dropped > 0 ? `${number(agent.events_dropped)} events dropped` : null,
    agent.name_shared_with ? `its name is used on ${agent.name_shared_with} too` : null,
    agent.clock_ahead_seconds !== null && Math.abs(agent.clock_ahead_seconds) > 0.1 ? `its clock is ${duration(agent.clock_ahead_seconds)} ahead` : null,
    agent.options ? `options ${agent.options}` : null].filter(Boolean).join(' · ');
}

// The work of the rail's thread; a target posts nothing.
function railWork(rail: Rail): string {
  const of = (name: string): number => rail.counters[name] ?? 0;
  return [`${rail.provider} ${rail.address ?? ''}`, `group ${rail.group}`, `epoch ${rail.epoch}`, `${number(rail.writes)} writes`, size(rail.bytes),
    of('batches') > 0 ? `${(rail.writes / of('batches')).toFixed(1)} writes a batch, ${number(of('in_flight_writes'))} of ${number(of('window_writes'))} in flight, refused ${number(of('refusals'))} times` : '',
    `its thread has used ${of('thread_cpu_seconds').toFixed(1)} s of CPU, spun ${of('thread_spin_seconds').toFixed(1)} s and slept ${of('thread_sleep_seconds').toFixed(1)} s`]
    .filter(Boolean).join(' · ');
}

function Lane({agent, rail, perSecond, busiest}: {agent: Agent; rail: Rail; perSecond: number | null; busiest: number}) {
  const room = rail.speed_bits_per_second ? rail.speed_bits_per_second / 8 : busiest;
  return (
    <tr>
      <th scope="row" title={railWork(rail)}>{rail.name}</th>
      <td class="quiet">{bits(rail.speed_bits_per_second)}</td>
      <td><span class="lane" data-state={rail.state}><i style={{width: `${Math.min(100, (perSecond ?? 0) / room * 100)}%`}} /></span></td>
      <td class="number">{rail.state === 'up' ? rate(perSecond) : <State name={rail.state} />}</td>
      <td class="number"><a href={linkTo('transfers', {agent: agent.name, rail: rail.name})}>transfers<span class="hidden"> of {rail.name}</span></a></td>
    </tr>
  );
}

function Actions({agent, again}: {agent: Agent; again: () => void}) {
  if (!mayAct.value || agent.state !== 'up') return null;
  const send = (what: string) => async (): Promise<void> => {
    await order(`/api/v1/agents/${encodeURIComponent(agent.name)}/${what}`);
    setTimeout(again, 1500);
  };
  return agent.drained
    ? <Action key="resume" label="Resume" sure={`Let ${agent.name} take new requests`} act={send('resume')} />
    : <Action key="drain" label="Drain" sure={`Let ${agent.name} take no new requests`} act={send('drain')} />;
}

export function AgentDetail({name}: {name: string}) {
  const query = useQuery<{agents: Agent[]}>('/api/v1/agents', () => ({agent: name}), 2000, name);
  const agent = query.data?.agents[0];
  if (!agent) return <Nothing loading={query.loading} error={query.error}>The scheduler does not know {name} any more.</Nothing>;
  const measured = rates.value.get(name)?.perSecond ?? [], state = agents.value.get(name)?.state ?? agent.state;
  const busiest = Math.max(1, ...measured.map((value) => value ?? 0));
  const silent = agent.seen ? (nowThere.value - Date.parse(agent.seen)) / 1000 : agent.silent_seconds;
  return (
    <div class="agent-detail">
      <Stale query={query} />
      <p class="quiet">{state !== 'up' ? `silent for ${wholeSeconds(Math.max(0, silent))} · ` : ''}{factsText(agent)}</p>
      {state !== 'up' ? null : <div class="scroll low" tabIndex={0} role="region" aria-label={`Rails of ${name}`}>
        <table class="lanes">
          <caption class="hidden">Rails of {name}: capacity and use</caption>
          <tbody>{agent.rails.map((rail, i) => <Lane key={i} agent={agent} rail={rail} perSecond={measured[i] ?? null} busiest={busiest} />)}</tbody>
        </table>
      </div>}
      <p class="actions">
        <a href={linkTo('transfers', {agent: name})}>Its transfers</a>
        <a href={linkTo('rails', {agent: name})}>Its rails over time</a>
        <Actions agent={agent} again={query.again} />
      </p>
    </div>
  );
}
