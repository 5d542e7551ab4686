// The timeline of one transfer: a row a layer, and the bytes of each rail; or the stages of both sides.
import {useState} from 'preact/hooks';

import {criticalOf, stepsOf} from './critical';
import {duration, number, share, size} from './format';
import {DataTable} from './parts';
import type {Layer, Timeline, TimelineRail, Transfer} from './types';

const LEFT = 78, RIGHT = 12, WIDTH = 900;
const PHASES: [string, string][] = [['wait', 'prefill'], ['queue', 'ready → posted'], ['way', 'posted → landed'], ['deliver', 'landed → delivered']];
const PHASE_OF: Record<string, string> = {'waiting for prefill': 'wait', 'waiting to be posted': 'queue', 'on the way': 'way', 'to be delivered': 'deliver'};

function Axis({begin, end, height, x}: {begin: number; end: number; height: number; x: (seconds: number) => number}) {
  const ticks = Array.from({length: 6}, (_, i) => begin + (end - begin) * i / 5);
  return (
    <g class="axis">
      {ticks.map((at, i) => (
        <g key={i}>
          <line x1={x(at)} x2={x(at)} y1={16} y2={height} />
          <text x={x(at)} y={11} text-anchor={i === 5 ? 'end' : i === 0 ? 'start' : 'middle'}>{duration(at)}</text>
        </g>))}
    </g>
  );
}

function rowHeight(count: number): number {
  return count > 60 ? 7 : count > 30 ? 10 : 14;
}

function LayerRow({layer, y, height, x, critical, labelled}:
  {layer: Layer; y: number; height: number; x: (seconds: number) => number; critical: boolean; labelled: boolean}) {
  const steps = stepsOf(layer), label = `layer ${layer.layer}: ${steps.map((step) => `${step.name} ${duration(step.to - step.from)}`).join(', ')}`;
  const first = steps[0], last = steps[steps.length - 1];
  return (
    <g class={critical ? 'layer critical' : 'layer'}>
      <title>{label}{critical ? ' (critical path)' : ''}</title>
      {labelled ? <text class="name" x={LEFT - 8} y={y + height / 2 + 4} text-anchor="end">{critical ? `▶ ${layer.layer}` : layer.layer}</text> : null}
      {steps.map((step) => <rect key={step.name} class={`phase-${PHASE_OF[step.name]}`} x={x(step.from)} y={y + 1} width={Math.max(0.8, x(step.to) - x(step.from))} height={height - 2} />)}
      {critical && first && last ? <rect class="frame" x={x(first.from)} y={y} width={Math.max(2, x(last.to) - x(first.from))} height={height} /> : null}
    </g>
  );
}

function Rails({rails, role}: {rails: TimelineRail[]; role: string}) {
  const all = rails.reduce((sum, rail) => sum + (rail.bytes ?? 0), 0);
  if (rails.length === 0) return null;
  return (
    <div class="rail-shares">
      <h4>Rails of the {role}</h4>
      {all > 0 ? (
        <div class="stages tall" role="img" aria-label={rails.map((rail) => `${rail.name ?? rail.index} ${share(rail.bytes ?? 0, all)}`).join(', ')}>
          {rails.map((rail) => <i key={rail.index} class={`rail-${rail.index % 8}`} style={{flexGrow: String(Math.max(1, rail.bytes ?? 0))}} />)}
        </div>) : null}
      <ul class="legend">
        {rails.map((rail) => (
          <li key={rail.index} class={`rail-${rail.index % 8}`}>{rail.name ?? `rail ${rail.index}`}
            {rail.bytes === null ? '' : ` ${size(rail.bytes)} in ${number(rail.writes ?? 0)} writes${rail.retries ? `, ${rail.retries} again` : ''}`}</li>))}
      </ul>
    </div>
  );
}

