// Keys of the pages, and the list of them that "?" opens.
import {signal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';

import {open, page, PAGES, range, RANGELESS, RANGES, want} from './address';
import {pause} from './feed';
import {paused, signedOut} from './store';

export const helpOpen = signal(false);

const KEYS: [string, string][] = [
  ['?', 'this list'], ['1 … 7', 'Overview, Fleet, Transfers, Rails, Latency, Errors, Replay'],
  ['space', 'pause, and follow again'], ['[  ]', 'a shorter, a longer range of time, where a page has one'],
  ['/', 'to the search of the page'],
  ['j k  ↓ ↑', 'next, previous row of a list'], ['enter', 'open the row'],
  ['esc', 'close what is open'],
];

const OF_THE_TABLE = [' ', 'Enter', 'ArrowDown', 'ArrowUp'];

// A page may take keys before: true, where it has used one.
export const pageKeys = new Set<(key: string) => boolean>();

function step(by: number): void {
  if (RANGELESS[page.value]) return;
  const names = Object.keys(RANGES), at = names.indexOf(range.value) + by;
  const next = names[Math.max(0, Math.min(names.length - 1, at))];
  if (next) want({range: next});
}

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || signedOut.value !== null || document.querySelector('dialog[open]')) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
    if (event.key === 'Escape') target.blur();
    return;
  }
  const isControl = /^(BUTTON|A|SUMMARY)$/.test(target.tagName);
  if (isControl && (event.key === ' ' || event.key === 'Enter')) return;
  // Elsewhere these scroll, or are for what has the focus.
  const isFree = target === document.body || target.id === 'main' || target.closest('.rows') !== null;
  if (!isFree && OF_THE_TABLE.includes(event.key)) return;
  for (const take of pageKeys) {
    if (!take(event.key)) continue;
    event.preventDefault();
    return;
  }
  const pageAt = PAGES[Number(event.key) - 1];
  if (event.key === '?') helpOpen.value = true;
  else if (event.key === ' ') pause(!paused.value);
  else if (event.key === '[') step(-1);
  else if (event.key === ']') step(1);
  else if (event.key === '/') document.querySelector<HTMLInputElement>('input[type="search"]')?.focus();
  else if (pageAt) open(pageAt);
  else return;
  event.preventDefault();
}

export function listenToKeys(): () => void {
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value && !dialog.current?.open) dialog.current?.showModal();
  }, [helpOpen.value]);
  return (
    <dialog id="help" ref={dialog} aria-label="Keys" onClose={() => { helpOpen.value = false; }}>
      <h2>Keys</h2>
      <dl class="keys">{KEYS.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
      <form method="dialog"><button>Close</button></form>
    </dialog>
  );
}
