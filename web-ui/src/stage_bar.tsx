// The four parts of a transfer as a small bar, from the stages of both sides.
import {duration} from './format';
import type {Transfer} from './types';

const WORDS: Record<string, string> = {wait: 'wait for peer', prefill: 'wait for prefill', move: 'move', finish: 'finish'};

interface Part { name: string; seconds: number }

export function stageParts(transfer: Transfer): Part[] {
  const at: Record<string, number> = {};
  for (const moment of transfer.stages) {
    if (at[moment.stage] === undefined || moment.role === 'target') at[moment.stage] = moment.seconds;
  }
  const last = Math.max(0, ...transfer.stages.map((moment) => moment.seconds));
  const end = transfer.live ? Math.max(transfer.age_seconds ?? 0, last) : last;
  const first = (...names: string[]): number | undefined => names.map((name) => at[name]).find((value) => value !== undefined);
  const all: [string, number | undefined][] = [['wait', 0], ['prefill', first('matched', 'granted')],
    ['move', first('first_post', 'first_land')], ['finish', first('last_land', 'last_post')]];
  const marks = all.filter((mark): mark is [string, number] => mark[1] !== undefined);
  return marks.map(([name, from], i) => ({name, seconds: Math.max(0, (marks[i + 1]?.[1] ?? end) - from)}))
    .filter((part) => part.seconds > 0);
}

export function StageBar({transfer}: {transfer: Transfer}) {
  const parts = stageParts(transfer), label = parts.map((part) => `${WORDS[part.name]} ${duration(part.seconds)}`).join(', ');
  return (
    <div class={transfer.live ? 'stages open' : 'stages'} role="img" aria-label={label || 'no stage yet'} title={label}>
      {parts.map((part) => <i key={part.name} class={`stage-${part.name}`} style={{flexGrow: String(Math.max(1, part.seconds * 1e6))}} />)}
    </div>
  );
}

export function StageLegend() {
  return (
    <ul class="legend" aria-label="Stages">
      {Object.entries(WORDS).map(([name, word]) => <li key={name} class={`stage-${name}`}>{word}</li>)}
    </ul>
  );
}
