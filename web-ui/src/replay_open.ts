// The files that are open on the Replay page: read in the browser, kept until the tab is closed, sent to nobody.
import {computed, signal} from '@preact/signals';

import {plural, size} from './format';
import {BYTES_MAX, decode, tooLarge, type Decoded} from './replay_file';
import {reportOf, type Report} from './replay_report';

export type Opened = {number: number; name: string} & Exclude<Decoded, {kind: 'wrong'}>;

const MOST = 2;

export const opened = signal<Opened[]>([]);
export const reading = signal<string[]>([]); // names
export const wrong = signal<string[]>([]); // sentences about the newest choice; nothing of it is shown
let choice = 0, made = 0;

// One for each comparison; of two summaries one.
export const reports = computed<Report[]>(() => {
  const [a, b] = opened.value;
  if (a?.kind === 'summary') return b?.kind === 'summary' ? [reportOf(a.summary, b.summary)] : [];
  return opened.value.flatMap((one) => (one.kind === 'comparison' ? [one.report] : []));
});

async function readOne(file: File): Promise<Decoded> {
  if (file.size > BYTES_MAX) return {kind: 'wrong', text: tooLarge(file.name, size(file.size), size(BYTES_MAX))};
  try {
    return decode(file.name, new Uint8Array(await file.arrayBuffer()));
  } catch {
    return {kind: 'wrong', text: `${file.name} cannot be read: it is a folder, or it was moved or may not be read. Choose it again.`};
  }
}

// Files of two folders may have one name.
function renamed(one: Opened, name: string): Opened {
  if (one.kind === 'comparison') return {...one, name, report: {...one.report, from: name}};
  return {...one, name, summary: {...one.summary, run: {...one.summary.run, name}}};
}

// The new ones beside those that are open, where there is room for them; else in their place.
function place(news: Opened[]): string {
  const next = opened.value.length + news.length > MOST ? news : [...opened.value, ...news];
  const [a, b] = next;
  if (a && b && a.kind !== b.kind) {
    return `${b.name} is a ${b.kind}, and ${a.name} a ${a.kind}: they have no figures in common. Close one of them, or choose two of a kind.`;
  }
  opened.value = a && b?.name === a.name ? [a, renamed(b, `${b.name} (2)`)] : next;
  return '';
}

export async function openFiles(files: File[]): Promise<void> {
  if (files.length === 0) return;
  const mine = ++choice;
  wrong.value = [];
  if (files.length > MOST) {
    reading.value = [];
    wrong.value = [`You chose ${plural(files.length, 'file')}. Choose one comparison, or two files of a kind.`];
    return;
  }
  reading.value = files.map((file) => file.name);
  const found = await Promise.all(files.map(readOne));
  if (mine !== choice) return; // others were chosen meanwhile
  reading.value = [];
  const bad = found.flatMap((one) => (one.kind === 'wrong' ? [one.text] : []));
  const good = found.flatMap((one, i) => (one.kind === 'wrong' ? [] : [{number: ++made, name: files[i]!.name, ...one}]));
  const refusal = bad.length === 0 ? place(good) : '';
  wrong.value = refusal ? [refusal] : bad;
}

export function close(number: number): void {
  wrong.value = [];
  opened.value = opened.value.filter((one) => one.number !== number);
}

export function exchange(): void {
  opened.value = [...opened.value].reverse();
}
