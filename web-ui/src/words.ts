// The word, the shape and the colour of each state: a shape and a colour never stand without their word.
export type Shape = 'done' | 'failed' | 'cancelled' | 'expired' | 'lost' | 'live' | 'waiting' | 'up' | 'stopped' | 'trouble';

const STATES: Record<string, [string, Shape]> = {
  opened: ['waiting for peer', 'waiting'], matched: ['matched', 'waiting'],
  granted: ['waiting for prefill', 'waiting'], first_ready: ['prefilling', 'waiting'],
  last_ready: ['sending', 'live'], first_post: ['sending', 'live'], first_land: ['landing', 'live'],
  last_post: ['landing', 'live'], last_land: ['finishing', 'live'], failing: ['failing', 'failed'],
  done: ['done', 'done'], failed: ['failed', 'failed'], cancelled: ['cancelled', 'cancelled'],
  expired: ['expired', 'expired'], lost: ['lost', 'lost'],
  up: ['up', 'up'], awaited: ['awaited', 'waiting'], stopped: ['stopped', 'stopped'],
  drained: ['drained', 'stopped'], down: ['down', 'failed'], recycling: ['recycling', 'trouble'],
  warm: ['warm', 'up'], warming: ['warming', 'waiting'], spare: ['spare', 'waiting'],
  doubted: ['doubted', 'trouble'], slow: ['slow', 'trouble'], unreachable: ['unreachable', 'failed'],
};

export const wordOf = (state: string): string => STATES[state]?.[0] ?? state;
export const shapeOf = (state: string): Shape => STATES[state]?.[1] ?? 'waiting';

export const FILTERS = ['', 'live', 'done', 'failed', 'cancelled', 'expired', 'lost'];
export const isState = (name: string): boolean => name === 'live' || name in STATES;

// The parts that the whole time of transfers is made of, in their order.
export const PARTS: [string, string, string][] = [
  ['match', 'wait for peer', 'Until both agents knew the page tables'],
  ['grant', 'wait for grant', 'Until slots and rails were granted'],
  ['prefill', 'wait for prefill', 'Until the first layer landed'],
  ['hidden', 'transfer, hidden', 'Transfer while prefill still computed: it costs the request nothing'],
  ['exposed', 'transfer, exposed', 'From the last layer that was ready to the end: the request waited for it'],
];

export const TIMES: Record<string, string> = {
  total: 'whole time', exposed: 'exposed', match: 'wait for peer', grant: 'wait for grant',
  ready: 'prefill of the layers', land: 'landing', settle: 'finish',
};

export const SCOPES: Record<string, string> = {
  request: 'the request', engine: 'an engine', agent: 'an agent', peer: 'the other agent, or the way to it',
  rail: 'a network card', kvrail: 'kvrail itself',
};
