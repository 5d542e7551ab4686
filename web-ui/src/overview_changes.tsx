// What changed: starts and ends of agents and their options, what broke and came back, and which stage moved.
import {linkTo, range, rangeSeconds, rangeWord} from './address';
import {faultText, isOpen} from './fault_words';
import {duration, plural} from './format';
import {Nothing, Section, Stale, State, Time} from './parts';
import {useQuery, type Query} from './query';
import type {Comparison, Fault, Mark} from './types';
import {windowEvery, windowParameters, windowsOf} from './window';
import {TIMES} from './words';

const SHOWN = 12;

function sentence(mark: Mark): string {
  if (mark.kind === 'started') return `started, version ${mark.after ?? 'unknown'}`;
  if (mark.kind === 'stopped') return `said goodbye, version ${mark.before ?? 'unknown'}`;
  return `${mark.kind}: ${mark.before || 'nothing'} → ${mark.after || 'nothing'}`;
}

interface Change { key: string; at: string; agent: string | null; text: string; open: boolean; kind: 'mark' | 'fault' }

// What is still broken comes first, then what is newest. A fault that is over changed last when it ended.
function changesOf(marks: Mark[], faults: Fault[]): Change[] {
  const all: Change[] = marks.map((mark) => ({key: `${mark.at}${mark.agent}${mark.kind}`, at: mark.at, agent: mark.agent, text: sentence(mark), open: false, kind: 'mark'}));
  for (const fault of faults) {
    all.push({key: `${fault.at}${fault.agent}${fault.kind}${fault.rail}${fault.peer}`, at: fault.until ?? fault.at, agent: fault.agent,
      text: faultText(fault), open: isOpen(fault), kind: 'fault'});
  }
  return all.sort((a, b) => (a.open !== b.open ? (a.open ? -1 : 1) : a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
}

function Moved({seconds, id, word}: {seconds: number; id: string; word: string}) {
  const query = useQuery<Comparison>('/api/v1/compare', () => windowsOf(seconds), Math.max(5000, windowEvery()), `${id} ${seconds}`);
  const data = query.data;
  if (!data) return <Nothing loading={query.loading} error={query.error} />;
  const {window, with: before} = data;
  if (window.transfers === 0 || before.transfers === 0) {
    return <p class="lead" id={id}>Of the last {word} and the {word} before, in one no transfer ended: there is nothing to compare.</p>;
  }
  const change = data.differences['exposed']?.['p99_seconds'] ?? null;
  return (
    <><Stale query={query} /><p class="lead" id={id}>
      <strong>The last {word}</strong> against the {word} before: {data.text.replace(/-?[\d.e-]+ s\b/g, (text) => duration(parseFloat(text)))}.
      {change === null ? '' : ` Exposed p99 is ${duration(Math.abs(change))} ${change > 0 ? 'longer' : 'shorter'}.`}
      {data.moved ? ` (${data.moved}: ${TIMES[data.moved] ?? data.moved}.)` : ''}
      {` ${plural(window.transfers, 'transfer')} ended, ${window.failed} of them not done; before ${before.transfers}, ${before.failed}.`}
    </p></>
  );
}

export function Changes({marks}: {marks: Query<{marks: Mark[]; more: boolean}>}) {
  const faults = useQuery<{faults: Fault[]; more: boolean}>('/api/v1/faults', windowParameters, Math.max(5000, windowEvery()), range.value);
  const list = changesOf(marks.data?.marks ?? [], faults.data?.faults ?? []), half = rangeSeconds.value / 2, more = marks.data?.more || faults.data?.more;
  return (
    <Section title="What changed" note={`in the last ${rangeWord.value}`} id="changes">
      <Moved seconds={60} id="minute" word="minute" />
      <Moved seconds={half} id="moved" word={duration(half)} />
      <Stale query={marks} />
      <Stale query={faults} />
      {list.length === 0
        ? <Nothing loading={marks.loading || faults.loading} error={marks.error || faults.error}>No agent has started, stopped or changed, and nothing broke.</Nothing>
        : (
          <div class="scroll low" tabIndex={0} role="region" aria-label="Changes">
            <table class="list">
              <thead><tr><th scope="col">Time</th><th scope="col">Agent</th><th scope="col">Change</th></tr></thead>
              <tbody>{list.slice(0, SHOWN).map((change) => (
                <tr key={change.key} data-change={change.kind} data-still={change.open ? 'yes' : undefined}>
                  <td>{change.open ? <span class="quiet">since </span> : null}<Time at={change.at} withAge /></td>
                  <td>{change.agent ? <a href={linkTo('fleet', {q: change.agent})}>{change.agent}</a> : '–'}</td>
                  <td class="text">{change.open ? <><State name="failed" word="still" />{' '}</> : null}{change.text}</td>
                </tr>))}</tbody>
            </table>
          </div>)}
      {list.length > SHOWN || more ? <p class="quiet">The newest {SHOWN} of {more ? `more than ${list.length}` : list.length}; what is still broken stands first.</p> : null}
    </Section>
  );
}
