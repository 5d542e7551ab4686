// Why transfers ended badly: the most frequent reason first, with what to do and examples.
import {linkTo, range, rangeWord, want, wanted} from './address';
import {duration, number} from './format';
import {Nothing, Section, Stale, State, Time} from './parts';
import {useQuery} from './query';
import type {ErrorGroup, TransferList} from './types';
import {windowEvery, windowNow, windowParameters} from './window';
import {SCOPES} from './words';

const EXAMPLES = 5;

function Examples({group}: {group: ErrorGroup}) {
  const query = useQuery<TransferList>('/api/v1/transfers', () => ({reason: group.code, limit: EXAMPLES, ...windowNow()}), 5000, `${group.code} ${range.value}`);
  const list = query.data?.transfers ?? [];
  if (list.length === 0) return <Nothing loading={query.loading} error={query.error}>The examples have been removed meanwhile.</Nothing>;
  return (
    <><Stale query={query} /><table class="list examples">
      <thead><tr><th scope="col">Transfer, and its request</th><th scope="col">State</th><th scope="col">From → to</th><th scope="col" class="number">After</th>
        <th scope="col">Ended</th><th scope="col">What it said</th></tr></thead>
      <tbody>{list.map((transfer) => (
        <tr key={transfer.id}>
          <td><a href={linkTo('transfers', {reason: group.code, open: transfer.id, ...windowNow()})}><code>{transfer.id}</code></a>{transfer.request ? <span class="quiet"> {transfer.request}</span> : null}</td>
          <td><State name={transfer.state} /></td>
          <td>{`${transfer.source.agent ?? '?'} → ${transfer.target.agent ?? '?'}`}</td>
          <td class="number">{duration(transfer.duration_seconds)}</td>
          <td><Time at={transfer.updated} /></td>
          <td class="text">{transfer.detail ?? ''}</td>
        </tr>))}</tbody>
    </table></>
  );
}

// Several groups may be open; the first one is, until another choice is made.
function toggle(code: string, opened: Set<string>): void {
  const codes = new Set(opened);
  if (!codes.delete(code)) codes.add(code);
  want({open: [...codes].join() || 'none'});
}

function Group({group, opened}: {group: ErrorGroup; opened: Set<string>}) {
  const isOpen = opened.has(group.code);
  return (
    <article class="error-group" data-code={group.code}>
      <button type="button" class="row-button" aria-expanded={isOpen ? 'true' : 'false'} onClick={() => toggle(group.code, opened)}>
        <span class="turn" aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
        <span class="count">{group.more ? 'over ' : ''}{number(group.count)} ×</span>
        <strong>{group.text}</strong> <code>{group.code}</code>
        <span class="spring" />
        <span class="quiet">look at {SCOPES[group.scope] ?? group.scope}</span>
      </button>
      <p class="quiet"><a href={linkTo('transfers', {reason: group.code, ...windowNow()})}>All its transfers</a> &nbsp; first <Time at={group.first} withAge /> &nbsp; last <Time at={group.last} withAge /></p>
      <p class="next"><span class="label">What to do</span> {group.next}</p>
      {isOpen ? <div class="scroll" tabIndex={0} role="region" aria-label={`Examples of ${group.code}`}><Examples group={group} /></div> : null}
    </article>
  );
}

export function Errors() {
  const query = useQuery<{errors: ErrorGroup[]}>('/api/v1/errors', windowParameters, windowEvery(), range.value);
  const groups = query.data?.errors ?? [], opened = new Set((wanted('open') || groups[0]?.code || '').split(',').filter((code) => code !== 'none'));
  return (
    <Section title="Why transfers ended badly" note={`in the last ${rangeWord.value}, the most frequent first`} id="errors">
      <Stale query={query} />
      {groups.length === 0
        ? <Nothing loading={query.loading} error={query.data ? '' : query.error}>No transfer has failed, expired or been cancelled in the last {rangeWord.value}.</Nothing>
        : groups.map((group) => <Group key={group.code} group={group} opened={opened} />)}
    </Section>
  );
}
