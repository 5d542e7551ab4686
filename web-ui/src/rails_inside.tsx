// What differs inside the box over the heatmap, the largest difference first.
import {useState} from 'preact/hooks';

import {linkTo} from './address';
import {duration, number, plural, rate, size} from './format';
import {Nothing, Stale, Time} from './parts';
import {useQuery} from './query';
import {boxText, covers, type Box} from './rails_box';
import {amountsOf, cardMeasures, differenceOf, faultsIn, rest, sampleOf, transferMeasures, type Difference, type Measure, type Side} from './rails_compare';
import {schedulerNow} from './store';
import type {Agent, Fault, Rollups, Transfer, TransferList} from './types';
import {isoAt} from './window';

const SHOWN = 8, LIMIT = 500;
const SIGNS = {more: '▲ more', less: '▼ less', same: '= the same'};

interface Place { box: Box; agent: string; rails: number[]; nameOf: (rail: number) => string; facts: Agent | null; view: Rollups; came: number }

const everyOf = (box: Box): number => (schedulerNow() - box.until < 60000 ? 3000 : 60000);

function whenOf(view: {from: number; until: number}, box: Box): string {
  const [early, late] = [box.from - view.from >= 1000, Math.min(view.until, schedulerNow()) - box.until >= 1000];
  return early && late ? 'in the rest of the time shown' : early ? 'before' : 'afterwards';
}

// The mean speed of cards in bytes a second; null where that of one is not known.
function speedOf(facts: Agent | null, rails: number[]): number | null {
  const speeds = rails.map((rail) => facts?.rails[rail]?.speed_bits_per_second ?? 0);
  return speeds.length > 0 && speeds.every((speed) => speed > 0) ? speeds.reduce((a, b) => a + b, 0) / speeds.length / 8 : null;
}

function useTransfers(place: Place, from: number, until: number) {
  const path = until - from >= 1000 ? '/api/v1/transfers' : null;
  return useQuery<TransferList>(path, () => ({agent: place.agent, from: isoAt(from), until: isoAt(until), limit: LIMIT}), Math.max(15000, everyOf(place.box)), `${place.agent} ${from} ${until}`);
}

function cardsOf(place: Place, inside: Rollups, came: number): Difference[] {
  const {box, rails, agent, nameOf} = place, view = {from: Date.parse(place.view.from), until: Date.parse(place.view.until)};
  const own = rails.filter((rail) => covers(box, rail)), other = rails.filter((rail) => !covers(box, rail)), when = whenOf(view, box);
  const others = other.length > 0 ? amountsOf(inside, other, came) : null;
  const of = (cards: number[], who: string): Difference[] => {
    const part = amountsOf(inside, cards, came), before = rest(amountsOf(place.view, cards, place.came), part);
    const speed = (side: Side): number | null => speedOf(place.facts, side === 'others' ? other : cards);
    return cardMeasures(part, before.seconds >= 1 ? before : null, others, speed).map((measure) => differenceOf(measure, who, when)).filter((one) => one !== null);
  };
  const each = own.flatMap((rail) => of([rail], `${agent}'s card ${nameOf(rail)}`));
  if (own.length <= 1) return each;
  return [...of(own, `Each of ${agent}'s ${number(own.length)} cards`), ...each.filter((one) => one.sign !== 'same')];
}

function transfersOf(place: Place, inside: Transfer[], outside: Transfer[]): Difference[] {
  const {box, agent, view} = place, when = whenOf({from: Date.parse(view.from), until: Date.parse(view.until)}, box);
  const uses = (one: Transfer): boolean => (one.source.agent === agent ? one.source : one.target).rails.some((rail) => covers(box, rail));
  const sample = (list: Transfer[]) => (list.length > 0 ? sampleOf(list) : null), own = sample(inside.filter(uses));
  if (!own) return [];
  return transferMeasures(own, sample(outside.filter(uses)), sample(inside.filter((one) => !uses(one))))
    .map((measure) => differenceOf(measure, 'Transfers over the box', when)).filter((one) => one !== null);
}

const cell = (measure: Measure, side: Side): string => { const value = measure[side]; return value === null ? '–' : measure.text(value, side); };

function Differences({list, when}: {list: Difference[]; when: string}) {
  const [all, setAll] = useState(false), seen = all ? list : list.slice(0, SHOWN);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="What differs inside the box">
        <table class="list" id="differs">
          <caption class="hidden">What differs inside the box, the most first</caption>
          <thead><tr><th scope="col">What differs, the most first</th><th scope="col">Measure</th><th scope="col">So it is</th><th scope="col" class="number">In the box</th>
            <th scope="col" class="number">Same cards, {when}</th><th scope="col" class="number">Other cards, same time</th></tr></thead>
          <tbody>{seen.map((one) => (
            <tr key={one.sentence} data-measure={one.measure.name} data-inside={one.measure.inside ?? ''} data-before={one.measure.before ?? ''} data-others={one.measure.others ?? ''}>
              <td class="text">{one.sentence}</td><td>{one.measure.name}</td>
              <td class={one.sign !== 'same' && (one.sign === 'more') === one.measure.bad ? 'bad' : 'quiet'}>{SIGNS[one.sign]}{one.sign === 'same' ? '' : one.than === 'others' ? ' than others' : ` than ${when === 'in the rest of the time shown' ? 'outside' : when}`}</td>
              <td class="number">{cell(one.measure, 'inside')}</td><td class="number">{cell(one.measure, 'before')}</td><td class="number">{cell(one.measure, 'others')}</td>
            </tr>))}</tbody>
        </table>
      </div>
      {list.length > SHOWN ? <p class="more quiet"><button type="button" onClick={() => setAll(!all)}>{all ? 'Show the largest alone' : `Show ${number(list.length - SHOWN)} smaller differences`}</button></p> : null}
    </>
  );
}

