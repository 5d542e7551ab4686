// How agents reach each other: a cell for each pair of agents has the worst state of its pairs of rails.
import {useState} from 'preact/hooks';

import {duration, number, plural, size} from './format';
import {Nothing, Section, Stale, State} from './parts';
import {useQuery} from './query';
import type {AgentShort, RailPair} from './types';

const SMALL = 24;    // rows and columns of a matrix that can be read
const ROWS_MAX = 100;
const RANKS = ['unreachable', 'slow', 'doubted', 'warming', 'up', 'spare', 'warm'];
const SIGNS: Record<string, string> = {unreachable: '✕', slow: '▽', doubted: '?', warming: '…', up: '·', spare: '○', warm: '●'};

interface Cell { worst: string; pairs: number; bytes: number; trouble: number }

function cellsOf(pairs: RailPair[]): Map<string, Cell> {
  const cells = new Map<string, Cell>();
  for (const pair of pairs) {
    const key = `${pair.source}→${pair.target}`;
    const cell = cells.get(key) ?? {worst: pair.state, pairs: 0, bytes: 0, trouble: 0};
    if (RANKS.indexOf(pair.state) < RANKS.indexOf(cell.worst)) cell.worst = pair.state;
    cell.pairs++;
    cell.bytes += pair.bytes;
    cell.trouble += RANKS.indexOf(pair.state) < 3 ? 1 : 0;
    cells.set(key, cell);
  }
  return cells;
}

function Grid({pairs, choose, chosen}: {pairs: RailPair[]; choose: (key: string) => void; chosen: string}) {
  const cells = cellsOf(pairs), compare = (a: string, b: string): number => a.localeCompare(b, 'en', {numeric: true});
  const sources = [...new Set(pairs.map((pair) => pair.source))].sort(compare), targets = [...new Set(pairs.map((pair) => pair.target))].sort(compare);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Pairs of agents">
      <table class="matrix" id="matrix">
        <caption class="hidden">From prefill-agents (rows) to decode-agents (columns)</caption>
        <thead><tr><td /><>{targets.map((name) => <th key={name} scope="col"><span>{name}</span></th>)}</></tr></thead>
        <tbody>{sources.map((source) => (
          <tr key={source}><th scope="row">{source}</th>
            {targets.map((target) => {
              const key = `${source}→${target}`, cell = cells.get(key);
              return <td key={target}>{cell ? (
                <button type="button" class={`cell state-${cell.worst}`} aria-pressed={chosen === key ? 'true' : 'false'} onClick={() => choose(key)}
                  aria-label={`${source} to ${target}: ${cell.worst}`}
                  title={`${source} → ${target}: worst is ${cell.worst}, ${plural(cell.pairs, 'pair')} of rails, ${size(cell.bytes)}`}>{SIGNS[cell.worst] ?? cell.worst}</button>) : null}</td>;
            })}
          </tr>))}</tbody>
      </table>
    </div>
  );
}

function PairRows({pairs}: {pairs: RailPair[]}) {
  const sorted = [...pairs].sort((a, b) => RANKS.indexOf(a.state) - RANKS.indexOf(b.state)).slice(0, ROWS_MAX);
  return (
    <>
      <div class="scroll low" tabIndex={0} role="region" aria-label="Pairs of rails">
        <table class="list" id="rail-pairs">
          <thead><tr><th scope="col">From</th><th scope="col">To</th><th scope="col">State</th><th scope="col" class="number">For</th>
            <th scope="col" class="number">Came through</th><th scope="col" class="number">Breaks</th><th scope="col">What it says</th></tr></thead>
          <tbody>{sorted.map((pair) => (
            <tr key={`${pair.source}${pair.rail.index}${pair.target}${pair.target_rail.index}`}>
              <td>{pair.source} {pair.rail.name ?? `rail ${pair.rail.index}`}</td><td>{pair.target} {pair.target_rail.name ?? `rail ${pair.target_rail.index}`}</td>
              <td><State name={pair.state} /></td><td class="number">{duration(pair.state_seconds)}</td><td class="number">{size(pair.bytes)}</td>
              <td class="number">{number(pair.breaks)}</td><td class="text">{pair.detail ?? ''}</td></tr>))}</tbody>
        </table>
      </div>
      {pairs.length > ROWS_MAX ? <p class="quiet">The worst {ROWS_MAX} of {number(pairs.length)} pairs.</p> : null}
    </>
  );
}

export function Matrix({list}: {list: AgentShort[]}) {
  const [chosen, setChosen] = useState('');
  const count = (role: string): number => list.filter((agent) => agent.role === role).length;
  const small = count('prefill') <= SMALL && count('decode') <= SMALL;
  const query = useQuery<{pairs: RailPair[]; left_out: number}>('/api/v1/rails/matrix', () => (small ? {} : {trouble: 'yes'}), 3000, small ? 'all' : 'trouble');
  const pairs = query.data?.pairs ?? [], trouble = pairs.filter((pair) => RANKS.indexOf(pair.state) < 3);
  const rows = chosen ? pairs.filter((pair) => `${pair.source}→${pair.target}` === chosen) : trouble;
  // A large fleet is asked for its troubles alone; whether anything was told at all, one agent shows.
  const one = !small && query.data !== null && pairs.length === 0 ? list.find((agent) => agent.role === 'prefill' && agent.state === 'up')?.name ?? '' : '';
  const probe = useQuery<{pairs: RailPair[]}>(one ? '/api/v1/rails/matrix' : null, () => ({source: one}), 30000, one);
  const told = small || (probe.data?.pairs.length ?? 0) > 0, leftOut = query.data?.left_out ?? 0;
  const legend = RANKS.map((name) => `${SIGNS[name]} ${name}`).join('   ');
  return (
    <Section title="Which rails reach which" note={query.data ? `${leftOut > 0 ? 'at least ' : ''}${plural(trouble.length, 'pair')} in trouble` : ''} id="pairs">
      {!query.data || (small && pairs.length === 0)
        ? <Nothing loading={query.loading} error={query.error}>No prefill-agent has told of its pairs of rails yet.</Nothing>
        : (
          <>
            <Stale query={query} />
            {small ? <><Grid pairs={pairs} choose={(key) => setChosen(key === chosen ? '' : key)} chosen={chosen} /><p class="quiet">{legend}</p></> : null}
            {rows.length > 0 ? <PairRows pairs={rows} /> : <p class="lead">{!told ? `No pair in trouble was reported${one ? `, but ${one} has told of none of its pairs yet` : ': no prefill-agent is up'}.`
              : leftOut > 0 ? 'None of the pairs that are listed is in trouble.' : small ? 'No pair is in trouble: choose a cell to see its rails.' : 'No pair is in trouble.'}</p>}
            {leftOut > 0 ? <p class="quiet">{plural(leftOut, 'pair')} more {leftOut === 1 ? 'is' : 'are'} left out here: <code>/api/v1/rails/matrix</code> gives those of one agent, by <code>source</code> and <code>target</code>.</p> : null}
          </>)}
    </Section>
  );
}
