// What changed: starts and ends of agents and their options, and which stage moved.
import {linkTo, range, rangeSeconds, rangeWord} from './address';
import {duration} from './format';
import {Nothing, Section, Stale, Time} from './parts';
import {useQuery, type Query} from './query';
import type {Comparison, Mark} from './types';
import {windowEvery, windowsOf} from './window';
import {TIMES} from './words';

const SHOWN = 12;

function sentence(mark: Mark): string {
  if (mark.kind === 'started') return `started, version ${mark.after ?? 'unknown'}`;
  if (mark.kind === 'stopped') return `said goodbye, version ${mark.before ?? 'unknown'}`;
  return `${mark.kind}: ${mark.before || 'nothing'} → ${mark.after || 'nothing'}`;
}

function Moved() {
  const query = useQuery<Comparison>('/api/v1/compare', () => windowsOf(rangeSeconds.value / 2), // this half of the range beside the half before it
     Math.max(5000, windowEvery()), range.value);
  const data = query.data, half = duration(rangeSeconds.value / 2);
  if (!data) return <Nothing loading={query.loading} error={query.error} />;
  if (data.window.transfers === 0 || data.with.transfers === 0) {
    return <p class="lead" id="moved">In one of the last two {half} no transfer ended, so there is nothing to compare.</p>;
  }
  const change = data.differences['exposed']?.['p99_seconds'] ?? null;
  return (
    <><Stale query={query} /><p class="lead" id="moved">
      Against the {half} before: {data.text.replace(/-?[\d.e-]+ s\b/g, (text) => duration(parseFloat(text)))}.
      {change === null ? '' : ` Exposed p99 is ${duration(Math.abs(change))} ${change > 0 ? 'longer' : 'shorter'}.`}
      {data.moved ? ` (${data.moved}: ${TIMES[data.moved] ?? data.moved}.)` : ''}
    </p></>
  );
}

export function Changes({marks}: {marks: Query<{marks: Mark[]; more: boolean}>}) {
  const list = marks.data?.marks ?? [];
  return (
    <Section title="What changed" note={`in the last ${rangeWord.value}`} id="changes">
      <Moved />
      <Stale query={marks} />
      {list.length === 0
        ? <Nothing loading={marks.loading} error={marks.error}>No agent has started, stopped or changed.</Nothing>
        : (
          <div class="scroll low" tabIndex={0} role="region" aria-label="Changes">
            <table class="list">
              <thead><tr><th scope="col">Time</th><th scope="col">Agent</th><th scope="col">Change</th></tr></thead>
              <tbody>{list.slice(0, SHOWN).map((mark) => (
                <tr key={`${mark.at}${mark.agent}${mark.kind}`}>
                  <td><Time at={mark.at} withAge /></td>
                  <td><a href={linkTo('fleet', {q: mark.agent})}>{mark.agent}</a></td>
                  <td class="text">{sentence(mark)}</td>
                </tr>))}</tbody>
            </table>
          </div>)}
      {list.length > SHOWN || marks.data?.more ? <p class="quiet">The newest {SHOWN} of {marks.data?.more ? `more than ${list.length}` : list.length}.</p> : null}
    </Section>
  );
}
