// How the times of each part are spread: the percentiles of A above those of B, on one logarithmic axis.
import {duration} from './format';
import {DataTable} from './parts';
import type {Curves, Report, Spread, Stage} from './replay_report';
import {ms, stageMeaning, stageWord} from './replay_words';

const WIDTH = 420, HEIGHT = 84, EDGE = 28, LANES = {a: 18, b: 46}, CURVE = 120;
const seconds = (value: number): string => duration(value / 1000);

// One run: a line through its percentiles, with its own shape at each. The median's is the largest.
function Lane({which, spreads, x}: {which: 'a' | 'b'; spreads: Spread[]; x: (value: number) => number}) {
  const y = LANES[which], first = spreads[0]![which], last = spreads[spreads.length - 1]![which];
  return (
    <g class={`lane-${which}`}>
      <text x={2} y={y + 4}>{which.toUpperCase()}</text>
      <path class="reach" d={`M${x(first).toFixed(1)},${y}H${x(last).toFixed(1)}`} />
      {spreads.map((spread, i) => {
        const at = x(spread[which]), r = i === 0 ? 6 : 3.5, title = <title>{`${which.toUpperCase()}, ${spread.figure}: ${ms(spread[which])}`}</title>;
        return which === 'a' ? <circle key={spread.figure} cx={at} cy={y} r={r}>{title}</circle>
          : <rect key={spread.figure} x={at - r} y={y - r} width={2 * r} height={2 * r}>{title}</rect>;
      })}
    </g>
  );
}

// The share of the matched transfers, upwards, that took at most so long. B is dashed.
function Curve({curves, x}: {curves: Curves; x: (value: number) => number}) {
  const path = (list: number[]): string =>
    list.map((value, i) => `${i === 0 ? 'M' : 'L'}${x(value).toFixed(1)},${(CURVE * (1 - i / (list.length - 1))).toFixed(1)}`).join('');
  return (
    <g class="curves">
      <path class="axis" d={`M${EDGE},0V${CURVE}H${WIDTH - EDGE}M${EDGE},${CURVE / 2}H${WIDTH - EDGE}`} />
      <text x={2} y={10}>all</text><text x={2} y={CURVE / 2 + 4}>half</text>
      <path class="curve lane-a" d={path(curves.a)} />
      <path class="curve lane-b" d={path(curves.b)} />
    </g>
  );
}

function Spreads({stage}: {stage: Stage}) {
  const {curves} = stage, values = [...stage.spreads.flatMap(({a, b}) => [a, b]), ...(curves ? [...curves.a, ...curves.b] : [])];
  const some = values.filter((value) => value > 0), top = curves ? CURVE + 10 : 0;
  const high = Math.max(...values, Math.min(...some) * 2), low = Math.max(Math.min(...some), high / 1000);
  const x = (value: number): number => EDGE + Math.log(Math.max(value, low) / low) / Math.log(high / low) * (WIDTH - 2 * EDGE);
  const said = ['p50', 'p99'].flatMap((figure) => stage.spreads.filter((one) => one.figure === figure)).map(({figure, a, b}) => `${figure} ${seconds(a)} in A, ${seconds(b)} in B`);
  return (
    <figure class="chart spreads" data-time={stage.name}>
      <figcaption><h3>{stageWord(stage.name)}</h3><span class="quiet">{stageMeaning(stage.name)}</span></figcaption>
      {stage.spreads.length === 0 ? <p class="empty">No transfer of both runs has this time.</p>
        : some.length === 0 ? <p class="empty">All are 0 ms.</p> : (
          <svg viewBox={`0 -4 ${WIDTH} ${top + HEIGHT + 4}`} role="img" aria-label={`${stageWord(stage.name)}: ${said.join('; ')}`}>
            {curves ? <Curve curves={curves} x={x} /> : null}
            <g transform={`translate(0,${top})`}>
              <path class="axis" d={`M${EDGE},${HEIGHT - 18}H${WIDTH - EDGE}`} />
              <Lane which="a" spreads={stage.spreads} x={x} />
              <Lane which="b" spreads={stage.spreads} x={x} />
              <text x={EDGE} y={HEIGHT - 4}>{seconds(low)}</text>
              <text x={WIDTH - EDGE} y={HEIGHT - 4} text-anchor="end">{seconds(high)}</text>
            </g>
          </svg>)}
    </figure>
  );
}

export function Distributions({report}: {report: Report}) {
  const names = report.stages.find((stage) => stage.spreads.length > 0)?.spreads.map((spread) => spread.figure) ?? [];
  const pointsOf = ({name, curves}: Stage): string[][] =>
    curves?.a.map((a, i) => [stageWord(name), `${100 * i / (curves.a.length - 1)} % of transfers`, ms(a), ms(curves.b[i]!)]) ?? [];
  const rows = report.stages.flatMap((stage) =>
    [...stage.spreads.map(({figure, a, b}) => [stageWord(stage.name), figure, ms(a), ms(b)]), ...pointsOf(stage)]);
  if (names.length === 0) return null;
  return (
    <div class="distributions">
      <h3>How the times are spread</h3>
      <ul class="legend"><li class="key-run-a">A, a circle</li><li class="key-run-b">B, a square</li>
        <li class="none">{names.join(', ')} from left to right, the largest mark is p50; the time on a logarithmic scale</li>
        {report.stages.some((stage) => stage.curves) ? <li class="none">a line: the share of the matched transfers that took at most so long, B dashed</li> : null}</ul>
      <div class="charts three">{report.stages.map((stage) => <Spreads key={stage.name} stage={stage} />)}</div>
      <DataTable caption={`percentiles of ${report.from}`} head={['Time', 'Percentile', 'A', 'B']} rows={rows} />
    </div>
  );
}
