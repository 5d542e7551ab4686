// One transfer: where its time went, why it ended as it did, and what to do.
import {useEffect, useRef, useState} from 'preact/hooks';

import {linkTo, want} from './address';
import {order} from './api';
import {bothTimes, duration, number, size} from './format';
import {Action, Facts, Nothing, Stale, State, Time} from './parts';
import {savePerfetto} from './perfetto';
import {useQuery, type Query} from './query';
import {criticalOf} from './critical';
import {mayAct} from './store';
import {LayerTimeline, StageTimeline} from './timeline';
import {exposedOf} from './transfer_columns';
import type {ErrorGroup, Timeline, TimelineRail, Transfer} from './types';
import {isoAt} from './window';
import {SCOPES} from './words';

function railsText(rails: TimelineRail[], path: string | null): string {
  if (rails.length === 0) return path ? `, ${path}` : '';
  return ` over ${rails.map((rail) => rail.name ?? `rail ${rail.index}`).join(', ')}${path ? `, ${path}` : ''}`;
}

function factsOf(transfer: Transfer, timeline: Timeline | null): [string, preact.ComponentChildren][] {
  const rails = (role: string): TimelineRail[] => timeline?.sides.find((side) => side.role === role)?.rails ?? [];
  const said = (side: Transfer['source']): string => side.outcome ?? (side.lost ? 'nothing: lost' : 'nothing yet');
  return [
    ['Id', transfer.id], ['Tenant', transfer.tenant ?? '–'], ['Attempt', number(transfer.attempt)],
    ['Source', `${transfer.source.agent ?? '?'}${railsText(rails('source'), transfer.source.path)}`],
    ['Target', `${transfer.target.agent ?? '?'}${railsText(rails('target'), transfer.target.path)}`],
    ['Tokens', `${number(transfer.tokens)}, ${number(transfer.skip_tokens)} skipped`],
    ['Bytes', `${size(transfer.bytes)} in ${number(transfer.chunks)} writes`],
    ['Layers', number(transfer.layers)], ['Retries', number(transfer.retries)],
    ['Source said', said(transfer.source)], ['Target said', said(transfer.target)],
    ['Opened', <time title={bothTimes(transfer.opened)}>{bothTimes(transfer.opened)}</time>],
  ];
}

// The cause and the remedy, as `kvrail why` has them.
function Why({transfer}: {transfer: Transfer}) {
  const at = Date.parse(transfer.updated ?? transfer.ended ?? '') || 0;
  const failed = !transfer.live && transfer.state !== 'done' && transfer.reason !== null;
  const query = useQuery<{errors: ErrorGroup[]}>(failed ? '/api/v1/errors' : null,
    () => ({from: isoAt(at - 1000), until: isoAt(at + 1000)}), 60000, transfer.id);
  if (!failed) return null;
  const group = query.data?.errors.find((error) => error.code === transfer.reason);
  return (
    <div class="why" data-kind="bad">
      <h4>Why</h4>
      <p><strong>{transfer.reason_text}</strong> (<code>{transfer.reason}</code>){group ? `, to look for at ${SCOPES[group.scope] ?? group.scope}` : ''}.
        {transfer.detail ? <> The agent says: <q>{transfer.detail}</q>.</> : null}</p>
      <h4>What to do</h4>
      <p id="next">{group?.next ?? (query.loading ? 'Loading…' : query.error || 'See the events below.')}</p>
      <p><a href={linkTo('errors', {open: transfer.reason ?? ''})}>All of that kind</a></p>
    </div>
  );
}

function Where({transfer, timeline}: {transfer: Transfer; timeline: Timeline | null}) {
  if (transfer.state !== 'done') return null;
  const whole = Math.max(0, ...transfer.stages.map((moment) => moment.seconds));
  const exposed = exposedOf(transfer), critical = timeline ? criticalOf(transfer, timeline.layers) : null;
  return (
    <div class="why" data-kind="good">
      <h4>Where the time went</h4>
      <p>{exposed === null ? '' : `The request waited ${duration(exposed)} for the transfer after prefill was done, of ${duration(whole)} since it was opened. `}
        {critical ? critical.text : ''}</p>
    </div>
  );
}