export function LayerTimeline({transfer, timeline}: {transfer: Transfer; timeline: Timeline}) {
  const layers = timeline.layers, row = rowHeight(layers.length), critical = criticalOf(transfer, layers);
  const ends = layers.flatMap((layer) => [layer.ready_seconds, layer.posted_seconds, layer.landed_seconds, layer.delivered_seconds]).filter((at): at is number => at !== null);
  const end = Math.max(1e-6, ...ends), soonest = Math.max(0, Math.min(...ends));
  // Layers that come close together at the end of a long wait would be too thin to see.
  const [near, setNear] = useState(soonest > 0.5 * end);
  const begin = near ? Math.max(0, soonest - 0.05 * (end - soonest)) : 0;
  const x = (seconds: number): number => LEFT + Math.max(0, (seconds - begin) / Math.max(1e-9, end - begin)) * (WIDTH - LEFT - RIGHT);
  const height = 20 + layers.length * row, every = row >= 14 ? 1 : row >= 10 ? 2 : 5;
  const rows = layers.map((layer) => [layer.layer, duration(layer.ready_seconds), duration(layer.posted_seconds), duration(layer.landed_seconds), duration(layer.delivered_seconds)]);
  return (
    <figure class="chart">
      <figcaption>
        <h3>Layers</h3>
        <ul class="legend">{PHASES.map(([name, word]) => <li key={name} class={`phase-${name}`}>{word}</li>)}
          {critical ? <li class="phase-frame">▶ critical path: layer {critical.layer}</li> : null}</ul>
        <button type="button" aria-pressed={near ? 'true' : 'false'} onClick={() => setNear(!near)}>Zoom to the layers</button>
      </figcaption>
      <div class="scroll drawing" tabIndex={0} role="region" aria-label="Timeline of the layers">
        <svg class="timeline layers" viewBox={`0 0 ${WIDTH} ${height}`} role="img"
          aria-label={`A row for each of ${layers.length} layers. ${critical?.text ?? ''} The table below has the same data.`}>
          <Axis begin={begin} end={end} height={height} x={x} />
          {layers.map((layer, i) => <LayerRow key={layer.layer} layer={layer} y={20 + i * row} height={row} x={x}
            critical={critical?.layer === layer.layer} labelled={i % every === 0 || critical?.layer === layer.layer} />)}
        </svg>
      </div>
      {timeline.sides.map((side) => <Rails key={side.role} rails={side.rails} role={side.role} />)}
      <DataTable caption="layers" head={['Layer', 'Ready', 'Posted', 'Landed', 'Delivered']} rows={rows} />
    </figure>
  );
}

const SPANS: Record<string, [string, string, string][]> = {
  source: [['prefill', 'first_ready', 'last_ready'], ['move', 'first_post', 'last_post'], ['finish', 'last_post', 'ended']],
  target: [['wait', 'opened', 'matched'], ['prefill', 'granted', 'first_land'], ['move', 'first_land', 'last_land'], ['finish', 'last_land', 'ended']],
};

interface Tick { text: string; x: number; at: number; y: number | null }

// Overlapping labels go above and below in turns, and further out where that is not enough.
function placeTicks(moments: Transfer['stages'], x: (seconds: number) => number, y: number): Tick[] {
  const free = [-Infinity, -Infinity, -Infinity, -Infinity], rows = [y - 12, y + 21, y - 24, y + 33];
  return moments.map((moment) => {
    const at = x(moment.seconds), text = `${moment.stage.replace('_', ' ')} ${duration(moment.seconds)}`;
    const length = text.length * 6.2, begin = Math.min(at, WIDTH - 4 - length), row = free.findIndex((used) => begin > used + 8);
    if (row >= 0) free[row] = begin + length;
    return {text, x: begin, at, y: rows[row] ?? null}; // no room: the table shows it
  });
}

export function StageTimeline({transfer}: {transfer: Transfer}) {
  const end = Math.max(1e-6, ...transfer.stages.map((moment) => moment.seconds));
  const x = (seconds: number): number => LEFT + seconds / end * (WIDTH - LEFT - RIGHT);
  const rows = transfer.stages.map((moment) => [moment.stage.replace('_', ' '), moment.role, duration(moment.seconds)]);
  return (
    <figure class="chart">
      <figcaption><h3>Stages</h3></figcaption>
      <svg class="timeline" viewBox={`0 0 ${WIDTH} 176`} role="img" aria-label="Stages of both sides over time; the table below has the same">
        {(['source', 'target'] as const).map((role, i) => {
          const y = 44 + 88 * i, moments = transfer.stages.filter((moment) => moment.role === role);
          const at = Object.fromEntries(moments.map((moment) => [moment.stage, moment.seconds]));
          return (
            <g key={role}>
              <text class="name" x={0} y={y + 4}>{role}</text>
              <line class="track" x1={LEFT} x2={WIDTH - RIGHT} y1={y} y2={y} />
              {(SPANS[role] ?? []).map(([name, from, to]) => {
                const begin = at[from], stop = at[to];
                return begin === undefined || stop === undefined ? null
                  : <line key={name} class={`span stage-${name}`} x1={x(begin)} x2={Math.max(x(stop), x(begin) + 1)} y1={y} y2={y} />;
              })}
              {placeTicks(moments, x, y).map((tick, n) => (
                <g key={n}><line class="tick" x1={tick.at} x2={tick.at} y1={y - 6} y2={y + 6} />
                  {tick.y === null ? null : <text x={tick.x} y={tick.y}>{tick.text}</text>}</g>))}
            </g>);
        })}
      </svg>
      <DataTable caption="stages" head={['Stage', 'Side', 'Since the opening']} rows={rows} />
    </figure>
  );
}
