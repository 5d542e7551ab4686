// A transfer as a trace of Chrome's JSON format, which Perfetto opens: a process for each side, threads for
// the stages and for each layer. Times are in microseconds since the opening.
import {stepsOf} from './critical';
import type {Timeline, Transfer} from './types';

interface TraceEvent { name: string; ph: string; pid: number; tid: number; ts?: number; dur?: number; s?: string; args?: object }

export function perfettoOf(transfer: Transfer, timeline: Timeline | null): {traceEvents: TraceEvent[]; otherData: object} {
  const events: TraceEvent[] = [];
  const name = (pid: number, tid: number, kind: string, text: string): void => {
    events.push({name: kind, ph: 'M', pid, tid, args: {name: text}});
  };
  const span = (pid: number, tid: number, text: string, from: number, to: number): void => {
    events.push({name: text, ph: 'X', pid, tid, ts: from * 1e6, dur: Math.max(0, to - from) * 1e6});
  };
  (['source', 'target'] as const).forEach((role, i) => {
    const pid = i + 1, moments = transfer.stages.filter((moment) => moment.role === role);
    name(pid, 0, 'process_name', `${role} ${transfer[role].agent ?? '?'}`);
    name(pid, 1, 'thread_name', 'stages');
    moments.forEach((moment, at) => {
      const after = moments[at + 1];
      if (after) span(pid, 1, `${moment.stage} → ${after.stage}`, moment.seconds, after.seconds);
    });
  });
  name(3, 0, 'process_name', 'layers');
  for (const layer of timeline?.layers ?? []) {
    name(3, layer.layer + 1, 'thread_name', `layer ${layer.layer}`);
    for (const step of stepsOf(layer)) span(3, layer.layer + 1, step.name, step.from, step.to);
  }
  for (const side of timeline?.sides ?? []) {
    for (const retry of side.retries) {
      events.push({name: `${retry.retries} writes again`, ph: 'i', s: 'p', pid: side.role === 'source' ? 1 : 2, tid: 1, ts: (retry.seconds ?? 0) * 1e6});
    }
  }
  return {traceEvents: events, otherData: {transfer: transfer.id, request: transfer.request, opened: transfer.opened}};
}

export function savePerfetto(transfer: Transfer, timeline: Timeline | null): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(perfettoOf(transfer, timeline))], {type: 'application/json'}));
  link.download = `kvrail-${transfer.id}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}
