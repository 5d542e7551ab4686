// The columns of the table of transfers, and which of them are shown.
import {computed, signal} from '@preact/signals';
import type {ComponentChildren} from 'preact';

import {want, wanted} from './address';
import {duration, number, size} from './format';
import {State, Time} from './parts';
import {StageBar} from './stage_bar';
import type {Transfer} from './types';

export interface Column {
  name: string; label: string; title?: string; number?: boolean; width: number;
  cell: (transfer: Transfer) => ComponentChildren;
  value?: (transfer: Transfer) => number | null; // by which rows can be sorted
}

const secondsOf = (transfer: Transfer): number | null => (transfer.live ? transfer.age_seconds : transfer.duration_seconds);
const atOf = (transfer: Transfer, role: string, stage: string): number | undefined =>
  transfer.stages.find((moment) => moment.role === role && moment.stage === stage)?.seconds;

export function exposedOf(transfer: Transfer): number | null {
  const ready = atOf(transfer, 'source', 'last_ready'), ended = atOf(transfer, 'source', 'ended');
  return ready === undefined || ended === undefined ? null : Math.max(0, ended - ready);
}

const cut = (text: string, title = text) => <span class="cut" title={title}>{text}</span>;

export const COLUMNS: Column[] = [
  {name: 'state', label: 'State', width: 140, cell: (t) => <State name={t.state} />},
  {name: 'request', label: 'Request', width: 176, cell: (t) =>
    cut(t.request ?? t.id, `${t.request ?? ''} ${t.attempt > 1 ? `attempt ${t.attempt} ` : ''}(${t.id})`)},
  {name: 'tenant', label: 'Tenant', width: 66, cell: (t) => cut(t.tenant ?? '–')},
  {name: 'pair', label: 'From → to', width: 178, cell: (t) => cut(`${t.source.agent ?? '?'} → ${t.target.agent ?? '?'}`)},
  {name: 'tokens', label: 'Tokens', width: 68, number: true, value: (t) => t.tokens - t.skip_tokens, cell: (t) => (t.tokens > 0 ? number(t.tokens - t.skip_tokens) : '–')},
  {name: 'bytes', label: 'Size', width: 82, number: true, value: (t) => t.bytes, cell: (t) => (t.bytes > 0 ? size(t.bytes) : '–')},
  {name: 'layers', label: 'Layers', width: 68, number: true, cell: (t) => number(t.layers)},
  {name: 'time', label: 'Time', title: 'From the fetch to its end, prefill included', width: 78, number: true,
    value: secondsOf, cell: (t) => duration(secondsOf(t))},
  {name: 'exposed', label: 'Exposed', title: 'From the last layer that was ready to the end', width: 78, number: true,
    value: exposedOf, cell: (t) => duration(exposedOf(t))},
  {name: 'stages', label: 'Stages', title: 'From the first of source and target to the end', width: 150,
    cell: (t) => <StageBar transfer={t} />},
  {name: 'retries', label: 'Retries', width: 66, number: true, value: (t) => t.retries, cell: (t) => (t.retries > 0 ? number(t.retries) : '–')},
  {name: 'rails', label: 'Rails', width: 90, cell: (t) => cut(t.source.rails.join(', ') || '–')},
  {name: 'path', label: 'Path', width: 70, cell: (t) => t.path ?? '–'},
  {name: 'opened', label: 'Opened', width: 82, cell: (t) => <Time at={t.opened} />},
  {name: 'reason', label: 'Reason', width: 190, cell: (t) => cut(t.reason ? t.reason_text ?? t.reason : '', t.detail ?? '')},
];

const KEY = 'kvrail.columns';
const DEFAULT = COLUMNS.map((column) => column.name).filter((name) => !['layers', 'rails', 'path'].includes(name));

const known = (names: string): string[] => COLUMNS.map((column) => column.name).filter((name) => names.split(',').includes(name));

function kept(): string[] {
  try {
    const names = known(localStorage.getItem(KEY) ?? '');
    return names.length > 0 ? names : DEFAULT;
  } catch {
    return DEFAULT; // storage may be forbidden
  }
}

// The choice of this browser. That of the URL, which another person may have sent, goes before it.
const own = signal<string[]>(kept());

export const shown = computed<string[]>(() => {
  const names = known(wanted('columns'));
  return names.length > 0 ? names : own.value;
});

const textOf = (names: string[]): string => (names.join() === DEFAULT.join() ? '' : names.join());

// The URL has the columns whenever they are others than at first, so that a link shows the same table.
export function columnsIntoAddress(): void {
  if (!wanted('columns') && textOf(own.value)) want({columns: textOf(own.value)});
}

export function toggleColumn(name: string): void {
  const all = COLUMNS.map((column) => column.name);
  const names = all.filter((other) => shown.value.includes(other) !== (other === name));
  if (names.length === 0) return;
  own.value = names;
  try {
    localStorage.setItem(KEY, names.join());
  } catch { /* it lasts until the page is left */ }
  want({columns: textOf(names)});
}

export function ColumnChoice() {
  return (
    <details class="choice">
      <summary>Columns</summary>
      <div class="menu" role="group" aria-label="Columns">
        {COLUMNS.map((column) => (
          <label key={column.name}>
            <input type="checkbox" checked={shown.value.includes(column.name)} onChange={() => toggleColumn(column.name)} />
            {column.label}
          </label>))}
      </div>
    </details>
  );
}