const KINDS: Record<string, string> = {rail_down: 'was down', rail_renewed: 'had its endpoint replaced', rail_doubted: 'was in doubt', rail_slow: 'was slow', rail_unreachable: 'did not reach a peer'};

// The states that the cards had in that time.
function States({faults, place}: {faults: Fault[]; place: Place}) {
  const {box, agent, nameOf} = place, own = faultsIn(faults, agent, (rail) => covers(box, rail), box.from, box.until);
  const other = faultsIn(faults, agent, (rail) => !covers(box, rail), box.from, box.until).length;
  if (own.length === 0) return <p class="lead" id="box-states">No fault of its cards was told in that time{other > 0 ? `; of other cards of ${agent}, ${number(other)}` : ''}.</p>;
  return (
    <ul class="lead" id="box-states">
      {own.slice(0, 6).map((fault, i) => <li key={i}><span class="bad">✕</span> {nameOf(fault.rail ?? 0)} {KINDS[fault.kind] ?? fault.kind} from <Time at={fault.at} />{fault.until ? <> until <Time at={fault.until} /></> : ', and still is'}{fault.text ? `: ${fault.text}` : ''}</li>)}
      {own.length > 6 ? <li class="quiet">and {number(own.length - 6)} faults more</li> : null}
    </ul>
  );
}

function Head({place, inside, came}: {place: Place; inside: Rollups; came: number}) {
  const {box, agent, nameOf, rails} = place, own = rails.filter((rail) => covers(box, rail)), sum = amountsOf(inside, own, came);
  const rounded = Date.parse(inside.from) !== box.from || Date.parse(inside.until) !== box.until;
  return (
    <p class="lead" id="inside">
      <strong>{own.length === 1 ? nameOf(own[0]!) : `${nameOf(box.first)} to ${nameOf(box.last)}`}</strong> of {agent} from <Time at={isoAt(box.from)} /> until <Time at={isoAt(box.until)} />, {duration((box.until - box.from) / 1000)}:{' '}
      {size(sum.bytes)}, {rate(sum.seconds > 0 ? sum.bytes / sum.seconds : 0)} over {plural(own.length, 'card')}.{' '}
      {rounded ? <>Amounts of that time are kept from <Time at={inside.from} /> until <Time at={inside.until} /> together. </> : null}
      <a href={linkTo('transfers', {agent, rail: own.length === 1 ? String(own[0]) : '', from: isoAt(box.from), until: isoAt(box.until)})}>Its transfers of that time</a>
    </p>
  );
}

export function Inside({place}: {place: Place}) {
  const {box, agent, view} = place, [from, until] = [Date.parse(view.from), Date.parse(view.until)], key = `${agent} ${boxText(box)}`, window = () => ({from: isoAt(box.from), until: isoAt(box.until)});
  const query = useQuery<Rollups>('/api/v1/rollups', () => ({by: 'rail', agent, ...window()}), everyOf(box), key);
  const faults = useQuery<{faults: Fault[]}>('/api/v1/faults', window, everyOf(box), key);
  const during = useTransfers(place, box.from, box.until), early = useTransfers(place, from, box.from), late = useTransfers(place, box.until, Math.min(until, schedulerNow() - schedulerNow() % 60000));
  if (!query.data) return <Nothing loading={query.loading} error={query.error} />;
  const outside = [...(early.data?.transfers ?? []), ...(late.data?.transfers ?? [])], when = whenOf({from, until}, box);
  const list = [...cardsOf(place, query.data, query.at), ...transfersOf(place, during.data?.transfers ?? [], outside)].sort((a, b) => b.score - a.score);
  const part = [during, early, late].some((one) => one.data?.next);
  return (
    <div class="inside">
      <Stale query={query} />
      <Head place={place} inside={query.data} came={query.at} />
      {list.length > 0 ? <p class="verdict" id="differs-most" data-kind={list[0]!.sign === 'same' ? 'good' : 'warn'}>{list[0]!.sign === 'same' ? 'Nothing differs by more than a tenth.' : <strong>{list[0]!.sentence}</strong>}</p> : null}
      <Differences list={list} when={when} />
      <p class="quiet">Times of transfers are of {number(during.data?.transfers.length ?? 0)} that ended in the box and {number(outside.length)} outside of it{part ? `, the newest ${number(LIMIT)} of a time` : ''}. Errors are endpoints replaced and stray arrivals.</p>
      {during.error || faults.error ? <p class="stale-note" role="alert">{during.error || faults.error}</p> : null}
      {faults.data ? <States faults={faults.data.faults} place={place} /> : null}
    </div>
  );
}
