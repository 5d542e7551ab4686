// Hosts with their agents and cards, the worst first; and how cards reach each other.
import {useState} from 'preact/hooks';

import {want, wanted} from './address';
import {AgentDetail} from './agent_detail';
import {plural, number, rate} from './format';
import {conditionOf, conditionWord, hostName, hostsOf, rankOf, type Host} from './hosts';
import {Matrix} from './matrix';
import {Nothing, Section, State} from './parts';
import {agents, rateOf, rates, summary} from './store';
import type {AgentShort} from './types';

const SHOWN = 40;     // hosts, until more are asked for
const OPEN_MAX = 8;   // a fleet, or what a search leaves of it, of so many agents is shown open
const HOST = 'host:'; // before the name of an open host, among the open agents

const openNames = (): Set<string> => new Set(wanted('open').split(',').filter(Boolean));

// A host that is closed takes its agents with it.
function toggle(name: string, isOpen: boolean, all: string[]): void {
  const names = new Set([...openNames(), ...all]);
  if (!isOpen) names.add(name);
  else if (!name.startsWith(HOST)) names.delete(name);
  else for (const agent of [name, ...[...agents.value.values()].filter((one) => hostName(one) === name.slice(HOST.length)).map((one) => one.name)]) names.delete(agent);
  want({open: [...names].join() || 'none'});
}

// A bar for each rail: its height is its share of the busiest rail of the fleet.
function RailBars({agent, busiest}: {agent: AgentShort; busiest: number}) {
  const perSecond = rates.value.get(agent.name)?.perSecond ?? [], down = agent.rail_bytes.length - agent.rails_up;
  return (
    <svg class="rail-bars" viewBox={`0 0 ${Math.max(1, agent.rail_bytes.length) * 5} 18`} style={{width: `${agent.rail_bytes.length * 5}px`}} role="img"
      aria-label={`${plural(agent.rail_bytes.length, 'rail')}${down > 0 ? `, ${down} of them down` : ''}, ${rate(rateOf(agent.name))}`}>
      {agent.rail_bytes.map((_, i) => {
        const height = Math.round(15 * Math.min(1, (perSecond[i] ?? 0) / busiest));
        return <g key={i}><rect class="room" x={i * 5} y={1} width={4} height={16} /><rect class="use" x={i * 5} y={17 - height} width={4} height={height} /></g>;
      })}
    </svg>
  );
}

function AgentRow({agent, busiest, isOpen, all}: {agent: AgentShort; busiest: number; isOpen: boolean; all: string[]}) {
  const condition = conditionOf(agent);
  return (
    <li class="agent" data-agent={agent.name} data-state={agent.state}>
      <button type="button" class="row-button" aria-expanded={isOpen ? 'true' : 'false'} onClick={() => toggle(agent.name, isOpen, all)}>
        <span class="turn" aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
        <strong>{agent.name}</strong>
        <State name={condition} word={conditionWord(condition)} />
        <span class="quiet">{agent.role}</span>
        <RailBars agent={agent} busiest={busiest} />
        <span class="spring" />
        {condition === 'down' ? <span class="bad">{`${agent.rails_up} of ${agent.rail_bytes.length} rails up`}</span> : null}
        <span class="quiet value">{agent.state === 'up' ? `${number(agent.transfers_live)} live` : ''}</span>
        <span class="value">{rate(rateOf(agent.name))}</span>
      </button>
      {isOpen ? <AgentDetail name={agent.name} /> : null}
    </li>
  );
}

// Of a large fleet a host is one line, until it is opened: how busy it is beside the busiest one, and what is worst.
function HostLine({host, busiest, isOpen, all}: {host: Host; busiest: number; isOpen: boolean; all: string[]}) {
  const worst = host.agents.find((agent) => conditionOf(agent) === host.worst), down = host.rails - host.railsUp;
  return (
    <button type="button" class="row-button" aria-expanded={isOpen ? 'true' : 'false'} onClick={() => toggle(HOST + host.name, isOpen, all)}>
      <span class="turn" aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
      <h3>{host.name}</h3>
      <State name={host.worst} word={conditionWord(host.worst)} />
      <span class="quiet">{plural(host.agents.length, 'agent')}{worst && host.worst !== 'up' && host.agents.length > 1 ? `, ${worst.name} is the worst` : ''}</span>
      <span class="spring" />
      <span class={down > 0 ? 'bad' : 'quiet'}>{`${number(host.railsUp)} of ${plural(host.rails, 'rail')} up`}</span>
      <span class="lane host-lane" aria-hidden="true"><i style={{width: `${Math.min(100, 100 * host.rate / busiest)}%`}} /></span>
      <span class="quiet value">{number(host.live)} live</span>
      <span class="value">{rate(host.rate)}</span>
    </button>
  );
}

