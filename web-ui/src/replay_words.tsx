// Words, shapes and numbers of a comparison. Times have two decimals of milliseconds, as `kvrail compare` prints them.
import {number} from './format';
import type {Change, Verdict} from './replay_report';

const small = new Intl.NumberFormat('en', {maximumSignificantDigits: 2});

// 12.30 ms; 0.0042 ms, which is not nothing.
export function ms(value: number): string {
  const amount = Math.abs(value), text = amount > 0 && amount < 0.095 ? small.format(amount) : number(amount, 2);
  return `${value < 0 ? '−' : ''}${text} ms`;
}

export const signed = (value: number): string => (value > 0 ? `+${ms(value)}` : ms(value));

export function percent({a, b}: Change): string {
  if (a <= 0) return '–';
  const value = 100 * (b - a) / a, text = `${number(Math.abs(value), Math.abs(value) < 1000 ? 1 : 0)} %`;
  return text === '0.0 %' ? text : `${value < 0 ? '−' : '+'}${text}`;
}

export const between = ({low, high}: Change): string => (low === null || high === null ? '–' : `${signed(low)} to ${signed(high)}`);

const MEANINGS: Record<string, string> = {
  queue: 'the fetch waited for its source', negotiate: 'page tables were compared, slots and rails fixed',
  first_byte: 'from the grant to the first chunk', ready: 'the source engine made the layers', land: 'chunks arrived',
  exposed_wait: 'after the last layer was ready: no computation hides it', total: 'from the fetch to its end',
};

export const stageWord = (name: string): string => name.replaceAll('_', ' ');
export const stageMeaning = (name: string): string => MEANINGS[name] ?? '';

const VERDICTS: Record<Verdict, [string, preact.JSX.Element]> = {
  longer: ['longer', <path class="full" d="M6 1.5 10.8 10H1.2Z" />],
  shorter: ['shorter', <path class="full" d="M6 10.5 1.2 2h9.6Z" />],
  same: ['not distinguishable', <path d="M1.5 4.6q2.2-2.4 4.5 0t4.5 0M1.5 8.6q2.2-2.4 4.5 0t4.5 0" />],
  unjudged: ['not judged', <path d="M2 6h8" stroke-dasharray="2 2" />],
};

export function Judged({verdict}: {verdict: Verdict}) {
  const [word, shape] = VERDICTS[verdict];
  return <span class={`state change-${verdict}`}><svg viewBox="0 0 12 12" aria-hidden="true">{shape}</svg>{word}</span>;
}
