// Where the two windows of Latency are chosen: by presets, or each by its begin and end, or by how long ago it begins.
import {want, wanted} from './address';
import {CHOICES, chosenName, lastOf, readSpan, spanText, type Pair} from './latency_windows';
import {Time} from './parts';
import {schedulerNow} from './store';
import {isoAt} from './window';

const UNITS: [string, string][] = [['m', 'minutes'], ['h', 'hours'], ['d', 'days']];

// The value of an input of local time: without its zone.
function localInput(ms: number): string {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
  return at.toISOString().slice(0, 19);
}

// What is typed may be no time: it stays as it is, so that the page can say so.
const isoOf = (input: string): string => { const at = Date.parse(input); return Number.isFinite(at) ? isoAt(at).replace('.000Z', 'Z') : input; };

function choose(name: string, pair: Pair | null): void {
  if (name !== 'own') want({compare: name === 'before' ? '' : name, a: '', b: ''});
  else want({compare: name, a: wanted('a') || (pair ? spanText(pair.a) : 'last:15m'), b: wanted('b') || (pair ? spanText(pair.b) : 'last:60m')});
}

function BeginAndEnd({name, label}: {name: 'a' | 'b'; label: string}) {
  const [from = '', until = ''] = wanted(name).split('/');
  const shown = (text: string): string => (Number.isFinite(Date.parse(text)) ? localInput(Date.parse(text)) : '');
  return (
    <>
      <label class="field one">begins
        <input type="datetime-local" step="1" name={`${name}-from`} aria-label={`${label} begins, local time`} value={shown(from)} onChange={(event) => want({[name]: `${isoOf(event.currentTarget.value)}/${until}`})} /></label>
      <label class="field one">ends
        <input type="datetime-local" step="1" name={`${name}-until`} aria-label={`${label} ends, local time`} value={shown(until)} onChange={(event) => want({[name]: `${from}/${isoOf(event.currentTarget.value)}`})} /></label>
    </>
  );
}

function LastSoLong({name, label}: {name: 'a' | 'b'; label: string}) {
  const last = lastOf(wanted(name)) ?? {count: 15, unit: 'm'};
  return (
    <span class="last-long">
      <input type="number" min="1" step="1" name={`${name}-count`} aria-label={`${label}: how many`} value={last.count} onChange={(event) => want({[name]: `last:${Math.max(0, Number(event.currentTarget.value) || 0)}${last.unit}`})} />
      <select name={`${name}-unit`} aria-label={`${label}: unit`} value={last.unit} onChange={(event) => want({[name]: `last:${last.count}${event.currentTarget.value}`})}>
        {UNITS.map(([unit, word]) => <option key={unit} value={unit}>{word}</option>)}
      </select>
    </span>
  );
}

function OwnWindow({name, label}: {name: 'a' | 'b'; label: string}) {
  const isLast = wanted(name).startsWith('last:');
  const turn = (last: boolean): void => {
    const {span} = readSpan(wanted(name), schedulerNow(), label);
    const minutes = span ? Math.max(1, Math.round((span.until - span.from) / 60000)) : 15;
    want({[name]: last ? `last:${minutes}m` : span ? spanText({from: Math.floor(span.from / 1000) * 1000, until: Math.floor(span.until / 1000) * 1000}) : ''});
  };
  return (
    <fieldset class="own-window" data-window={name}>
      <legend><span class={name === 'a' ? 'key-now' : 'key-before'} aria-hidden="true" />{label}</legend>
      <select name={`${name}-kind`} aria-label={`${label}: how it is given`} value={isLast ? 'last' : 'times'} onChange={(event) => turn(event.currentTarget.value === 'last')}>
        <option value="times">begin and end</option><option value="last">the last</option>
      </select>
      {isLast ? <LastSoLong name={name} label={label} /> : <BeginAndEnd name={name} label={label} />}
    </fieldset>
  );
}

export function WindowChoice({pair}: {pair: Pair | null}) {
  const chosen = chosenName();
  return (
    <div class="window-choice">
      <div class="filters" role="group" aria-label="Compared with">
        {CHOICES.map(([name, label]) => <button key={name} type="button" data-compare={name} aria-pressed={chosen === name ? 'true' : 'false'} onClick={() => choose(name, pair)}>{label}</button>)}
      </div>
      {chosen === 'own' ? <div class="own-windows"><OwnWindow name="a" label="Window A" /><OwnWindow name="b" label="Window B" /></div> : null}
    </div>
  );
}

const utc = (text: string): string => text.slice(0, 19).replace('T', ' ');

// The time of a window as the scheduler counted it, local and in UTC.
export function SpanTimes({from, until}: {from: string; until: string}) {
  return <span><Time at={from} /> to <Time at={until} /> <span class="quiet">({utc(from)} to {utc(until).slice(from.slice(0, 10) === until.slice(0, 10) ? 11 : 0)} UTC)</span></span>;
}
