// The cards of one agent as lanes, by NUMA node: the length of a lane is its capacity, its fill is its use.
import {signal} from '@preact/signals';
import {useEffect} from 'preact/hooks';

import {linkTo} from './address';
import {bits, number, plural, rate, share, size} from './format';
import {State} from './parts';
import {rates} from './store';
import type {Agent, Gpu, Rail} from './types';

// The fastest card that is shown: lanes of all agents have one scale. Bits a second.
const fastest = signal(0);

// The work of the rail's thread; a target posts nothing.
function railWork(rail: Rail): string {
  const of = (name: string): number => rail.counters[name] ?? 0;
  return [`${rail.provider} ${rail.address ?? ''}`, `group ${rail.group}`, `epoch ${rail.epoch}`, `${number(rail.writes)} writes`, size(rail.bytes),
    of('batches') > 0 ? `${(rail.writes / of('batches')).toFixed(1)} writes a batch, ${number(of('in_flight_writes'))} of ${number(of('window_writes'))} in flight, refused ${number(of('refusals'))} times` : '',
    `its thread has used ${of('thread_cpu_seconds').toFixed(1)} s of CPU, spun ${of('thread_spin_seconds').toFixed(1)} s and slept ${of('thread_sleep_seconds').toFixed(1)} s`]
    .filter(Boolean).join(' · ');
}

function Lane({agent, rail, perSecond, busiest}: {agent: Agent; rail: Rail; perSecond: number | null; busiest: number}) {
  const speed = rail.speed_bits_per_second, room = speed ? speed / 8 : busiest, used = Math.min(100, (perSecond ?? 0) / room * 100);
  const length = speed && fastest.value > 0 ? Math.max(2, 100 * speed / fastest.value) : 100;
  return (
    <tr data-rail={rail.name}>
      <th scope="row" title={railWork(rail)}>{rail.name}</th>
      <td class="quiet">{bits(speed)}</td>
      <td class="room"><span class="lane" data-state={rail.state} data-unknown={speed ? undefined : 'yes'} style={{width: `${length}%`}}><i style={{width: `${used}%`}} /></span></td>
      <td class="number">{rail.state === 'up' ? rate(perSecond) : <State name={rail.state} />}</td>
      <td class="number quiet">{rail.state === 'up' && speed && perSecond !== null ? share(perSecond, room) : ''}</td>
      <td class="number"><a href={linkTo('transfers', {agent: agent.name, rail: rail.name})}>transfers<span class="hidden"> of {rail.name}</span></a></td>
    </tr>
  );
}

interface Node { node: number | null; gpus: Gpu[]; rails: number[] }

// What lies in no node that is known comes last.
export function nodesOf(agent: Agent): Node[] {
  const nodes = new Map<number | null, Node>();
  const at = (node: number | null): Node => {
    const known = nodes.get(node) ?? {node, gpus: [], rails: []};
    nodes.set(node, known);
    return known;
  };
  agent.rails.forEach((rail, i) => at(rail.traits?.node ?? null).rails.push(i));
  for (const gpu of agent.traits?.gpus ?? []) at(gpu.node).gpus.push(gpu);
  return [...nodes.values()].sort((a, b) => (a.node ?? Infinity) - (b.node ?? Infinity));
}

function GpuRow({agent, gpu}: {agent: Agent; gpu: Gpu}) {
  const near = agent.rails.filter((rail) => gpu.groups.includes(rail.group)).map((rail) => rail.name);
  return (
    <tr class="gpu" data-gpu={gpu.pci}>
      <th scope="row">GPU {gpu.pci}</th>
      <td class="quiet" colSpan={5}>{[gpu.model, near.length > 0 ? `nearest: ${near.slice(0, 4).join(', ')}${near.length > 4 ? ` and ${number(near.length - 4)} more` : ''}` : ''].filter(Boolean).join(' · ')}</td>
    </tr>
  );
}

function NodeRows({agent, node, several, busiest}: {agent: Agent; node: Node; several: boolean; busiest: number}) {
  const measured = rates.value.get(agent.name)?.perSecond ?? [], speeds = node.rails.map((rail) => agent.rails[rail]!.speed_bits_per_second ?? 0);
  const used = node.rails.reduce((sum, rail) => sum + (measured[rail] ?? 0), 0), room = speeds.every((speed) => speed > 0) ? speeds.reduce((a, b) => a + b, 0) : 0;
  const headed = node.node !== null || several;
  return (
    <tbody data-node={node.node ?? ''}>
      {headed ? (
        <tr class="node"><th scope="rowgroup" colSpan={3}>{node.node === null ? 'NUMA node not known' : `NUMA node ${node.node}`}
          <span class="quiet"> {[node.gpus.length > 0 ? plural(node.gpus.length, 'GPU') : '', plural(node.rails.length, 'card'), room > 0 ? bits(room) : ''].filter(Boolean).join(', ')}</span></th>
          <td class="number">{node.rails.length > 0 ? rate(used) : ''}</td><td class="number quiet">{room > 0 ? share(used, room / 8) : ''}</td><td /></tr>) : null}
      {node.gpus.map((gpu) => <GpuRow key={gpu.pci} agent={agent} gpu={gpu} />)}
      {node.rails.map((rail) => <Lane key={rail} agent={agent} rail={agent.rails[rail]!} perSecond={measured[rail] ?? null} busiest={busiest} />)}
    </tbody>
  );
}

export function Lanes({agent}: {agent: Agent}) {
  const nodes = nodesOf(agent), measured = rates.value.get(agent.name)?.perSecond ?? [];
  const busiest = Math.max(1, ...measured.map((value) => value ?? 0)), own = Math.max(0, ...agent.rails.map((rail) => rail.speed_bits_per_second ?? 0));
  useEffect(() => { if (own > fastest.value) fastest.value = own; }, [own]);
  return (
    <div class="scroll low" tabIndex={0} role="region" aria-label={`Rails of ${agent.name}`}>
      <table class="lanes">
        <caption class="hidden">Rails of {agent.name}: capacity and use</caption>
        <thead><tr><th scope="col">Card</th><th scope="col">Capacity</th><th scope="col">Use of it</th><th scope="col" class="number">Now</th><th scope="col" class="number">Used</th><th scope="col"><span class="hidden">Its transfers</span></th></tr></thead>
        {nodes.map((node) => <NodeRows key={node.node ?? 'none'} agent={agent} node={node} several={nodes.length > 1} busiest={busiest} />)}
      </table>
    </div>
  );
}
