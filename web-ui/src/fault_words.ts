// What broke, in words: of a fault that has lasted for some time, and whether it is over.
import {duration, plural} from './format';
import type {Fault} from './types';

const railOf = (fault: Fault): string => (fault.kind === 'rail_down' && fault.text ? fault.text.split(',')[0]! : `rail ${fault.rail ?? '?'}`);

// What lasts: `was`, once it is over, stands before how long it was; `is` while it lasts.
const LASTING: Record<string, [string, string]> = {
  rail_down: ['was down', 'is down'], rail_doubted: ['was in doubt', 'is in doubt'], rail_slow: ['was slow', 'is slow'],
  rail_unreachable: ['reached less', 'does not reach all'], agent_silent: ['was silent', 'is silent'],
  agent_ended: ['was gone', 'is gone'], scheduler_absent: ['was away', 'is away'],
};
const SHORT: Record<string, string> = {
  rail_renewed: 'got a new endpoint', agent_absent: 'did not run for a second or more', peer_lost: 'lost peers', engine_ended: 'lost an engine',
  memory_fault: 'met pages of an engine that were gone', filter_lost: 'lost kvrail-filter', more: 'has more faults that are not kept',
};

export const isOpen = (fault: Fault): boolean => fault.until === null;

export function faultText(fault: Fault): string {
  const who = fault.rail !== null ? `${railOf(fault)} ` : fault.kind === 'scheduler_absent' ? 'the scheduler ' : '';
  const lasting = LASTING[fault.kind], detail = fault.text && fault.kind !== 'rail_down' ? ` (${fault.text})` : '';
  if (!lasting) return `${who}${SHORT[fault.kind] ?? fault.kind.replace('_', ' ')}${fault.amount > 1 ? `, ${plural(fault.amount, 'time')}` : ''}${detail}`;
  if (fault.until === null) return `${who}${lasting[1]}${detail}`;
  const seconds = (Date.parse(fault.until) - Date.parse(fault.at)) / 1000;
  return `${who}${lasting[0]} for ${duration(Math.max(0.001, seconds))}, and is back${detail}`;
}
