// The layer that was delivered last, and the step that kept it: the critical path of a transfer.
import {duration} from './format';
import type {Layer, Transfer} from './types';

export interface Critical { layer: number; text: string }

const STEPS: [string, keyof Layer | '', keyof Layer][] = [
  ['waiting for prefill', '', 'ready_seconds'], ['waiting to be posted', 'ready_seconds', 'posted_seconds'],
  ['on the way', 'posted_seconds', 'landed_seconds'], ['to be delivered', 'landed_seconds', 'delivered_seconds']];

export function stepsOf(layer: Layer): {name: string; from: number; to: number}[] {
  return STEPS.flatMap(([name, from, to]) => {
    const begin = from === '' ? 0 : layer[from], end = layer[to];
    // Each side has times of its own clock: what would end before its begin took no time that can be told.
    return begin === null || end === null ? [] : [{name, from: begin, to: Math.max(begin, end)}];
  });
}

export function criticalOf(transfer: Transfer, layers: Layer[]): Critical | null {
  const ends = layers.filter((layer) => layer.delivered_seconds !== null);
  if (ends.length === 0) return null;
  const last = ends.reduce((most, layer) => ((layer.delivered_seconds ?? 0) > (most.delivered_seconds ?? 0) ? layer : most));
  const steps = stepsOf(last), longest = steps.reduce((most, step) => (step.to - step.from > most.to - most.from ? step : most));
  const list = steps.map((step) => `${duration(step.to - step.from)} ${step.name}`).join(', ');
  return {layer: last.layer,
    text: `The critical path is layer ${last.layer}, the last that was delivered: ${list}. Most of it was ${longest.name}${transfer.retries > 0 ? `; ${transfer.retries} writes were posted again` : ''}.`};
}