function Events({transfer}: {transfer: Transfer}) {
  return (
    <details class="data">
      <summary>Events ({(transfer.events ?? []).length})</summary>
      <div class="scroll low" tabIndex={0} role="region" aria-label="Events">
        <table class="list">
          <thead><tr><th scope="col" class="number">Since the opening</th><th scope="col">Side</th><th scope="col">Event</th>
            <th scope="col">Agent</th><th scope="col">Time</th><th scope="col">What it said</th></tr></thead>
          <tbody>{(transfer.events ?? []).map((event, i) => (
            <tr key={i}><td class="number">{duration(event.seconds)}</td><td>{event.role}</td><td>{event.kind.replace('_', ' ')}</td>
              <td>{event.agent}</td><td><Time at={event.at} /></td>
              <td class="text">{[event.outcome !== 'ok' ? event.outcome : '', event.detail ?? '', event.retries > 0 ? `${event.retries} retries` : ''].filter(Boolean).join(': ')}</td></tr>))}</tbody>
        </table>
      </div>
    </details>
  );
}

const VIEWS = ['Timeline', 'Stages'] as const;

function Views({transfer, lines}: {transfer: Transfer; lines: Query<Timeline>}) {
  const timeline = lines.data, layers = timeline?.layers ?? [];
  const [view, setView] = useState<typeof VIEWS[number]>('Timeline');
  if (layers.length === 0) {
    return (
      <>
        <StageTimeline transfer={transfer} />
        <p class="quiet" id="spans-note">{!timeline ? lines.error ? `The times of layers were not to be had: ${lines.error}` : 'Times of layers are being loaded…'
          : timeline.spans === 'not ended' ? 'Times of layers come with the end of the transfer.'
          : 'Its agents sent no times of layers: they do for all that failed or were slow, and for one in --spans-every.'}</p>
      </>);
  }
  return (
    <>
      <div class="filters" role="group" aria-label="View">
        {VIEWS.map((name) => <button key={name} type="button" aria-pressed={view === name ? 'true' : 'false'} onClick={() => setView(name)}>{name}</button>)}
      </div>
      {view === 'Timeline' ? <LayerTimeline transfer={transfer} timeline={timeline!} /> : <StageTimeline transfer={transfer} />}
    </>
  );
}

export function TransferDetail({id}: {id: string}) {
  const query = useQuery<Transfer>(`/api/v1/transfers/${id}`, () => ({}), 1000, id);
  const lines = useQuery<Timeline>(`/api/v1/transfers/${id}/timeline`, () => ({}), query.data?.live === false ? 30000 : 1000, id + String(query.data?.live ?? ''));
  const panel = useRef<HTMLElement>(null), transfer = query.data;
  useEffect(() => panel.current?.scrollIntoView({block: 'nearest'}), [transfer !== null]);
  if (!transfer) return <section class="card detail"><Nothing loading={query.loading} error={query.error} /></section>;
  return (
    <section class="card detail" id={`detail-${id}`} aria-label={`Transfer ${id}`} ref={panel}>
      <header class="bar">
        <h2>{transfer.request ?? id}</h2>
        <State name={transfer.state} />
        <span class="quiet">{transfer.live ? `for ${duration(transfer.age_seconds)}` : duration(transfer.duration_seconds)}</span>
        <span class="spring" />
        {transfer.live && mayAct.value ? (
          <Action label="Cancel" sure="Cancel this transfer" title="Ends the fetch that the transfer belongs to"
            act={async () => { await order(`/api/v1/transfers/${id}/cancel`); query.again(); }} />) : null}
        <button type="button" id="perfetto" onClick={() => savePerfetto(transfer, lines.data)} title="A file for ui.perfetto.dev or chrome://tracing">Save as Perfetto trace</button>
        <button type="button" onClick={() => want({open: ''})} aria-label="Close">Close</button>
      </header>
      <Stale query={query} />
      <div class="columns">
        <div class="main">
          <Stale query={lines} />
          <Views transfer={transfer} lines={lines} />
        </div>
        <div class="side">
          <Why transfer={transfer} />
          <Where transfer={transfer} timeline={lines.data} />
          <Facts facts={factsOf(transfer, lines.data)} />
        </div>
      </div>
      <Events transfer={transfer} />
    </section>
  );
}
