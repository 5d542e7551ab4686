// Run A against run B: files of `kvrail compare` or of two summaries, read in the browser and sent to nobody.
import {useEffect, useState} from 'preact/hooks';

import {Section} from './parts';
import {Distributions} from './replay_chart';
import {close, exchange, opened, openFiles, reading, reports, wrong} from './replay_open';
import type {Report} from './replay_report';
import {Changes, Runs} from './replay_tables';

const SENTENCES_MAX = 64; // of options, and of rails, that kvrail writes

// A file may be dropped anywhere on the page: beside the field, the browser would leave the page for it.
function useDrop(): boolean {
  const [over, setOver] = useState(false);
  useEffect(() => {
    const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false;
    const drag = (event: DragEvent): void => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent): void => { if (event.relatedTarget === null) setOver(false); };
    const drop = (event: DragEvent): void => {
      setOver(false);
      if (!hasFiles(event)) return;
      event.preventDefault();
      void openFiles([...event.dataTransfer!.files]);
    };
    addEventListener('dragover', drag);
    addEventListener('dragleave', leave);
    addEventListener('drop', drop);
    return () => {
      removeEventListener('dragover', drag);
      removeEventListener('dragleave', leave);
      removeEventListener('drop', drop);
    };
  }, []);
  return over;
}

const FIELD = 'replay-files';

function closeOne(number: number): void {
  close(number);
  document.getElementById(FIELD)?.focus(); // its button is gone
}

function Files() {
  const files = opened.value, summaries = files.length === 2 && files[0]!.kind === 'summary';
  if (files.length === 0) return null;
  return (
    <ul class="files" aria-label="Open files">
      {files.map((file, i) => (
        <li key={file.number}>
          {file.kind === 'summary' ? <span class={i === 0 ? 'run-a' : 'run-b'}>{i === 0 ? 'A' : 'B'}</span> : null}
          <strong>{file.name}</strong><span class="quiet">{file.kind}</span>
          <button type="button" aria-label={`Close ${file.name}`} onClick={() => closeOne(file.number)}>Close</button>
        </li>))}
      {summaries ? <li><button type="button" id="exchange" onClick={exchange}>Exchange A and B</button></li> : null}
    </ul>
  );
}

function Opener() {
  const over = useDrop(), names = reading.value, shown = reports.value;
  const said = names.length > 0 ? `Reading ${names.join(' and ')}…` : shown.length > 0 ? `Shown: ${shown.map((report) => report.from).join(', and ')}` : '';
  return (
    <Section title="Run A against run B" note="Files stay in this browser: nothing of them is sent, and closing the tab forgets them." id="opener">
      <div class="drop" data-over={over ? 'yes' : undefined} aria-busy={names.length > 0 ? 'true' : undefined}>
        <input id={FIELD} class="hidden" type="file" multiple aria-describedby="replay-hint" accept=".json,application/json" onChange={(event) => {
          const field = event.currentTarget, files = [...(field.files ?? [])];
          field.value = ''; // the same file may be chosen again
          void openFiles(files);
        }} />
        <label class="button" for={FIELD}>Choose files</label>
        <span id="replay-hint">or drop them here: one comparison, or two files of a kind</span>
        {names.length > 0 ? <span class="quiet">{said}</span> : null}
      </div>
      <span class="hidden" role="status" id="replay-said">{said}</span>
      {wrong.value.map((text, i) => <p key={i} class="banner bad" role="alert">{text}</p>)}
      <Files />
    </Section>
  );
}

function Explained() {
  return (
    <Section title="How to get a file" id="explained">
      {opened.value.length === 1 ? <p class="lead" id="one-more">One summary is open. Open that of the other run to see both.</p> : null}
      <p class="lead">“kvrail compare” says what changed between two traces of the same requests, and how much of it may be chance:</p>
      <pre tabIndex={0}><code>{'kvrail compare a.kvtrace b.kvtrace --json changes.json'}</code></pre>
      <p class="lead">Where the traces are on two hosts, and too large to be moved, two summaries show the same times without a verdict:</p>
      <pre tabIndex={0}><code>{'kvrail trace export --to summary a.kvtrace --output a.json\nkvrail trace export --to summary b.kvtrace --output b.json'}</code></pre>
      <p class="lead">Traces come from “kvrail trace record”, which asks this scheduler, and from “kvrail replay --virtual --record”, which needs no host.</p>
    </Section>
  );
}

function Sentences({title, of, none, list}: {title: string; of: string; none: string; list: string[]}) {
  return (
    <div>
      <h3>{title}</h3>
      {list.length === 0 ? <p class="quiet">{none}</p> : (
        <div class="scroll low" tabIndex={0} role="region" aria-label={`${title}, ${of}`}><ul class="sentences">{list.map((text, i) => <li key={i}>{text}</li>)}</ul></div>)}
      {list.length >= SENTENCES_MAX ? <p class="quiet">There may be more: kvrail names {SENTENCES_MAX} at most.</p> : null}
    </div>
  );
}

function kindOf({compared, stages}: Report): 'good' | 'warn' | 'none' {
  if (!compared?.distinguishable) return 'none';
  const mean = stages.find((stage) => stage.name === 'total')?.changes.find((change) => change.figure === 'mean');
  return mean?.verdict === 'shorter' ? 'good' : 'warn';
}

function Comparison({report}: {report: Report}) {
  const {compared} = report;
  return (
    <Section title={report.from} note={compared
      ? `requests matched ${compared.matchedBy === 'id' ? 'by their ids' : 'by time and tokens, because no id is in both'}`
      : 'two summaries: their requests are not matched'}>
      <div class="comparison">
        <p class="verdict said" data-kind={kindOf(report)}>{report.verdict}</p>
        <Runs report={report} />
        {compared ? (
          <div class="columns">
            <Sentences title="Changed options" of={report.from} none="No option differs." list={compared.options} />
            <Sentences title="Changed shares of rails" of={report.from} none="No rail carried another share of its agent's bytes." list={compared.rails} />
          </div>) : <p class="quiet">Summaries name no options, and no single requests: “kvrail compare” of both traces says what changed, and what chance may have made.</p>}
        <div>
          <h3>Times of transfers that are done</h3>
          <p class="quiet">{compared
            ? 'Each difference stands beside the range that 95 % of random draws of the requests give it. The verdict asks for more: where nothing changed, about one file in 20 at most calls any of its times longer or shorter.'
            : 'Percentiles of a summary are those of a histogram: up to 2 % too large.'}</p>
        </div>
        <Changes report={report} />
        <Distributions report={report} />
      </div>
    </Section>
  );
}

export function Replay() {
  return (
    <>
      <Opener />
      {reports.value.length === 0 ? <Explained /> : <div class={reports.value.length > 1 ? 'beside two' : 'beside'}>{reports.value.map((report, i) => <Comparison key={i} report={report} />)}</div>}
    </>
  );
}
