// All transfers, live; one opens its timeline.
import {useEffect} from 'preact/hooks';

import {want, wanted} from './address';
import {number} from './format';
import {pageKeys} from './keys';
import {Nothing, Stale, Time} from './parts';
import {StageLegend} from './stage_bar';
import {useQuery} from './query';
import {ColumnChoice, COLUMNS, columnsIntoAddress, shown} from './transfer_columns';
import {TransferDetail} from './transfer_detail';
import {FIELDS, full, loadOlder, next, rows, state, watchTransfers} from './transfer_list';
import {sort, sortBy, sorted} from './transfer_sort';
import type {Rollups} from './types';
import {VirtualTable} from './virtual_table';
import {FILTERS} from './words';

function StateFilter() {
  const current = wanted('state');
  return (
    <div class="filters" role="group" aria-label="State">
      {FILTERS.map((name) => (
        <button key={name} type="button" data-filter={name} aria-pressed={current === name ? 'true' : 'false'}
          onClick={() => want({state: name, open: ''})}>{name === '' ? 'All' : name[0]!.toUpperCase() + name.slice(1)}</button>))}
    </div>
  );
}

// The choice is hidden while there is one tenant alone.
function TenantFilter() {
  const sums = useQuery<Rollups>('/api/v1/rollups', () => ({by: 'tenant'}), 30000);
  const current = wanted('tenant');
  const names = new Set((sums.data?.series ?? []).map((series) => series.name ?? ''));
  for (const row of rows.value) names.add(row.tenant ?? '');
  if (current) names.add(current);
  names.delete('');
  if (names.size < 2 && !current) return null;
  return (
    <select id="tenant" aria-label="Tenant" value={current} onChange={(event) => want({tenant: event.currentTarget.value, open: ''})}>
      <option value="">All tenants</option>
      {[...names].sort().map((name) => <option key={name} value={name}>{name}</option>)}
    </select>
  );
}

const MORE: [string, string, string][] = [['agent', 'Agent', 'prefill-0'], ['rail', 'Rail of the agent', 'rdmap79s0'],
  ['reason', 'Reason', 'peer_lost'], ['path', 'Path', 'staged'], ['min_duration', 'At least, s', '2.5'],
  ['from', 'Ended from, UTC', '2026-01-31T12:00:00Z'], ['until', 'Ended until, UTC', '2026-01-31T13:00:00Z']];

function Field({name, label, example}: {name: string; label: string; example: string}) {
  return (
    <label class="field">{label}
      <input type="text" name={name} value={wanted(name)} placeholder={example} spellcheck={false} autocomplete="off"
        onChange={(event) => want({[name]: event.currentTarget.value.trim(), open: ''})} />
    </label>
  );
}

function MoreFilters() {
  const used = MORE.filter(([name]) => wanted(name)).length;
  return (
    <details class="choice" open={used > 0 ? true : undefined}>
      <summary>More filters{used > 0 ? ` (${used})` : ''}</summary>
      <div class="menu wide">{MORE.map(([name, label, example]) => <Field key={name} name={name} label={label} example={example} />)}</div>
    </details>
  );
}

function describe(): string {
  const used = FIELDS.filter((name) => wanted(name)).map((name) => `${name} ${wanted(name)}`);
  return used.length > 0 ? `No transfer matches ${used.join(', ')}.`
    : 'No transfer yet. They appear here as soon as an engine publishes or fetches.';
}

function SortNote() {
  const by = sort.value;
  if (!by) return null;
  return (
    <span id="sort-note">{`Sorted by ${by.column.label.toLowerCase()}: these rows alone${next.value || full.value ? ', not the older ones that are not loaded' : ''}.`}
      {by.column.name === 'time' && next.value ? ' “At least, s” of the filters finds long ones among all.' : ''}{' '}
      <button type="button" onClick={() => want({sort: ''})}>Newest first</button></span>
  );
}

function Table() {
  const {loading, error, at, searchedUntil} = state.value, list = sorted.value, opened = wanted('open');
  const columns = COLUMNS.filter((column) => shown.value.includes(column.name));
  return (
    <>
      <Stale query={{data: list.length > 0 ? list : null, at, error}} />
      {list.length === 0 ? <div id="transfers-empty"><Nothing loading={loading} error={error}>{describe()}</Nothing></div> : (
        <VirtualTable rows={list} columns={columns} open={opened} label="Rows of transfers" sort={sort.value} onSort={sortBy}
          onOpen={(id) => want({open: opened === id ? '' : id})} onEnd={() => void loadOlder()} />)}
      <p class="more quiet">
        <span id="row-count" data-rows={list.length}>{number(list.length)} rows</span>
        {next.value ? <button id="more" type="button" onClick={() => void loadOlder()}>Older</button> : null}
        {full.value ? <span id="full">The table ends here: narrow the filters to see older ones.</span> : null}
        {searchedUntil ? <span>Searched back to <Time at={searchedUntil} />.</span> : null}
        <SortNote />
        <span class="spring" />
        <StageLegend />
      </p>
    </>
  );
}

export function Transfers() {
  const opened = wanted('open');
  useEffect(watchTransfers, []);
  useEffect(columnsIntoAddress, [wanted('columns')]);
  useEffect(() => {
    const close = (key: string): boolean => {
      if (key !== 'Escape' || !wanted('open')) return false;
      want({open: ''});
      return true;
    };
    pageKeys.add(close);
    return () => { pageKeys.delete(close); };
  }, []);
  return (
    <div class={opened ? 'split' : 'split whole'}>
      <section class="card table-card" aria-label="Transfers">
        <div class="bar">
          <StateFilter />
          <TenantFilter />
          <label class="field one">Request
            <input type="search" name="request" value={wanted('request')} placeholder="beginning of its id" spellcheck={false}
              onChange={(event) => want({request: event.currentTarget.value.trim(), open: ''})} />
          </label>
          <span class="spring" />
          <MoreFilters />
          <ColumnChoice />
        </div>
        <Table />
      </section>
      {/^[0-9a-f]{16}$/.test(opened) ? <TransferDetail key={opened} id={opened} /> : null}
    </div>
  );
}
