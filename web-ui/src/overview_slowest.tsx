// Which card is slowest now: a sentence, and the way to its agent's cards over time.
import {useEffect} from 'preact/hooks';

import {linkTo} from './address';
import {number, rate} from './format';
import {useQuery} from './query';
import {followRails, slowestRail} from './rail_means';
import type {Agent} from './types';

const ALIKE = 0.8; // of what the others move: no card stands out

export function SlowestCard() {
  useEffect(followRails, []);
  const slowest = slowestRail(), agent = slowest?.agent ?? '';
  const facts = useQuery<{agents: Agent[]}>(agent ? '/api/v1/agents' : null, () => ({agent}), 5000, agent);
  if (!slowest) return <p class="verdict" id="slowest-now" data-kind="none">No card can be called slow now: no agent moves bytes over several.</p>;
  const rail = facts.data?.agents[0]?.rails[slowest.rail], name = rail?.name ?? `rail ${slowest.rail}`;
  const part = slowest.perSecond / slowest.others, down = rail !== undefined && rail.state !== 'up', good = part >= ALIKE && !down;
  return (
    <p class="verdict" id="slowest-now" data-kind={good ? 'good' : 'warn'}>
      <strong>{good ? 'No card stands out now.' : <>The slowest card now is <a href={linkTo('rails', {agent})}>{name} of {agent}</a>{down ? ', which is ' : ''}{down ? rail.state : ''}.</>}</strong>{' '}
      {good ? <>Of {number(slowest.compared)} that move bytes, <a href={linkTo('rails', {agent})}>{name} of {agent}</a> is the furthest behind: it</> : 'It'}
      {` moves ${rate(slowest.perSecond)}, the others of that agent ${rate(slowest.others)} each.`}
    </p>
  );
}
