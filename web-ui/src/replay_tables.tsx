// The tables of a comparison: the two runs, and each part of their transfers.
import {number, plural, size} from './format';
import {OUTCOMES, type Change, type Report, type Stage} from './replay_report';
import {between, Judged, ms, percent, signed, stageMeaning, stageWord} from './replay_words';

export function Runs({report}: {report: Report}) {
  const {runs, compared} = report;
  const ended = OUTCOMES.filter((name) => name === 'done' || runs.some((run) => run.outcomes[name] > 0));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`The runs of ${report.from}`}>
      <table class="list runs">
        <caption class="hidden">The runs of {report.from}</caption>
        <thead><tr><th scope="col">Run</th><th scope="col">File</th><th scope="col" class="number">Transfers</th>
          {compared ? <><th scope="col" class="number">Matched</th><th scope="col" class="number">Unmatched</th></>
            : <><th scope="col" class="number">Bytes</th><th scope="col" class="number">Lasted</th></>}
          {ended.map((name) => <th key={name} scope="col" class="number">{name}</th>)}</tr></thead>
        <tbody>{runs.map((run, i) => (
          <tr key={i} data-run={i === 0 ? 'a' : 'b'}>
            <th scope="row"><span class={i === 0 ? 'run-a' : 'run-b'}>{i === 0 ? 'A' : 'B'}</span></th>
            <td class="text">{run.name}</td><td class="number">{number(run.transfers)}</td>
            {compared ? <><td class="number">{number(compared.matched)}</td><td class="number">{number(run.transfers - compared.matched)}</td></>
              : <><td class="number">{size(run.bytes ?? 0)}</td><td class="number">{number(run.seconds ?? 0, 1)} s</td></>}
            {ended.map((name) => <td key={name} class="number">{number(run.outcomes[name])}</td>)}
          </tr>))}</tbody>
      </table>
    </div>
  );
}

const countsOf = ({counts: [a, b]}: Stage, paired: boolean): string =>
  (paired ? plural(a, 'pair') : a === b ? plural(a, 'transfer') : `${number(a)} and ${plural(b, 'transfer')}`);

function Row({change, stage, paired, first, span}: {change: Change; stage: Stage; paired: boolean; first: boolean; span: number}) {
  return (
    <tr data-figure={`${change.figure}_${stage.name}`} class={change.verdict === 'longer' || change.verdict === 'shorter' ? 'far' : ''}>
      {first ? <th scope="rowgroup" rowSpan={span} title={stageMeaning(stage.name)}>{stageWord(stage.name)}<span class="quiet">{countsOf(stage, paired)}</span></th> : null}
      <th scope="row">{change.figure}</th>
      <td><Judged verdict={change.verdict} /></td>
      <td class="number">{ms(change.a)}</td><td class="number">{ms(change.b)}</td><td class="number">{signed(change.b - change.a)}</td>
      <td class="number">{percent(change)}</td>{paired ? <td class="number">{between(change)}</td> : null}
    </tr>
  );
}

export function Changes({report}: {report: Report}) {
  const paired = report.compared !== null;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Times of ${report.from}`}>
      <table class="list changes">
        <caption class="hidden">Times of {report.from}</caption>
        <thead><tr><th scope="col">Time</th><th scope="col">Figure</th><th scope="col">B is</th><th scope="col" class="number">A</th><th scope="col" class="number">B</th>
          <th scope="col" class="number">B − A</th><th scope="col" class="number">of A</th>
          {paired ? <th scope="col" class="number">95 % of draws</th> : null}</tr></thead>
        {report.stages.map((stage) => (
          <tbody key={stage.name}>
            {stage.changes.map((change, i) => <Row key={change.figure} change={change} stage={stage} paired={paired} first={i === 0} span={stage.changes.length} />)}
            {stage.changes.length === 0 ? (
              <tr><th scope="row" title={stageMeaning(stage.name)}>{stageWord(stage.name)}</th>
                <td colSpan={paired ? 7 : 6} class="quiet">no transfer that is done in both has this time</td></tr>) : null}
          </tbody>))}
      </table>
    </div>
  );
}
