// Agents by their hosts, the worst first.
import type {AgentShort} from './types';

export interface Host {
  name: string; agents: AgentShort[]; worst: string; rank: number; rails: number; railsUp: number; live: number; rate: number;
}

// Smaller is worse.
const RANKS = ['lost', 'down', 'awaited', 'drained', 'stopped', 'up'];

export function conditionOf(agent: AgentShort): string {
  if (agent.state !== 'up') return agent.state;
  if (agent.rails_up < agent.rail_bytes.length) return 'down';
  return agent.drained ? 'drained' : 'up';
}

export const conditionWord = (condition: string): string => (condition === 'down' ? 'rail down' : condition);

export const rankOf = (condition: string): number => {
  const at = RANKS.indexOf(condition);
  return at < 0 ? RANKS.length : at;
};

export const hostName = (agent: AgentShort): string => agent.host ?? 'host not known';

export function hostsOf(agents: Iterable<AgentShort>, rateOf: (name: string) => number, search: string): Host[] {
  const hosts = new Map<string, Host>(), wanted = search.toLowerCase();
  for (const agent of agents) {
    const name = hostName(agent);
    if (wanted && ![name, agent.name, agent.role, conditionWord(conditionOf(agent)), agent.version ?? ''].some((text) => text.toLowerCase().includes(wanted))) continue;
    const host = hosts.get(name) ?? {name, agents: [], worst: 'up', rank: RANKS.length, rails: 0, railsUp: 0, live: 0, rate: 0};
    const condition = conditionOf(agent);
    if (rankOf(condition) < host.rank) [host.worst, host.rank] = [condition, rankOf(condition)];
    host.agents.push(agent);
    host.rails += agent.rail_bytes.length;
    host.railsUp += agent.state === 'up' ? agent.rails_up : 0;
    host.live += agent.transfers_live;
    host.rate += rateOf(agent.name);
    hosts.set(name, host);
  }
  return [...hosts.values()].sort((a, b) => a.rank - b.rank || a.name.localeCompare(b.name, 'en', {numeric: true}));
}
