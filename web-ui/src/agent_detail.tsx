// One agent: what it is, its rails as lanes, and its actions.
import {linkTo} from './address';
import {order} from './api';
import {duration, number, plural, size, wholeSeconds} from './format';
import {Lanes} from './lanes';
import {Action, Nothing, Stale} from './parts';
import {useQuery} from './query';
import {agents, mayAct, nowThere} from './store';
import type {Agent} from './types';

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
  const state = agents.value.get(name)?.state ?? agent.state;
  const silent = agent.seen ? (nowThere.value - Date.parse(agent.seen)) / 1000 : agent.silent_seconds;
  return (
    <div class="agent-detail">
      <Stale query={query} />
      <p class="quiet">{state !== 'up' ? `silent for ${wholeSeconds(Math.max(0, silent))} · ` : ''}{factsText(agent)}</p>
      {state === 'up' ? <Lanes agent={agent} /> : null}
      <p class="actions">
        <a href={linkTo('transfers', {agent: name})}>Its transfers</a>
        <a href={linkTo('rails', {agent: name})}>Its rails over time</a>
        <Actions agent={agent} again={query.again} />
      </p>
    </div>
  );
}