function HostHead({host}: {host: Host}) {
  return (
    <header>
      <h3>{host.name}</h3>
      <State name={host.worst} word={conditionWord(host.worst)} />
      <span class="spring" />
      <span class="quiet">{`${plural(host.agents.length, 'agent')} · ${host.railsUp} of ${plural(host.rails, 'rail')} up · ${number(host.live)} live`}</span>
      <span class="value">{rate(host.rate)}</span>
    </header>
  );
}

// `busiest`: of the fleet, a rail and a host, in bytes a second.
function HostCard({host, busiest, opened, large}: {host: Host; busiest: {rail: number; host: number}; opened: Set<string>; large: boolean}) {
  const all = [...opened], isOpen = !large || opened.has(HOST + host.name) || host.agents.some((agent) => opened.has(agent.name));
  return (
    <article class={large ? 'host line' : 'host'} data-host={host.name} data-state={host.worst}>
      {large ? <HostLine host={host} busiest={busiest.host} isOpen={isOpen} all={all} /> : <HostHead host={host} />}
      {isOpen ? (
        <ul class="agents">
          {host.agents.map((agent) => <AgentRow key={agent.name} agent={agent} busiest={busiest.rail} isOpen={opened.has(agent.name)} all={all} />)}
        </ul>) : null}
    </article>
  );
}

function Counts({list}: {list: AgentShort[]}) {
  const counts = new Map<string, number>();
  for (const agent of list) counts.set(conditionOf(agent), (counts.get(conditionOf(agent)) ?? 0) + 1);
  return (
    <div class="filters" role="group" aria-label="Condition of agents">
      {[...counts].sort(([a], [b]) => rankOf(a) - rankOf(b)).map(([condition, count]) => (
        <button key={condition} type="button" aria-pressed={wanted('q') === conditionWord(condition) ? 'true' : 'false'}
          onClick={() => want({q: wanted('q') === conditionWord(condition) ? '' : conditionWord(condition)})}>
          <State name={condition} word={`${number(count)} ${conditionWord(condition)}`} /></button>))}
    </div>
  );
}

export function Fleet() {
  const [shown, setShown] = useState(SHOWN), list = [...agents.value.values()], search = wanted('q');
  const hosts = hostsOf(list, rateOf, search), seen = hosts.slice(0, shown);
  const found = hosts.reduce((sum, host) => sum + host.agents.length, 0), large = found > OPEN_MAX;
  const busiest = {host: Math.max(1, ...hosts.map((host) => host.rate)), rail: Math.max(1, ...[...rates.value.values()].flatMap((of) => of.perSecond.map((value) => value ?? 0)))};
  const opened = wanted('open') ? openNames() : new Set(large ? [] : hosts.flatMap((host) => host.agents).filter((agent) => agent.state === 'up').map((agent) => agent.name));
  return (
    <>
      <Section title="Hosts" note={`${plural(hosts.length, 'host')}, ${plural(list.length, 'agent')}; the worst first`}
        tools={(
          <>
            <Counts list={list} />
            <label class="field one">Search
              <input type="search" name="q" value={search} placeholder="host, agent, state" spellcheck={false} onInput={(event) => want({q: event.currentTarget.value})} />
            </label>
          </>)}>
        {hosts.length === 0 ? <Nothing loading={summary.value === null}>{search ? `No host or agent matches “${search}”.`
          : <>No agent has reported yet. Start one with <code>--scheduler {location.host}</code>.</>}</Nothing> : (
          <div class={`scroll hosts${large ? ' many' : ''}`} tabIndex={0} role="region" aria-label="List of hosts">
            {seen.map((host) => <HostCard key={host.name} host={host} busiest={busiest} opened={opened} large={large} />)}
            {hosts.length > seen.length ? (
              <p class="more quiet"><span>{number(hosts.length - seen.length)} more hosts, no worse than these.</span>
                <button type="button" onClick={() => setShown(shown + SHOWN)}>Show {Math.min(SHOWN, hosts.length - seen.length)} more</button></p>) : null}
          </div>)}
      </Section>
      <div class={list.length > OPEN_MAX ? 'matrix-place many' : 'matrix-place'}><Matrix list={list} /></div>
    </>
  );
}
