// Small parts that several pages are made of.
import type {ComponentChildren, JSX} from 'preact';
import {useState} from 'preact/hooks';

import {ago, bothTimes, localTime} from './format';
import type {Query} from './query';
import {nowThere} from './store';
import {shapeOf, wordOf, type Shape} from './words';

const PATHS: Record<Shape, JSX.Element> = {
  done: <path d="M2 6.5 5 9.5 10.5 3" />,
  failed: <path d="M2.5 2.5l7 7m0-7l-7 7" />,
  cancelled: <g><circle cx="6" cy="6" r="4.4" /><path d="M3 9l6-6" /></g>,
  expired: <g><circle cx="6" cy="6" r="4.4" /><path d="M6 3.4V6l1.9 1.3" /></g>,
  lost: <path d="M6 1.5 10.5 6 6 10.5 1.5 6Z" />,
  live: <path class="full" d="M3.2 2.2v7.6L9.8 6Z" />,
  waiting: <circle cx="6" cy="6" r="4" stroke-dasharray="2 1.6" />,
  up: <circle class="full" cx="6" cy="6" r="4" />,
  stopped: <rect x="2.5" y="2.5" width="7" height="7" rx="1" />,
  trouble: <path d="M6 1.8 10.6 10.2H1.4ZM6 5v2.4M6 8.6v.2" />,
};

export function State({name, word}: {name: string; word?: string}) {
  const shape = shapeOf(name);
  return (
    <span class={`state state-${shape}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true">{PATHS[shape]}</svg>{word ?? wordOf(name)}
    </span>
  );
}

export function Time({at, withAge = false}: {at: string | null; withAge?: boolean}) {
  if (at === null) return <span>–</span>;
  return (
    <time dateTime={at} title={bothTimes(at)}>
      {localTime(at)}{withAge ? <span class="quiet"> · {ago(at, nowThere.value)}</span> : null}
    </time>
  );
}

export function Tile({title, children, note, wide}:
  {title: string; children: ComponentChildren; note?: ComponentChildren; wide?: boolean}) {
  return (
    <article class={wide ? 'tile wide' : 'tile'}>
      <h2>{title}</h2>
      {children}
      {note ? <p class="quiet">{note}</p> : null}
    </article>
  );
}

export function Section({title, note, children, tools, id}:
  {title: string; note?: ComponentChildren; children: ComponentChildren; tools?: ComponentChildren; id?: string}) {
  return (
    <section class="card" aria-label={title} id={id}>
      <header class="bar"><h2>{title}</h2>{note ? <span class="quiet">{note}</span> : null}
        <span class="spring" />{tools}</header>
      {children}
    </section>
  );
}

// What stands where data will be, or why there are none.
export function Nothing({loading, error, children}:
  {loading?: boolean; error?: string; children?: ComponentChildren}) {
  if (error) return <p class="empty bad" role="alert">{error}</p>;
  return <p class="empty">{loading ? 'Loading…' : children}</p>;
}

// Beside data that are kept although a newer question has failed: of when they are, and why.
export function Stale({query}: {query: Pick<Query<unknown>, 'data' | 'at' | 'error'>}) {
  if (!query.error || query.data === null) return null;
  return <p class="stale-note" role="alert">As of {localTime(query.at)}: {query.error}</p>;
}

export function Facts({facts}: {facts: [string, ComponentChildren][]}) {
  return (
    <dl class="facts">
      {facts.filter(([, value]) => value !== null && value !== '').map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>))}
    </dl>
  );
}

// An action with two steps: what is done cannot be undone by the page.
export function Action({label, sure, act, title}:
  {label: string; sure: string; act: () => Promise<void>; title?: string}) {
  const [step, setStep] = useState<'ready' | 'asked' | 'sent'>('ready');
  const [said, setSaid] = useState('');
  const run = (): void => {
    setStep('sent');
    act().then(() => setSaid('Done: the order is on its way.'), (error: unknown) => {
      setSaid(error instanceof Error ? error.message : String(error));
      setStep('ready');
    });
  };
  return (
    <span class="action">
      {step === 'ready' ? <button type="button" title={title} onClick={() => setStep('asked')}>{label}</button> : null}
      {step === 'asked' ? (
        <span>
          <button type="button" class="danger" onClick={run}>{sure}</button>
          <button type="button" onClick={() => setStep('ready')}>No</button>
        </span>) : null}
      <span role="status" class="quiet">{said}</span>
    </span>
  );
}

export function DataTable({caption, head, rows}: {caption: string; head: string[]; rows: (string | number)[][]}) {
  const [open, setOpen] = useState(false);
  return (
    <details class="data" onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>Data as a table<span class="hidden"> of {caption}</span></summary>
      {open ? (
        <div class="scroll low" tabIndex={0} role="region" aria-label={caption}>
          <table class="list">
            <caption class="hidden">{caption}</caption>
            <thead><tr>{head.map((name, i) => <th key={name} scope="col" class={i > 0 ? 'number' : ''}>{name}</th>)}</tr></thead>
            <tbody>{rows.map((row, at) => (
              <tr key={at}>{row.map((value, i) => <td key={i} class={i > 0 ? 'number' : ''}>{value}</td>)}</tr>))}</tbody>
          </table>
        </div>) : null}
    </details>
  );
}
