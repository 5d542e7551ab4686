// The rate of each rail over the last seconds, and the one that is furthest behind the others of its agent.
import {effect, signal} from '@preact/signals';

import {agents, rates} from './store';

const MEAN_MS = 8000; // a rate of one report says little: transfers come in bursts
const BUSY = 1e6; // bytes a second of a rail: below, an agent moves too little to compare its rails

interface Means { at: number; perSecond: number[] }
export interface Slowest { agent: string; rail: number; perSecond: number; others: number; compared: number }

const means = signal<ReadonlyMap<string, Means>>(new Map());

function mixed(before: Means | undefined, at: number, values: (number | null)[]): Means {
  const part = before ? 1 - Math.exp(-(at - before.at) / MEAN_MS) : 1;
  return {at, perSecond: values.map((value, i) => {
    const last = before?.perSecond[i] ?? value ?? 0;
    return last + part * ((value ?? 0) - last);
  })};
}

export function followRails(): () => void {
  return effect(() => {
    const next = new Map<string, Means>(), before = means.peek();
    for (const [name, of] of rates.value) {
      const last = before.get(name), at = of.settled ? Date.now() : of.at;
      if (of.perSecond.every((value) => value === null)) continue;
      next.set(name, last && last.at >= at ? last : mixed(last, at, of.perSecond));
    }
    means.value = next;
  });
}

// Among agents of several rails that move bytes. Null: no two rails can be compared.
export function slowestRail(): Slowest | null {
  let slowest: Slowest | null = null, compared = 0;
  for (const [agent, {perSecond}] of means.value) {
    const count = perSecond.length, sum = perSecond.reduce((a, b) => a + b, 0);
    if (count < 2 || agents.value.get(agent)?.state !== 'up' || sum / count < BUSY) continue;
    compared += count;
    perSecond.forEach((rate, rail) => {
      const others = (sum - rate) / (count - 1);
      if (!slowest || rate / others < slowest.perSecond / slowest.others) slowest = {agent, rail, perSecond: rate, others, compared: 0};
    });
  }
  return slowest && {...(slowest as Slowest), compared};
}
